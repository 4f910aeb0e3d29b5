//! An experiment with plausible artificial figures.

use std::time::Duration;
use tickwire_testbed::outcome::{Carrier, Experiment, Run, StreamFigures, Times, Timing, Usage};
use tickwire_testbed::pattern::{Pattern, Stream};
use tickwire_testbed::time::{ClockRow, Differences, Histogram, Origin, TimeFigures};

const SECONDS: u64 = 60;
const LINK_BPS: u64 = 1_000_000_000;

/// Pseudo-random numbers, the same in each run.
struct Dice(u64);

impl Dice {
    /// From 0 to 1.
    fn part(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// An exponential distribution.
    fn tail(&mut self, mean_us: f64) -> f64 {
        -mean_us * (1.0 - self.part()).ln()
    }
}

/// The 2015 pattern, on the kernel and on Tickwire, with the comparison of timings, a sweep that
/// breaks, and a clock.
pub(crate) fn experiment() -> Experiment {
    let pattern = Pattern::of_2015();
    let run = |carrier, timing, rate| run(&pattern, carrier, timing, rate);
    let kernel = run(Carrier::Kernel, Timing::Pattern, 1);
    let tickwire = run(Carrier::Tickwire, Timing::Pattern, 1);
    let timings = [Timing::Unscheduled, Timing::Synchronised, Timing::Scheduled];
    let mut sweep: Vec<Run> = [1, 2, 5, 8].map(|rate| run(Carrier::Tickwire, Timing::Pattern, rate)).into();
    sweep[3].drops.push(("switch, port to consumer".to_owned(), 4_711));
    for figures in sweep[3].streams.iter_mut().take(5) {
        figures.late = figures.sent / 50;
    }
    Experiment {
        command: ["tickwire", "testbed", "run", "--duration", "60", "--timings", "--sweep"].map(str::to_owned).into(),
        machines: vec!["one machine with 13 namespaces: A Processor @ 2.10 GHz, 2 processors, Linux 6.12.1".to_owned()],
        link_bps: Some(LINK_BPS),
        clock: "the machine's own counter, which all 13 hosts of the lab share: no error between them".to_owned(),
        runs: vec![kernel, tickwire],
        timings: timings.map(|timing| run(Carrier::Tickwire, timing, 1)).into(),
        sweep,
        time: Some(Ok(clock())),
        pattern,
    }
}

/// A clock that polled every second, every four seconds, and then no more.
fn clock() -> TimeFigures {
    let mut dice = Dice(0x2545_F491_4F6C_DD1D);
    let rows = [(1.0, None, 300.0), (4.0, None, 800.0), (1.0, Some(3.5), 2_500.0)];
    TimeFigures {
        machine: "A Processor @ 2.10 GHz, 2 processors, Linux 6.12.1".to_owned(),
        command: Vec::new(),
        references: vec!["A real daemon on one host of a lab and its server on another.".to_owned()],
        rows: rows
            .map(|(interval_s, silent_after_s, spread_ns)| ClockRow {
                origin: Origin::Lab,
                interval_s: Some(interval_s),
                silent_after_s,
                measured_s: 14.0,
                exchanges: Some((silent_after_s.unwrap_or(14.0) / interval_s) as u64),
                differences: differences(spread_ns, &mut dice),
            })
            .into(),
    }
}

fn differences(spread_ns: f64, dice: &mut Dice) -> Differences {
    const COUNT: usize = 28_000;
    const WIDTH_NS: i64 = 40;
    let mut all: Vec<i64> =
        (0..COUNT).map(|_| ((dice.part() + dice.part() + dice.part() - 1.4) * spread_ns) as i64).collect();
    all.sort_unstable();
    let mut sizes: Vec<i64> = all.iter().map(|ns| ns.abs()).collect();
    sizes.sort_unstable();
    let (min_ns, max_ns) = (all[0], all[COUNT - 1]);
    let mut counts = vec![0; ((max_ns - min_ns) / WIDTH_NS + 1) as usize];
    for ns in &all {
        counts[((ns - min_ns) / WIDTH_NS) as usize] += 1;
    }
    Differences {
        iterations: COUNT as u64,
        missed: 0,
        repeated: 12,
        min_ns,
        max_ns,
        mean_ns: all.iter().sum::<i64>() as f64 / COUNT as f64,
        median_ns: all[COUNT / 2],
        p99_ns: sizes[COUNT * 99 / 100],
        bound_ns: (spread_ns * 9.0) as i64,
        outside: 0,
        histogram: Histogram { from_ns: min_ns, width_ns: WIDTH_NS, counts },
    }
}

fn run(pattern: &Pattern, carrier: Carrier, timing: Timing, rate: u32) -> Run {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15 ^ (u64::from(rate) << 8) ^ (timing as u64) ^ ((carrier as u64) << 4));
    let streams = pattern.streams.iter().map(|stream| figures(stream, carrier, timing, rate, &mut dice)).collect();
    let (user_ns, system_ns, lane) = match carrier {
        Carrier::Kernel => (2_100_000_000, 5_300_000_000, None),
        Carrier::Tickwire => {
            (7_900_000_000, 1_200_000_000, Some((pattern.streams.len() as u64, pattern.streams.len() as u64)))
        }
    };
    Run {
        carrier,
        timing,
        rate,
        duration_ns: SECONDS * 1_000_000_000,
        streams,
        consumer: Usage {
            user_ns: user_ns * u64::from(rate),
            system_ns: system_ns * u64::from(rate),
            elapsed_ns: SECONDS * 1_000_000_000,
            ready_ns: Some(3_200_000),
        },
        diverted: lane.map(|_| 912_345 * u64::from(rate)),
        accelerated: lane,
        drops: Vec::new(),
        faults: Vec::new(),
    }
}

fn figures(stream: &Stream, carrier: Carrier, timing: Timing, rate: u32, dice: &mut Dice) -> StreamFigures {
    let (base_us, jitter_us, seldom_us) = match carrier {
        Carrier::Kernel => (95.0, 35.0, 2_600.0),
        Carrier::Tickwire => (48.0, 9.0, 240.0),
    };
    let wait_us = match timing {
        Timing::Synchronised => 6_000.0,
        Timing::Pattern | Timing::Unscheduled => 350.0,
        Timing::Scheduled => 0.5,
    };
    let wire_us = f64::from(stream.size) * 8.6 / 1e3;
    let sent = (Duration::from_secs(SECONDS).as_nanos() / stream.period.as_nanos()) as u64 * u64::from(rate);
    let (mut latency, mut release) = (Times::default(), Times::default());
    for _ in 0..sent {
        let waits = if timing == Timing::Synchronised || dice.part() < 0.08 { wait_us * dice.part() } else { 0.0 };
        let seldom = if dice.part() < 0.004 { dice.tail(seldom_us) } else { 0.0 };
        let us = base_us + wire_us + dice.tail(jitter_us) + waits + seldom;
        latency.record((us.min(stream.deadline.as_secs_f64() * 0.9e6) * 1e3) as u64);
        release.record((dice.tail(20.0) * 1e3) as u64);
    }
    StreamFigures {
        sent,
        received: sent,
        latency: latency.summary(),
        histogram: latency.pairs(),
        release: release.summary(),
        ..StreamFigures::default()
    }
}
