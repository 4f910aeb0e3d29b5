//! TCP (RFC 9293 and its companions): one small file per mechanism, each with its RFC.
//!
//! | file | mechanism |
//! |---|---|
//! | `seq`, `options`, `header` | the wire format |
//! | `socket`, `config` | what a connection consists of, and defaults |
//! | `send`, `scoreboard`, `run` | the send queue, the marks of SACK on it, and what goes out as one segment |
//! | `feedback`, `rtt`, `held_back`, `congestion`, `rack`, `prr`, `recovery`, `spurious`, `frto`, `ecn` | when to send again, and how much |
//! | `receive`, `window`, `ack`, `left_out` | the receive queue, the window offered, when to acknowledge, and what is left out so that a loss behind it is found early |
//! | `output` | what is sent now |
//! | `input`, `handshake`, `established`, `closing` | what a received segment does |
//! | `timers` | what time does |
//! | `pressure` | who may queue how much when frames are few |
//! | `listener`, `cookies`, `isn` | passive opens |
//! | `pmtu`, `black_hole`, `urgent` | path MTU and ICMP errors, paths that drop large packets without a word, urgent data |
//! | `api`, `settings` | what a program calls |
//! | `leaving` | handing a live connection over to another stack of the host |
//! | `info`, `tally`, `linux_info`, `linux_options` | what a program is told of its connection |
//! | `audit`, `numbers` | what tests and simulations look at |
//!
//! Everything is a method of [`crate::Stack`] with the index of the connection, or a function on
//! one part of a connection.

mod ack;
mod api;
#[cfg(any(test, feature = "owned"))]
mod audit;
mod black_hole;
mod closing;
mod config;
mod congestion;
mod cookies;
mod ecn;
mod established;
mod feedback;
mod frto;
mod handshake;
mod header;
mod held_back;
mod info;
mod input;
mod isn;
mod leaving;
mod left_out;
mod linux_info;
mod linux_options;
mod listener;
#[cfg(any(test, feature = "owned"))]
mod numbers;
mod options;
mod output;
mod pmtu;
mod pressure;
mod prr;
mod rack;
mod receive;
mod recovery;
mod rtt;
mod run;
mod scoreboard;
mod send;
mod seq;
mod settings;
mod socket;
mod spurious;
mod tally;
mod timers;
mod urgent;
mod window;

pub use api::{RecvFlags, Shutdown};
#[cfg(any(test, feature = "owned"))]
pub(crate) use audit::half_open_by;
pub use config::Config;
pub(crate) use config::Shared;
pub use congestion::Algorithm;
pub use ecn::Ecn;
pub use info::TcpInfo;
pub use leaving::Leaving;
pub use linux_info::LINUX_INFO_LEN;
pub use listener::Listener;
#[cfg(any(test, feature = "owned"))]
pub use numbers::Numbers;
#[cfg(any(test, feature = "owned"))]
pub use seq::Seq;
pub use settings::{Setting, TcpOptions};
pub use socket::{Socket, State};
