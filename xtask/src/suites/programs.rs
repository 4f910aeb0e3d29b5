//! Suites whose tests are programs: each is run on the kernel and on a lane, with `substitute.c`
//! before it.

use super::topology::Topology;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;
use tickwire_lab::Process;

/// A test program with one or several cases.
pub(super) struct Test {
    pub(super) name: String,
    /// Its subject, which is a row of the table.
    pub(super) group: String,
    pub(super) program: PathBuf,
    pub(super) arguments: Vec<OsString>,
}

/// The number of a test's cases by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) ok: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

impl Tally {
    fn is_worse_than(&self, other: &Self) -> bool {
        self.ok < other.ok || self.failed > other.failed
    }

    fn add(&mut self, more: &Self) {
        self.ok += more.ok;
        self.failed += more.failed;
        self.skipped += more.skipped;
    }

    fn cases(&self) -> usize {
        self.ok + self.failed + self.skipped
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ok, {} failed, {} skipped", self.ok, self.failed, self.skipped)
    }
}

/// The result of a run of a test.
struct Run {
    tally: Tally,
    said: String,
}

/// The specifics of a suite.
pub(super) struct Suite {
    /// Reads the outcomes from a test's output and whether its exit status was 0.
    pub(super) read: fn(&str, bool) -> Tally,
    pub(super) environment: Vec<(&'static str, String)>,
    /// Tests that are worse by design, with the reason.
    pub(super) known: &'static [(&'static str, &'static str)],
}

/// The timeout of a test, in seconds; its child processes are killed, too.
const LONGEST: &str = "30";
const TIMEOUT: Duration = Duration::from_secs(40);
/// Some tests depend on scheduling: one that is worse is tried this often.
pub(super) const CHANCES: usize = 3;

/// A row of the table.
#[derive(Default)]
struct Row {
    tests: usize,
    kernel: Tally,
    ours: Tally,
    crossed: Vec<String>,
    packets: u64,
}

impl Suite {
    /// Runs the tests both ways and prints a table of the results, for `docs/compatibility.md`. If
    /// it is the `whole` suite, it fails unless packets cross the lane.
    pub(super) fn compare(&self, tests: &[Test], whole: bool) -> Result<()> {
        let bed = Topology::new()?;
        let substitute = bed.substitute()?;
        let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
        let mut unexplained = 0;
        for test in tests {
            let (mut kernel, mut ours, mut packets);
            let mut chances = CHANCES;
            loop {
                kernel = self.run(&bed, &substitute, test, false)?;
                let before = bed.packets()?;
                ours = self.run(&bed, &substitute, test, true)?;
                packets = bed.packets()? - before;
                chances -= 1;
                if chances == 0 || self.why(test).is_some() || !ours.tally.is_worse_than(&kernel.tally) {
                    break;
                }
            }
            println!("{}: kernel: {}; tickwire: {}; {packets} packets", test.name, kernel.tally, ours.tally);
            if ours.tally.is_worse_than(&kernel.tally) {
                if let Some(why) = self.why(test) {
                    println!("  worse, as it must be: {why}");
                } else {
                    unexplained += 1;
                    println!("  worse\n{}", ours.said);
                }
            }
            if kernel.tally.failed > 0 {
                println!("  fails on the kernel\n{}", kernel.said);
            }
            let row = rows.entry(&test.group).or_default();
            row.tests += 1;
            row.kernel.add(&kernel.tally);
            row.ours.add(&ours.tally);
            row.packets += packets;
            if packets > 0 {
                row.crossed.push(test.name.clone());
            }
        }
        print(&rows);
        if unexplained > 0 {
            bail!("{unexplained} tests are worse than on the kernel");
        }
        if whole && rows.values().all(|row| row.packets == 0) {
            bail!("nothing crossed the lane");
        }
        Ok(())
    }

    fn why(&self, test: &Test) -> Option<&'static str> {
        self.known.iter().find(|(name, _)| *name == test.name).map(|(_, why)| *why)
    }

    fn run(&self, bed: &Topology, substitute: &std::path::Path, test: &Test, accelerated: bool) -> Result<Run> {
        let mut command = bed.command("timeout", accelerated)?;
        command.args(["--kill-after=2", LONGEST, "sh", "-c"]);
        // In front of the library that `tickwire run` preloads.
        command.arg("export LD_PRELOAD=\"$0${LD_PRELOAD:+:$LD_PRELOAD}\"; exec \"$@\"");
        command.arg(substitute).arg(&test.program).args(&test.arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        let mut process = Process::spawn(command).with_context(|| format!("cannot run {}", test.name))?;
        let well = process.wait(TIMEOUT).is_ok_and(|ended| ended.status.success());
        let said = format!("{}{}", process.stdout(), process.stderr());
        bed.end_others()?;
        Ok(Run { tally: (self.read)(&said, well), said })
    }
}

/// Prints the table. Groups without network traffic share one row.
fn print(rows: &BTreeMap<&str, Row>) {
    let mut others = Row::default();
    println!("\n| about | tests | cases | pass on the kernel | pass on Tickwire | tests that crossed | packets |");
    println!("|---|---|---|---|---|---|---|");
    for (group, row) in rows {
        if row.packets == 0 {
            others.tests += row.tests;
            others.kernel.add(&row.kernel);
            others.ours.add(&row.ours);
        } else {
            println!("{}", line(group, row));
        }
    }
    println!("{}\n", line("all else", &others));
    for row in rows.values().filter(|row| !row.crossed.is_empty()) {
        println!("{}", row.crossed.join(" "));
    }
}

fn line(group: &str, row: &Row) -> String {
    let Row { tests, kernel, ours, crossed, packets } = row;
    format!("| {group} | {tests} | {} | {} | {} | {} | {packets} |", kernel.cases(), kernel.ok, ours.ok, crossed.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fewer_that_pass_are_worse_and_so_are_more_that_fail() {
        let kernel = Tally { ok: 3, failed: 1, skipped: 1 };
        assert!(!kernel.is_worse_than(&kernel));
        assert!(!Tally { ok: 4, failed: 0, skipped: 1 }.is_worse_than(&kernel));
        assert!(Tally { ok: 2, ..kernel }.is_worse_than(&kernel));
        assert!(Tally { failed: 2, ..kernel }.is_worse_than(&kernel));
    }
}
