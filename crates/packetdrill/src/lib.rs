//! The library that packetdrill loads (`--so_filename`) to run its scripts on this stack. Socket
//! calls and packets arrive through its table of functions, and the stack runs in its process, in
//! virtual time. It needs no privileges, no network and no service.
//!
//! Allowed dependencies: `tickwire-stack`, `tickwire-linux-abi`, and libc's constants. All unsafe
//! code is in `c`, the C boundary.
//!
//! | file | what it is about |
//! |---|---|
//! | `c` | the exported function, the table, the program's memory |
//! | `machine` | the host under test, shared by threads: which may advance time, which wait |
//! | `wire` | the stack with its rings, and the clock |
//! | `push` | removal of PSH, for scripts that should not check it |
//! | `setup` | the stack's configuration, from the flags and the host's network settings |
//! | `table`, `tcp`, `options`, `events` | descriptors, and what calls on them do |
//! | `name`, `errno` | socket addresses and error numbers, as results of calls |
//!
//! Calls have the same semantics as in the preload crate, but without its kernel sockets: here
//! every socket is the stack's.
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
