//! What this kernel can do, found by trying, for `tickwire doctor`. Nothing is attached to any
//! interface, and nothing stays.

use crate::config;
use crate::programs::{Programs, ring_is_safe};
use std::io;
use tickwire_host::Connections;
use tickwire_lane_linux::sys_tap;

/// What the trials found.
#[derive(Debug)]
pub struct Trial {
    /// Whether the kernel accepts the BPF programs; else its reason, in one line.
    pub programs: Result<(), String>,
    /// Whether ring buffers withstand a program that overwrites its consumer position; else the
    /// reason why that is not known.
    pub safe_ring: Result<bool, String>,
    /// Whether there are TAP devices, by which lanes send.
    pub tap: io::Result<()>,
    /// Whether the kernel reports its TCP connections, so that TCP can be accelerated; else its
    /// reason.
    pub connections: Result<(), String>,
}

/// Runs the trials. Needs what the service needs (root); without that every trial fails.
#[must_use]
pub fn trial() -> Trial {
    let limits = config::ServiceLimits::default();
    crate::run::raise_limits(&limits);
    let one_line = |error: String| error.lines().next().unwrap_or_default().chars().take(200).collect();
    Trial {
        programs: Programs::load(&limits).map(drop).map_err(|error| one_line(error.to_string())),
        safe_ring: ring_is_safe().map_err(|error| one_line(error.to_string())),
        tap: sys_tap::create("twtrial%d", 0, false).map(drop),
        connections: Connections::open().map(drop).map_err(|error| one_line(error.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_kernel_takes_the_programs_and_says_what_else_it_can() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: BPF needs root");
            return;
        }
        let trial = trial();
        assert_eq!((trial.programs, trial.safe_ring, trial.connections), (Ok(()), Ok(true), Ok(())));
        trial.tap.unwrap();
    }
}
