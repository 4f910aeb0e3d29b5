//! What a program calls.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `api` | open, write and read | 9293 §3.9.1 |
//! | `settings` | the settings of a connection (socket options) |  |
//! | `linux_options` | Linux's numbers of these options |  |

pub(super) mod api;
mod linux_options;
pub(super) mod settings;
