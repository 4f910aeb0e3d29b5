//! The control connection on Windows, between threads and between processes. Each test has a pipe
//! of its own.
#![cfg(windows)]

mod bed;
mod connecting;
mod handles;
mod hostile;
mod messages;
mod processes;
