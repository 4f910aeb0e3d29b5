//! What a connection consists of, its defaults, and its share of the memory.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `socket` | the state of a connection (transmission control block) | 9293 §3.3 |
//! | `config` | defaults of all connections, and the state that they share |  |
//! | `pressure` | limits of what a connection may queue when frames are few | 6429 §4, 2018 §8 |

pub(super) mod config;
mod pressure;
pub(super) mod socket;
