//! Timers: their deadlines, what happens at each, and the measurements that set them.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `timeouts` | retransmission, probes, keepalive | 6298, 8985 §7, 9293 §3.8, 5482 |
//! | `rtt` | round-trip time and retransmission timeout | 6298, 8985 §6.1 |
//! | `peer_ack_delay` | the peer's acknowledgement delay, which a probe allows for | 8985 §7.2 |

pub(super) mod peer_ack_delay;
pub(super) mod rtt;
mod timeouts;
