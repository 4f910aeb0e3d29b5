//! A lossy cable in real time: connects two network devices and applies the simulation's
//! `SimulatedLink` to each frame, with the same code and the same random numbers.
//!
//! The lab starts it in a namespace between two hosts; it knows nothing of hosts. It is one thread
//! that sleeps when it can, because both ends need the processors, too. With no frame in flight it
//! sleeps until one arrives, else for a minimum time, like a network card with interrupt
//! moderation. The kernel timestamps arrivals, so that does not add to the delay. It ends on
//! SIGTERM, SIGINT, SIGHUP or at its time limit, and then prints its counters as one line of JSON.
#![forbid(unsafe_code)]

mod cable;
mod counts;
mod options;
mod port;
mod way;

use anyhow::{Context, Result};
use cable::Cable;
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
use way::Way;

/// Frames taken from one device before the other gets its turn.
const BATCH: usize = 32;
/// Signals are checked after this many turns without a pause.
const TURNS: u64 = 64;
/// How much too early a frame may leave: half of [`TURN`], and some for a sleep's overhead.
const EARLY: Span = Span::from_micros(10);
/// The least interval between polls of the devices while frames are in flight. Frames of one burst
/// that arrived one by one then leave together, like those that arrived together. Otherwise each
/// would cost a sleep and two context switches, unlike on a real cable.
const TURN: Span = Span::from_micros(15);
/// A timestamp older than this is not trusted: no frame waits here for so long.
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
    // Blocks signals before there is anything that they would leave behind.
    let mut ends = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        ends.add(signal);
    }
    ends.thread_block().context("cannot block signals")?;
    let signals = SignalFd::with_flags(&ends, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).context("no signalfd")?;
    // Sleeps end in time, not up to 50 us late.
    nix::sys::prctl::set_timerslack(1).context("cannot set the timer slack")?;
    let mut ports = [Port::open(&options.a)?, Port::open(&options.b)?];
    let mut cable = Cable::new(options);
    let mut clockwork = Clockwork::default();
    let end = now()? + Span::from_secs(options.limit);
    eprintln!("relaying between {} and {}", options.a, options.b);
    for turn in 0_u64.. {
        let time = now()?;
        // Checked first, so that a limit of zero carries nothing: hosts send at any time (MLD,
        // router solicitations).
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
            // Frames that arrive meanwhile are not due before that, either.
            Some(next) => sleep(next.min(time + options.delay()).max(time + TURN).since(now()?)),
        }
    }
    counts::tell(&cable, &ports, &clockwork)
}

/// Sends due frames and receives new ones; returns whether there may be more of the latter.
fn carry(cable: &mut Cable, ports: &mut [Port; 2], clockwork: &mut Clockwork, time: Instant) -> Result<bool> {
    let mut more = false;
    // Offset of the system's clock from this program's.
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
            // Limits the timestamp to the recent past, because the system's clock may be set at any
            // time.
            let at = if time.since(at) < LONG_AGO { at.min(now()?) } else { time };
            cable.put(way, at, frame.bytes);
            came += 1;
        }
        more |= came == BATCH;
    }
    Ok(more)
}

/// Waits for a frame, a signal, or the time limit.
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
