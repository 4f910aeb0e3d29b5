//! The service on Windows. There the kernel runs no programs of ours, so the service does what the
//! BPF programs do on Linux: it takes packets from a network card's driver, gives those of lanes to
//! their programs, and sends what programs may send.
//!
//! | module | purpose |
//! |---|---|
//! | [`claims`] | what lanes have claimed, and the sockets that justify it |
//! | `service` | programs that connect, their lanes and claims (Windows) |
//! | `kernel_sockets` | what the kernel's own tables say about a claim |
//! | `socket_proof` | what Windows says about the socket of a claim (Windows) |
//! | [`packet_thread`] | the thread that owns card, lanes and rules |
//! | `inbound` | whether the firewall lets in what a claim would take |
//! | `claimed_ports` | of which ports the driver has to take packets |
//! | [`port_block`] | the ports that are offered for connections of programs |
//! | [`users`] | what each user has, and how much it may have |
//! | [`capture_tap`] | copies of packets for captures |
//! | [`figures`] | what is counted, for tools |
//! | [`forwarder`] | packets between a card and lanes: divert and guard, on private copies |
//!
//! The others make no system call, so their tests run on every operating system.
#![forbid(unsafe_code)]

pub mod capture_tap;
mod claimed_ports;
pub mod claims;
pub mod figures;
pub mod forwarder;
#[cfg_attr(not(windows), allow(dead_code, reason = "its caller needs Windows"))]
mod inbound;
#[cfg_attr(not(windows), allow(dead_code, reason = "its caller needs Windows"))]
mod kernel_sockets;
pub mod packet_thread;
pub mod port_block;
#[cfg(windows)]
pub mod service;
#[cfg(windows)]
mod socket_proof;
pub mod users;
