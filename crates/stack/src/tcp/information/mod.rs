//! Information for the program about its connection.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `info` | `TCP_INFO`, `SIOCINQ`, `SIOCOUTQ`, names, and the public row |  |
//! | `stats` | statistics that only `TCP_INFO` needs |  |

pub(super) mod info;
pub(super) mod stats;
