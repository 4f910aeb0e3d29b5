//! The library that `tickwire run` loads into an unmodified program on Windows: it hooks the calls
//! of Winsock and runs TCP and UDP over the program's lane. On other systems this crate is empty.
//!
//! | module | purpose |
//! |---|---|
//! | `dll_main` | what Windows calls when the library is loaded |
//! | `api` | the functions that programs call in place of Winsock's |
//! | `socket` | what calls on a socket do; which handles are sockets; overlapped requests |
//! | `notice` | readiness, and the record of network events |
//! | `lane` | the lane of this process: the stack, what drives it, the service |
//! | `spin` | how long threads poll before they sleep |
//! | `names` | socket addresses, as programs pass them |
//! | `extensions` | Winsock's extension functions (`AcceptEx`, `ConnectEx`, ...) |
//! | `own_request` | overlapped requests of this library's own |
//! | `program_memory` | whether the memory that a program passes can be used |
//! | `real` | Winsock's own functions, as this library calls them |
//! | `hook` | replacing functions of Windows, and calling the real ones; child processes |
//!
//! Each uses only those below it. `unsafe` is allowed in this crate, for the C boundary and for
//! calls of Windows; every block says why it is sound.
//!
//! The library does not import `ws2_32.dll` statically, nor does it use `std::net`. So it can be
//! loaded before Winsock, and Winsock's functions are found at run time: see `hook`. This holds
//! for a release build with link-time optimisation, which leaves out the standard library's own
//! use of Winsock: `cargo rustc --release --lib --crate-type cdylib`. (Cargo does not optimise so
//! while it builds the library for tests, too.)
#![cfg(windows)]

mod api;
mod dll_main;
mod extensions;
pub mod hook;
mod lane;
mod names;
mod notice;
mod own_request;
mod program_memory;
mod real;
mod socket;
mod spin;
