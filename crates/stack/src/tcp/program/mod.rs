//! What a program calls.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `api` | open, write and read | 9293 §3.9.1 |
//! | `settings` | the settings of a connection (socket options) |  |

pub(super) mod api;
pub(super) mod settings;
