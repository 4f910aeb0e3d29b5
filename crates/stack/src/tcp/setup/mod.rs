//! Connection setup, until both SYNs have been acknowledged.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `handshake` | SYN-SENT and SYN-RECEIVED, active and simultaneous open | 9293 §3.5, §3.10.7 |
//! | `listener` | passive open: the SYN queue and the accept queue | 9293 §3.10.7.2 |
//! | `negotiated` | the options that both SYNs agree on | 9293 §3.7.1, 7323, 2018 |
//! | `cookies` | SYN cookies, which replace the SYN queue when it is full | 4987 §3.6 |
//! | `isn` | initial sequence numbers and timestamp offsets | 6528, 7323 §7.1 |

mod cookies;
mod handshake;
mod isn;
pub(super) mod listener;
pub(super) mod negotiated;
