//! Information for the program about its connection.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `info` | `TCP_INFO`, `SIOCINQ`, `SIOCOUTQ`, names, and the public row |  |
//! | `stats` | statistics that only `TCP_INFO` needs |  |
//! | `linux_info` | the same in the form of Linux's `struct tcp_info` |  |

pub(super) mod info;
pub(super) mod linux_info;
pub(super) mod stats;
