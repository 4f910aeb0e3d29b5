//! TCP (RFC 9293 and its companions): one small file per mechanism. Each folder begins with a table
//! of its files and their RFCs.
//!
//! | folder | content |
//! |---|---|
//! | `wire` | sequence numbers, headers, options |
//! | `connection` | what a connection consists of, its defaults, its share of the memory |
//! | `setup` | the handshake, what it agrees on, listeners, SYN cookies, initial numbers |
//! | `receive` | received segments, the receive queue and window, acknowledgements, urgent data |
//! | `send` | the send queue, its SACK marks, what is sent as one segment, and what is sent now |
//! | `loss_recovery` | which segments are lost, what is sent again, and whether that was needless |
//! | `congestion` | how much may be in flight: CUBIC, Reno, HyStart++, ECN |
//! | `timers` | processing of timeouts, and the round trips that set them |
//! | `path_mtu` | path MTU and ICMP errors, paths that drop large packets silently |
//! | `teardown` | the end of a connection, and handing it over to another stack of the host |
//! | `program` | what a program calls, and its socket options |
//! | `information` | information for the program about its connection |
//! | `inspection` | inspection by tests and simulations |
//!
//! Everything is a method of [`crate::Stack`] with the index of the connection or listener, whose
//! type tells their pools apart, or a function on one part of a connection.

mod congestion;
mod connection;
mod information;
#[cfg(any(test, feature = "owned"))]
mod inspection;
mod loss_recovery;
mod path_mtu;
mod program;
mod receive;
mod send;
mod setup;
mod teardown;
mod timers;
mod wire;

pub use congestion::Algorithm;
pub use congestion::ecn::Ecn;
pub(crate) use connection::config::Shared;
pub use connection::config::TcpConfig;
pub use connection::socket::{Socket, TcpState};
pub use information::info::TcpInfo;
#[cfg(any(test, feature = "owned"))]
pub use inspection::seq_snapshot::SeqSnapshot;
pub use program::api::{RecvFlags, Shutdown};
pub use program::settings::{TcpOptions, TcpSetting};
pub use setup::listener::Listener;
pub use teardown::leaving::Leaving;
#[cfg(any(test, feature = "owned"))]
pub use wire::seq::Seq;
