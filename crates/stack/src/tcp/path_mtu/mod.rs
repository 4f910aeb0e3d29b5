//! The path: its MTU, ICMP errors, and routers that drop large packets silently.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `pmtu` | path MTU discovery and ICMP errors | 1191, 8201, 9293 §3.9.2.2, 5927 |
//! | `black_hole` | paths that drop large packets without an ICMP error | 8899 §4.3, 4821 §7.7 |

mod black_hole;
pub(super) mod pmtu;
