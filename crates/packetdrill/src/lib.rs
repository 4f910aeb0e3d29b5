//! The library that packetdrill loads (`--so_filename`) to run its scripts on our stack: socket
//! calls and packets come in through its table of functions, and the stack runs in its process, in
//! virtual time. It needs no rights, no network and no service.
//!
//! It may depend on `tickwire-stack` and on libc's numbers. All unsafe code is in `c`, the C
//! boundary.
//!
//! | file | what it is about |
//! |---|---|
//! | `c` | the exported function, the table, the program's memory |
//! | `machine` | the host under test, seen by several threads: who may let time pass, who waits |
//! | `wire` | the stack with its rings, and the clock |
//! | `push` | PSH hidden, if scripts shall not look at it |
//! | `setup` | what the flags and the host's network settings say of the stack |
//! | `table`, `tcp`, `options`, `events` | descriptors, and what calls on them do |
//! | `name`, `errno` | socket addresses and error numbers |
//!
//! What a call means is the same as in the preload crate, without its kernel sockets: here a
//! descriptor is the stack's or nothing.
#![deny(unsafe_code)]

mod c;
mod errno;
mod events;
mod machine;
mod name;
mod options;
mod push;
mod setup;
mod table;
mod tcp;
#[cfg(test)]
mod tests;
mod wire;
