//! The subcommands of `tickwire` that are the same on every operating system: their options, and
//! what they do and show.
//!
//! | module | purpose |
//! |---|---|
//! | [`args`] | options, and the long parts of the help |
//! | [`clock`] | `tickwire clock`: the daemon in the foreground, readings, reports |
//! | [`capture`] | `tickwire capture`: from the service's stream of packets to a file |
//!
//! Without its feature `commands` it is only the definition of the command line, from which the man
//! pages are generated. May depend on the clock's daemon and reader, on the lane's messages, and on
//! `tickwire-show`. No unsafe code.
#![forbid(unsafe_code)]

pub mod args;
#[cfg(feature = "commands")]
pub mod capture;
#[cfg(feature = "commands")]
pub mod clock;
