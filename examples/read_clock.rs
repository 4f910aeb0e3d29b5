//! Stamps a piece of work with the machine's clock: when it began, within which bound that is true,
//! and how long it took.
//!
//! ```text
//! cargo run -p tickclock --example read_clock [PAGE]
//! ```

use std::process::ExitCode;
use tickclock::Clock;

fn acquire() {
    let sum: f64 = (0..1_000_000).map(f64::from).sum();
    std::hint::black_box(sum);
}

fn main() -> ExitCode {
    let opened = match std::env::args_os().nth(1) {
        Some(page) => Clock::open(page),
        None => Clock::open_default(),
    };
    let clock = match opened {
        Ok(clock) => clock,
        Err(error) => {
            eprintln!("no clock: {error}; is `tickwire clock run` running?");
            return ExitCode::from(1);
        }
    };
    // The cheapest stamp is the counter. Convert it when the work is done.
    let from = clock.counter();
    acquire();
    let to = clock.counter();
    let began = clock.at(from);
    let (true, Some(span)) = (began.is_known(), clock.elapsed(from, to)) else {
        eprintln!("the time is not known");
        return ExitCode::from(3);
    };
    let (earliest, latest) = began.interval();
    println!("began at {} ns, between {} and {}; took {span} ns", began.utc().0, earliest.0, latest.0);
    ExitCode::SUCCESS
}
