//! A lossy cable in real time: joins two network devices and does to each frame what the simulation's `Link` does, by the same code and the same chance.
//!
//! The lab starts it in a namespace between two hosts; it knows nothing of hosts. One thread, asleep while nothing is under way, so that it takes as little
//! of the processors as it can, which both ends need, too. It ends on SIGTERM, SIGINT or at its time limit, and then prints what it did as one line of JSON.
#![forbid(unsafe_code)]

mod cable;
mod counts;
mod options;
mod port;

use anyhow::{Context, Result};
use cable::{Cable, Way};
use clap::Parser;
use counts::Clockwork;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::time::{TimeSpec, TimeValLike};
use nix::time::{ClockId, clock_gettime};
use options::Options;
use port::Port;
use std::os::fd::AsFd;
use std::process::ExitCode;
use tickwire_stack::time::{Instant, Span};

/// Frames that are taken from a device before the other is looked at.
const BATCH: usize = 32;
/// After so many turns without a pause it is asked whether there was a signal.
const TURNS: u64 = 64;
/// A frame may leave so much too early: a sleep takes longer than that.
const EARLY: Span = Span::from_micros(5);

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(counts) => {
            println!("{counts}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("relay: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> Result<String> {
    // Before anything is there that a signal would leave behind.
    let mut ends = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        ends.add(signal);
    }
    ends.thread_block().context("cannot block signals")?;
    let signals = SignalFd::with_flags(&ends, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).context("no signalfd")?;
    // A sleep ends when it is to end, not up to 50 us later.
    nix::sys::prctl::set_timerslack(1).context("cannot set the timer slack")?;
    let mut ports = [Port::open(&options.a)?, Port::open(&options.b)?];
    let mut cable = Cable::new(options);
    let mut clockwork = Clockwork::default();
    let end = now()? + Span::from_secs(options.limit);
    eprintln!("relaying between {} and {}", options.a, options.b);
    for turn in 0_u64.. {
        let time = now()?;
        // First, so that it carries nothing in no time: hosts speak when they like (MLD, router solicitations).
        if time >= end {
            break;
        }
        let busy = carry(&mut cable, &mut ports, &mut clockwork, time)?;
        let look = !busy || turn.is_multiple_of(TURNS);
        if look && signals.read_signal().context("cannot read signals")?.is_some() {
            break;
        }
        if !busy {
            let until = cable.next().map_or(end, |next| next.min(end));
            sleep(&ports, &signals, until.since(now()?))?;
        }
    }
    counts::tell(&cable, &ports, &clockwork)
}

/// Takes what has come and gives what is due; says whether there was anything.
fn carry(cable: &mut Cable, ports: &mut [Port; 2], clockwork: &mut Clockwork, time: Instant) -> Result<bool> {
    let mut busy = false;
    for way in Way::BOTH {
        while let Some((due, frame)) = cable.take(way, time + EARLY) {
            busy = true;
            ports[way.to()].send(&frame)?;
            clockwork.note(due, now()?);
        }
        for _ in 0..BATCH {
            let Some(frame) = ports[way.from()].receive()? else { break };
            busy = true;
            cable.put(way, now()?, frame);
        }
    }
    Ok(busy)
}

/// Until a device has something, a signal comes, or the time is over.
fn sleep(ports: &[Port; 2], signals: &SignalFd, most: Span) -> Result<()> {
    let mut wanted = [ports[0].as_fd(), ports[1].as_fd(), signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let most = i64::try_from(most.as_nanos()).unwrap_or(i64::MAX);
    match ppoll(&mut wanted, Some(TimeSpec::nanoseconds(most)), None) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait"),
    }
}

fn now() -> Result<Instant> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).context("cannot read the clock")?;
    Ok(Instant::from_nanos(u64::try_from(time.num_nanoseconds()).unwrap_or(0)))
}
