//! The messages between program and service, used once per socket and once per destination.
//!
//! A [`Request`] goes from the program to the service and is answered by exactly one [`Reply`] of
//! the same number; a [`Push`] comes from the service without a request, with number 0. Both sides
//! run on one machine, so numbers are in its byte order. But the two may be of different builds and
//! one may be hostile: every message carries magic and version, and decoding is strict (exact
//! length, known codes, values in range).
//!
//! How messages travel is the operating system's part: on Linux through a Unix socket, with
//! descriptors beside them (`tickwire_lane_linux::control`); on Windows through a named pipe, with
//! handles (`tickwire_lane_windows::control`).

mod attached;
mod codec;
mod list;
mod message;
mod name;
mod reason;

pub use attached::Attached;
pub use codec::{MAX_DESCRIPTORS, MAX_MESSAGE, MAX_REQUEST, MalformedMessage, VERSION};
pub use list::List;
pub use message::{
    Accelerated, AttachMode, Claim, ClaimInfo, ClaimKind, ClaimPart, CountersOf, EphemeralPort, EphemeralPorts,
    Figures, Interfaces, LaneInfo, MessageTo, Parts, Push, Remotes, Reply, Request, Token,
};
pub use name::Name;
pub use reason::Reason;
