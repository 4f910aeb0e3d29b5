//! NTPv4 (RFC 5905): packets, the client's exchange, and a server. It knows the clock's algorithm,
//! and of the operating system only sockets (feature `os`).
//!
//! | module | purpose |
//! |---|---|
//! | `stamp` | NTP's formats of time, and their eras |
//! | `packet` | the 48 bytes of every message; any bytes in, a clear refusal out |
//! | `extension` | what may follow them (RFC 7822) |
//! | `nts` | keys, cookies and authenticators (RFC 8915), so that nobody on the way can forge an answer; no I/O |
//! | `client` | when to ask, what, and which answers to believe; no I/O |
//! | `server` | what to answer, to whom, and how often; no I/O |
//! | `socket`, `stamping`, `sandwich` | a client's socket with the kernel's stamps, and from these to the counter |
//! | `nic`, `hardware` | a network card's clock, and from the card's stamps to the counter |
//! | `flight` | one request under way, and the stamps of its ends |
//! | `listener` | a server's socket: many messages with each system call |
//! | `kiss` | what a server says that does not want to serve |
#![forbid(unsafe_code)]

pub mod client;
pub mod extension;
#[cfg(feature = "os")]
mod flight;
#[cfg(feature = "os")]
pub mod hardware;
pub mod kiss;
#[cfg(feature = "os")]
pub mod listener;
#[cfg(feature = "os")]
pub mod nic;
pub mod nts;
pub mod packet;
#[cfg(feature = "os")]
mod quality;
#[cfg(feature = "os")]
pub mod sandwich;
pub mod server;
#[cfg(feature = "os")]
pub mod socket;
pub mod stamp;
#[cfg(feature = "os")]
pub mod stamping;

pub use client::{Answer, Client, Rejection};
pub use kiss::Kiss;
pub use packet::{LeapIndicator, Malformed, Mode, Packet};
pub use server::Server;
pub use stamp::{Short, Stamp};
