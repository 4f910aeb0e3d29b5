//! TCP (RFC 9293 and its companions): one small file per mechanism, each with its RFC.
//!
//! | file | mechanism |
//! |---|---|
//! | `seq`, `options`, `header` | the wire format |
//! | `socket`, `config` | what a connection consists of, and defaults |
//! | `send`, `scoreboard`, `multi_frame_segment` | the send queue, its SACK marks, and what is sent as one segment |
//! | `feedback`, `rtt`, `peer_ack_delay`, `congestion`, `rack`, `prr`, `recovery`, `spurious`, `frto`, `ecn` | loss recovery and congestion control: when to retransmit, and how much to send |
//! | `receive`, `window`, `ack`, `ack_thinning` | the receive queue, the receive window, delayed acknowledgements, and ACK thinning so that a loss behind it is found early |
//! | `output` | what is sent now |
//! | `input`, `handshake`, `established`, `closing` | processing of received segments |
//! | `timers` | processing of timeouts |
//! | `pressure` | limits of what each connection may queue when frames are few |
//! | `listener`, `cookies`, `isn` | passive opens |
//! | `pmtu`, `black_hole`, `urgent` | path MTU and ICMP errors, paths that drop large packets silently, urgent data |
//! | `api`, `settings` | what a program calls |
//! | `leaving` | handing a live connection over to another stack of the host |
//! | `info`, `stats` | information for the program about its connection |
//! | `audit`, `seq_snapshot` | inspection by tests and simulations |
//!
//! Everything is a method of [`crate::Stack`] with the index of the connection, or a function on
//! one part of a connection.

mod ack;
mod ack_thinning;
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
mod info;
mod input;
mod isn;
mod leaving;
mod listener;
mod multi_frame_segment;
mod options;
mod output;
mod peer_ack_delay;
mod pmtu;
mod pressure;
mod prr;
mod rack;
mod receive;
mod recovery;
mod rtt;
mod scoreboard;
mod send;
mod seq;
#[cfg(any(test, feature = "owned"))]
mod seq_snapshot;
mod settings;
mod socket;
mod spurious;
mod stats;
mod timers;
mod urgent;
mod window;

pub use api::{RecvFlags, Shutdown};
pub use config::Config;
pub(crate) use config::Shared;
pub use congestion::Algorithm;
pub use ecn::Ecn;
pub use info::TcpInfo;
pub use leaving::Leaving;
pub use listener::Listener;
#[cfg(any(test, feature = "owned"))]
pub use seq::Seq;
#[cfg(any(test, feature = "owned"))]
pub use seq_snapshot::SeqSnapshot;
pub use settings::{Setting, TcpOptions};
pub use socket::{Socket, State};
