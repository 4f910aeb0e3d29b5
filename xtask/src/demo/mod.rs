//! `cargo xtask demo`: real third-party programs, on the kernel and on Tickwire in turn; then the
//! testbed, and its report.

mod figures;
mod http;
mod iperf;
mod redis;
mod side;
mod sockperf;
mod table;
mod testbed;

use crate::prepare;
use crate::progress::Progress;
use anyhow::{Result, bail};
use figures::Figures;
use side::{Path, Side};
use std::time::{Duration, Instant};

/// How long, and what.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of each measurement that is bounded by time
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=20))]
    seconds: u32,

    /// Only the measurements whose name contains this
    #[arg(long)]
    only: Option<String>,

    /// Only the kernel's column
    #[arg(long)]
    kernel: bool,
}

/// One measurement: a server on host b, a client on host a.
struct Workload {
    name: &'static str,
    run: fn(&Side, Duration) -> Result<Figures>,
}

const WORKLOADS: [Workload; 5] = [
    Workload { name: "sockperf UDP ping-pong, 64 B", run: sockperf::udp },
    Workload { name: "sockperf TCP ping-pong, 64 B", run: sockperf::tcp },
    Workload { name: "redis-benchmark GET, 1 client", run: redis::get },
    Workload { name: "curl from nginx, 1 KiB, keep-alive", run: http::requests },
    Workload { name: "iperf3, one TCP stream", run: iperf::stream },
];

/// Runs the demo; an error if a measurement failed or did not cross our stack.
pub(crate) fn run(options: &Options) -> Result<()> {
    let only = options.only.as_deref().unwrap_or_default();
    let mut names = WORKLOADS.iter().map(|workload| workload.name).chain([testbed::NAME]);
    if !names.any(|name| name.contains(only)) {
        let names = WORKLOADS.map(|w| w.name).join("; ");
        bail!("no measurement's name contains \"{only}\"; there are: {names}; {}", testbed::NAME);
    }
    if !prepare::is_done() {
        return prepare::lab(|| Ok(()));
    }
    measure(options)
}

fn measure(options: &Options) -> Result<()> {
    let start = Instant::now();
    let chosen: Vec<&Workload> =
        WORKLOADS.iter().filter(|w| options.only.as_ref().is_none_or(|only| w.name.contains(only.as_str()))).collect();
    let with_testbed = options.only.as_ref().is_none_or(|only| testbed::NAME.contains(only.as_str()));
    let failed = if chosen.is_empty() { 0 } else { compare(options, &chosen)? };
    if with_testbed {
        eprintln!("\n{}", testbed::NAME);
        let report = testbed::run(options.kernel)?;
        println!("\nThe report, for a browser: {}", report.display());
    }
    eprintln!("took {:.0} s", start.elapsed().as_secs_f64());
    if failed > 0 {
        bail!("{failed} of the measurements failed (see above)");
    }
    Ok(())
}

/// Runs the programs on each path, and prints the table. Returns the number of measurements that
/// failed.
fn compare(options: &Options, chosen: &[&Workload]) -> Result<usize> {
    let paths: &[Path] = if options.kernel { &[Path::Kernel] } else { &[Path::Kernel, Path::Tickwire] };
    eprintln!("two hosts (network namespaces), one cable (veth pair), each program pinned to a processor of its own");
    let sides: Vec<Side> = paths.iter().map(|path| Side::new(*path)).collect::<Result<_>>()?;

    let mut progress = Progress::new();
    let mut rows = Vec::new();
    let total = chosen.len() * sides.len();
    for (number, workload) in chosen.iter().enumerate() {
        let mut outcomes = Vec::new();
        for (place, side) in sides.iter().enumerate() {
            progress.begin(format!(
                "[{}/{total}] {} on {}",
                number * sides.len() + place + 1,
                workload.name,
                side.path()
            ));
            let began = Instant::now();
            let outcome = side.proven(|| (workload.run)(side, Duration::from_secs(options.seconds.into())));
            match &outcome {
                Ok(_) => progress.keep(&format!("{:.1} s", began.elapsed().as_secs_f64())),
                Err(error) => {
                    tickwire_lab::wait_if_interrupted();
                    progress.keep(&format!("failed: {error:#}"));
                }
            }
            outcomes.push(outcome);
        }
        rows.push((workload.name, outcomes));
    }
    drop(sides);
    println!("{}", table::table(&rows, paths));
    println!(
        "Round trips in microseconds, the smaller the better, and Gbit/s, the larger the better; ratio: how many times better than the kernel.\n\
         The maximum is a single message. On two processors, shared with everything else of this machine, it is mostly the machine's: `tickwire doctor` says\n\
         what makes tails (no isolated core, a virtual machine), and `cargo xtask bench` repeats and compares medians."
    );
    println!(
        "The kernel has its offloads (a virtual cable carries 64 KiB at once); Tickwire sends frames of 1500 bytes."
    );
    Ok(rows.iter().flat_map(|(_, outcomes)| outcomes).filter(|o| o.is_err()).count())
}
