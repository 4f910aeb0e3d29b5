//! Windows' ABI of sockets in the stack's terms. On other systems this crate is empty.
//!
//! | module | purpose |
//! |---|---|
//! | `sockaddr` | addresses, with and without ports |
//! | `error` | the stack's errors as Winsock's |
//!
//! It calls nothing of Windows. `unsafe` is allowed for the unions that addresses are.
#![cfg(windows)]

pub mod error;
pub mod sockaddr;
