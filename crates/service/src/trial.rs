//! What this kernel can do, found out by trying, for `tickwire doctor`. Nothing is attached to any interface, and nothing stays.

use crate::config;
use crate::namespace::Namespace;
use crate::programs::{LaneProgram, Programs};
use std::io;
use std::os::fd::AsFd;
use tickwire_host::Connections;
use tickwire_link::port::Port;
use tickwire_link::region;
use tickwire_link::sys_tap;
use tickwire_link::xsk::{self, RingSizes};
use tickwire_stack::Limits;

/// What the trials found.
#[derive(Debug)]
pub struct Trial {
    /// Whether the kernel accepts the BPF programs; else its reason, in one line.
    pub programs: Result<(), String>,
    /// Whether frames longer than one of a lane's come in pieces, so that interfaces with jumbo frames can be accelerated (Linux 6.6).
    pub long_frames: io::Result<bool>,
    /// Whether the rings of a bound AF_XDP socket can be mapped, so that sockets outlive exec (Linux 6.4).
    pub bound_rings: io::Result<bool>,
    /// Whether lanes can have bulk devices, by which streams cost less.
    pub bulk: io::Result<()>,
    /// Whether the kernel tells its TCP connections, so that TCP can be accelerated; else its reason.
    pub connections: Result<(), String>,
}

/// Tries. Needs what the service needs (root); without that every trial says so.
#[must_use]
pub fn trial() -> Trial {
    let limits = config::Limits::default();
    crate::run::raise_limits(&limits);
    let loaded = Programs::load(&limits).map(drop).and_then(|()| LaneProgram::load().map(drop));
    let one_line = |error: String| error.lines().next().unwrap_or_default().chars().take(200).collect();
    Trial {
        programs: loaded.map_err(|error| one_line(error.to_string())),
        long_frames: xsk::takes_long_frames(),
        bound_rings: Namespace::create().and_then(|empty| empty.run(maps_bound_rings)?),
        bulk: Namespace::create().and_then(|empty| empty.run(|| sys_tap::create("trial", 0).map(drop))?),
        connections: Connections::open().map(drop).map_err(|error| one_line(error.to_string())),
    }
}

/// Maps rings before and after binding, to the loopback device of a namespace that has nothing else.
fn maps_bound_rings() -> io::Result<bool> {
    const LOOPBACK: u32 = 1;
    const SIZES: RingSizes = RingSizes { fill: 64, completion: 64, rx: 64, tx: 64 };
    let limits = Limits { frames: 64, ..Limits::DEFAULT };
    let region = region::create(0, &limits, SIZES).map_err(io::Error::other)?;
    let socket = xsk::create(region.as_fd(), &limits, SIZES)?;
    drop(Port::attach(socket.try_clone()?, SIZES)?);
    xsk::bind(socket.as_fd(), LOOPBACK, 0)?;
    match Port::attach(socket.try_clone()?, SIZES) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_takes_the_programs_and_says_what_else_it_can() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: AF_XDP and BPF need root");
            return;
        }
        let trial = trial();
        assert_eq!((trial.programs, trial.connections), (Ok(()), Ok(())));
        trial.bulk.unwrap();
        let (long, bound) = (trial.long_frames.unwrap(), trial.bound_rings.unwrap());
        assert!(bound || !long, "6.6 can do what 6.4 can");
    }
}
