//! NTPv4 (RFC 5905): packets, the client's exchange, and a server. The crate does not depend on the
//! clock's estimator: its results are timestamps. Of the operating system it uses only sockets and
//! clocks (feature `os`).
//!
//! | module | purpose |
//! |---|---|
//! | `stamp` | NTP's time formats and eras |
//! | `packet` | the 48-byte header of every message; the parser accepts or rejects any input |
//! | `extension` | the extension fields after the header (RFC 7822) |
//! | `nts` | keys, cookies and authenticators (RFC 8915) against forged replies; no I/O |
//! | `client` | when to send a request, its contents, and which replies to accept; no I/O |
//! | `server` | what to reply, to which clients, and how often; no I/O |
//! | `socket` | a client's socket, with the timestamps of kernel and network card |
//! | `pending_request` | one pending request, and the timestamps of both ends of its exchange |
//! | `listener` | Linux: a server's socket: many messages with each system call |
//! | `kiss` | Kiss-o'-Death codes: a server's refusals |
#![forbid(unsafe_code)]

pub mod client;
pub mod extension;
pub mod kiss;
#[cfg(all(feature = "os", unix))]
pub mod listener;
pub mod nts;
pub mod packet;
#[cfg(feature = "os")]
mod pending_request;
pub mod server;
#[cfg(feature = "os")]
pub mod socket;
pub mod stamp;

pub use client::{AcceptedReply, Client, CompletedExchange, Rejection, Reply, ServerVariables};
pub use kiss::Kiss;
pub use packet::{LeapIndicator, MalformedPacket, Mode, NtpPacket};
pub use server::{NtpServer, Request};
pub use stamp::{Short, Stamp};
