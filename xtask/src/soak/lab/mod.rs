//! `cargo xtask soak lab`: real programs in a pair of hosts, while services, cables, addresses,
//! MTUs and programs come and go.
//!
//! In each round, programs on both hosts, some of them accelerated, exchange streams and datagrams
//! and compare every byte. Meanwhile events disturb the hosts; their order follows from the round's
//! seed. At the end of a round the programs become idle, their stacks are audited and the counters
//! are compared. Then all programs end, and new programs must run without errors. Finally the hosts
//! and their services must hold no more resources than before the first round.

mod holdings;
mod judge;
mod plan;
mod sums;
mod topology;
mod watch;

use super::seed_of_today;
use crate::{prepare, workspace};
use anyhow::{Result, bail};
use judge::Said;
use plan::Side;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use topology::Topology;
use watch::Watch;

/// How long, and which rounds.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds; the round that is under way then is lived to its end
    #[arg(long, default_value_t = 720)]
    seconds: u32,

    /// The first seed; the rounds that follow have the next ones. Without it, the time of day
    #[arg(long)]
    seed: Option<u64>,

    /// How many things happen to the hosts in a round
    #[arg(long, default_value_t = 24)]
    events: u32,

    /// Print the sums as JSON on standard output
    #[arg(long)]
    json: bool,
}

/// Sums over all rounds.
#[derive(Debug, Default, Serialize)]
struct Sums {
    rounds: u64,
    events: u64,
    /// Streams by outcome.
    streams: BTreeMap<String, u64>,
    /// Bytes of streams that were echoed.
    bytes: u64,
    datagrams_sent: u64,
    datagrams_back: u64,
    /// Lanes whose stacks were audited while their programs were idle.
    lanes_audited: u64,
    /// How often the counters of a service were compared with the card's: once for each round
    /// without a restart, and once for the check after it.
    counters_compared: u64,
    /// The largest growth of a service's memory after its first round, in KiB.
    growth_kib: u64,
    /// The largest memory of a service, in KiB.
    memory_kib: u64,
}

impl Sums {
    fn hear(&mut self, said: &[Said]) {
        for said in said {
            match said {
                Said::Stream { outcome, bytes, .. } => {
                    *self.streams.entry(outcome.clone()).or_default() += 1;
                    self.bytes += bytes;
                }
                Said::Datagrams { sent, back, .. } => {
                    self.datagrams_sent += sent;
                    self.datagrams_back += back;
                }
                Said::Wrong(_) => {}
            }
        }
    }

    fn line(&self) -> String {
        let all: u64 = self.streams.values().sum();
        let ok = self.streams.get("ok").copied().unwrap_or(0);
        format!(
            "{} rounds, {} events, {all} streams ({} broken), {} MB, {} datagrams ({} lost), {} lanes looked through, services' memory {} KiB, growth {} KiB",
            self.rounds,
            self.events,
            all - ok,
            self.bytes / 1_000_000,
            self.datagrams_sent,
            self.datagrams_sent - self.datagrams_back,
            self.lanes_audited,
            self.memory_kib,
            self.growth_kib
        )
    }
}

/// Runs rounds; fails at the first with a defect.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !prepare::is_done() {
        return prepare::lab(|| workspace::build_release_example("tickwire-lane-linux", "bpf", "holds"));
    }
    let seed = options.seed.unwrap_or_else(seed_of_today);
    eprintln!("rounds from seed {seed} on, for {} s", options.seconds);
    let began = Instant::now();
    let mut watch = Watch::new(Topology::new()?)?;
    let mut sums = Sums::default();
    while sums.rounds == 0 || began.elapsed() < Duration::from_secs(options.seconds.into()) {
        let seed = seed.wrapping_add(sums.rounds);
        let defects = watch.round(seed, options.events, &mut sums)?;
        eprintln!("{:5} s: {}", began.elapsed().as_secs(), sums.line());
        if !defects.is_empty() {
            tell(&defects, &mut watch.bed);
            let events = options.events;
            bail!(
                "seed {seed}: a defect; the same again: cargo xtask soak lab --seed {seed} --seconds 0 --events {events}"
            );
        }
    }
    let defects = watch.bed.finish()?;
    if !defects.is_empty() {
        bail!("at the end: {}", defects.join("\n"));
    }
    if options.json {
        println!("{}", serde_json::to_string(&sums)?);
    } else {
        println!("{}", sums.line());
    }
    Ok(())
}

/// Prints the defects, and the last output of the services.
fn tell(defects: &[String], bed: &mut Topology) {
    for side in Side::BOTH {
        if let Ok(service) = bed.service(side) {
            let log = service.log();
            let last: Vec<&str> = log.lines().rev().take(30).collect();
            eprintln!("the last words of the service of {side}:");
            last.iter().rev().for_each(|line| eprintln!("    {line}"));
        }
    }
    for defect in defects {
        eprintln!("defect: {defect}");
    }
}
