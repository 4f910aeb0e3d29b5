//! `cargo xtask windows libuv`: libuv's own tests of sockets, on the kernel's sockets (Wine's) and
//! on the lane. Each test runs both ways, by libuv's own runner, and the results are compared.
//!
//! The tests talk to 127.0.0.1, which never leaves the kernel. So they are compiled with a header
//! that gives this address another meaning: a mirror on the other host, which sends each packet
//! back. The sources are unchanged. Both ends of each connection are on the lane, and the service's
//! counters say how many packets crossed it.
//!
//! | module | purpose |
//! |---|---|
//! | `build` | building the tests from Debian's source of libuv |
//! | `loopback.h` | the meaning of 127.0.0.1 in the tests |
//! | `timeouts.c` | longer timeouts of the runner |
//! | `mirror.py` | the host that sends each packet back |
//! | `hosts` | running a test |
//! | `list` | which tests there are, and which use sockets |
//! | `tap` | what the runner prints |
//! | `judge` | what differs, and what is known to differ |
//! | `report` | the table, and JSON |

mod build;
mod hosts;
mod judge;
mod list;
mod report;
mod tap;

use super::lab;
use super::programs::Sockets;
use crate::progress::Progress;
use crate::{prepare, workspace};
use anyhow::{Result, ensure};
use hosts::LibuvHosts;
use judge::{JudgedTest, TestVerdict};
use std::time::Instant;

/// libuv's tests of sockets (TCP, UDP, polls), built for Windows from Debian's source of libuv, run
/// under Wine on the kernel's sockets and on the lane in turn. Their traffic to 127.0.0.1 goes to a
/// mirror on another host, which sends each packet back, so that it crosses the lane.
///
/// The table shows each test with both results and the packets that crossed the lane. The command
/// fails if a test differs and has no reason in docs/winsock-suite.md, and if one that has a reason
/// there does not differ. The first time it downloads 11 MB, and compiles for two minutes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only tests whose name contains this, or another one of these
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,

    /// Print JSON instead of a table
    #[arg(long)]
    json: bool,
}

/// What all tests have shown.
struct LibuvResults {
    tests: Vec<JudgedTest>,
    /// Known differences that there are no longer.
    outdated: Vec<String>,
}

/// Runs the tests both ways; an error if one differs without a known reason, or a known difference
/// is none.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !prepare::is_done() {
        workspace::ask_for_root()?;
        lab::build()?;
        build::build()?;
        return workspace::again_as_root(&workspace::target()?.join("debug"));
    }
    let results = results(&options.only)?;
    println!("{}", if options.json { report::json(&results)? } else { report::table(&results) });
    eprintln!("{}", report::sentence(&results));
    let worse = results.tests.iter().filter(|test| test.verdict == TestVerdict::Differs).count();
    ensure!(worse == 0, "{worse} tests differ without a reason in {}", judge::FILE);
    let outdated = results.outdated.join(", ");
    ensure!(outdated.is_empty(), "these tests do not differ, as {} says: {outdated}", judge::FILE);
    Ok(())
}

fn results(only: &[String]) -> Result<LibuvResults> {
    let hosts = LibuvHosts::new()?;
    let all = hosts.list()?;
    let known = judge::known(&all)?;
    let chosen = list::chosen(&all, only)?;
    let mut progress = Progress::new();
    let mut results = LibuvResults { tests: Vec::new(), outdated: Vec::new() };
    for (number, name) in chosen.iter().enumerate() {
        let begin = Instant::now();
        let step = format!("[{}/{}] {name}", number + 1, chosen.len());
        let mut compared = || -> Result<JudgedTest> {
            progress.begin(format!("{step}: on the kernel's sockets"));
            let kernel = hosts.run(name, Sockets::Kernel)?;
            progress.begin(format!("{step}: on the lane"));
            let lane = hosts.run(name, Sockets::Lane)?;
            Ok(judge::judge(name, kernel, lane, &known))
        };
        let mut test = compared()?;
        if test.verdict == TestVerdict::Differs {
            // The runner gives helpers a quarter of a second to start, which is too little for a
            // busy machine. What differs for another reason does so again.
            test = compared()?;
        }
        progress.begin(step);
        progress.keep(&format!("{} ({:.1} s)", report::word(&test.verdict), begin.elapsed().as_secs_f64()));
        if test.verdict == TestVerdict::Differs {
            progress.say(&format!("    kernel {}\n    lane   {}", test.kernel, test.lane));
        }
        results.tests.push(test);
        tickwire_lab::wait_if_interrupted();
    }
    results.outdated = judge::outdated(&results.tests, &known);
    ensure!(results.tests.iter().any(|test| test.packets > 0), "no test had packets on its lane");
    Ok(results)
}
