//! Runs lives of two hosts, one after the other, until the time is over; `cargo xtask soak` runs
//! it.
//!
//! Arguments: seconds, the first seed, actions per life. It prints totals on standard output every
//! ten seconds and at the end.

use std::time::{Duration, Instant};
use tickwire_sim::soak::{Life, life};

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let mut next = || arguments.next().expect("seconds, first seed, actions a life");
    let (seconds, first, actions) = (next(), next(), next());
    let actions = u32::try_from(actions).expect("not so many actions");
    let (start, mut told) = (Instant::now(), Instant::now());
    let (mut all, mut lives) = (Life::default(), 0);
    while lives == 0 || start.elapsed() < Duration::from_secs(seconds) {
        let seed = first + lives;
        let lived = std::panic::catch_unwind(|| life(seed, actions)).unwrap_or_else(|_| {
            eprintln!(
                "seed {seed}: a defect; the same again: cargo xtask soak --seed {seed} --seconds 0 --actions {actions}"
            );
            std::process::exit(1);
        });
        all = all.and(lived);
        lives += 1;
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            say(&all, lives, start);
        }
    }
    say(&all, lives, start);
}

fn say(all: &Life, lives: u64, start: Instant) {
    let Life { packets, lost, connections, bytes, datagrams, resent } = all;
    println!(
        "{:5} s: {lives} lives, {connections} connections, {packets} packets ({lost} lost, {resent} segments sent again), {} MB and {datagrams} datagrams read",
        start.elapsed().as_secs(),
        bytes / 1_000_000,
    );
}
