//! A lossy cable in real time: joins two network devices and does to each frame what the
//! simulation's `Link` does, by the same code and the same chance.
//!
//! The lab starts it in a namespace between two hosts; it knows nothing of hosts. One thread that
//! sleeps when it can, since both ends need the processors, too: until a frame comes if none is
//! under way, else for a while in any case, as a network card that moderates its interrupts. The
//! kernel notes when each came, so that does not make the cable longer. It ends on SIGTERM, SIGINT
//! or at its time limit, and then prints what it did as one line of JSON.
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
/// A frame may leave so much too early: half of [`TURN`], and a sleep takes some more.
const EARLY: Span = Span::from_micros(10);
/// While frames are under way the devices are looked at no oftener. Frames of one burst that came
/// one by one then leave together, as those that came together do: else each would cost a sleep and
/// two changes of the program on that processor, which no cable does.
const TURN: Span = Span::from_micros(15);
/// What is said to have come before that has not waited here for so long.
const LONG_AGO: Span = Span::from_millis(100);

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
        // First, so that it carries nothing in no time: hosts speak when they like (MLD, router
        // solicitations).
        if time >= end {
            break;
        }
        let more = carry(&mut cable, &mut ports, &mut clockwork, time)?;
        let next = cable.next();
        let look = next.is_none() || turn.is_multiple_of(TURNS);
        if look && signals.read_signal().context("cannot read signals")?.is_some() {
            break;
        }
        match next {
            _ if more => {}
            None => wait(&ports, &signals, end.since(now()?))?,
            // What comes meanwhile is not due before that, either.
            Some(next) => sleep(next.min(time + options.delay()).max(time + TURN).since(now()?)),
        }
    }
    counts::tell(&cable, &ports, &clockwork)
}

/// Gives what is due and takes what has come; says whether there may be more of that.
fn carry(cable: &mut Cable, ports: &mut [Port; 2], clockwork: &mut Clockwork, time: Instant) -> Result<bool> {
    let mut more = false;
    // What the system's clock is ahead of ours.
    let ahead = nanos(ClockId::CLOCK_REALTIME)?.wrapping_sub(time.as_nanos());
    for way in Way::BOTH {
        while let Some((due, frame)) = cable.take(way, time + EARLY) {
            ports[way.to()].send(&frame)?;
            clockwork.note(due, now()?);
        }
        let mut came = 0;
        while came < BATCH
            && let Some(frame) = ports[way.from()].receive()?
        {
            let at = frame.at_ns.map_or(time, |at| Instant::from_nanos(at.wrapping_sub(ahead)));
            // No later than now, and not long ago, whatever somebody does to the clock.
            let at = if time.since(at) < LONG_AGO { at.min(now()?) } else { time };
            cable.put(way, at, frame.bytes);
            came += 1;
        }
        more |= came == BATCH;
    }
    Ok(more)
}

/// Until a device has something, a signal comes, or the time is over.
fn wait(ports: &[Port; 2], signals: &SignalFd, most: Span) -> Result<()> {
    let mut wanted = [ports[0].as_fd(), ports[1].as_fd(), signals.as_fd()].map(|fd| PollFd::new(fd, PollFlags::POLLIN));
    let most = i64::try_from(most.as_nanos()).unwrap_or(i64::MAX);
    match ppoll(&mut wanted, Some(TimeSpec::nanoseconds(most)), None) {
        Ok(_) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Err(error) => Err(error).context("cannot wait"),
    }
}

fn sleep(time: Span) {
    std::thread::sleep(std::time::Duration::from_nanos(time.as_nanos()));
}

fn now() -> Result<Instant> {
    Ok(Instant::from_nanos(nanos(ClockId::CLOCK_MONOTONIC)?))
}

fn nanos(clock: ClockId) -> Result<u64> {
    let time = clock_gettime(clock).context("cannot read the clock")?;
    Ok(u64::try_from(time.num_nanoseconds()).unwrap_or(0))
}
