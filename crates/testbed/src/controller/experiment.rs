//! An experiment: its sequence of runs, and where they are made.

use super::TestbedError;
use super::host::Hosts;
use super::inventory::Inventory;
use super::measured::Live;
use super::plan::timed;
use super::proof::Proof;
use super::run::{RunOptions, run};
use super::starter::LabNodes;
use super::timeouts::Timeouts;
use super::topology::{Topology, TopologyOptions};
use crate::node::NodeClock;
use crate::node::protocol::{MOST_MESSAGES, Start};
use crate::outcome::{Carrier, Experiment, Run, Timing, Usage};
use crate::pattern::Pattern;
use crate::schedule::CableLink;
use crate::units::{far, millis, nanos};
use serde::{Deserialize, Serialize};
use std::cell::Cell;
use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

/// Where an experiment is made.
#[derive(Clone, Debug)]
pub enum Ground {
    /// In a lab on this machine.
    Lab {
        /// The program `tickwire`.
        tickwire: PathBuf,
        /// Processors kept busy by other programs during the experiment.
        busy: usize,
    },
    /// In a lab on this machine, with nodes that other programs start. (It has no service of
    /// Linux.)
    LabWith(LabNodes),
    /// On the machines of a site, whose services are already running.
    Inventory {
        /// The machines.
        site: Inventory,
        /// The clock's page on each of them, if not the default one.
        page: Option<PathBuf>,
    },
}

/// The runs of an experiment.
#[derive(Clone, Debug)]
pub struct ExperimentPlan {
    /// The traffic pattern.
    pub pattern: Pattern,
    /// Where the runs are made.
    pub ground: Ground,
    /// The stacks, in this order.
    pub carriers: Vec<Carrier>,
    /// Whether Tickwire's run accelerates the consumer.
    pub consumer: bool,
    /// Whether it accelerates the producers.
    pub producers: bool,
    /// As `tickwire run --spin`.
    pub spin: Option<String>,
    /// When messages are due in the comparison of stacks.
    pub timing: Timing,
    /// Whether timings are also compared.
    pub timings: bool,
    /// The rates of the sweep, as multiples of the pattern's; empty: none.
    pub sweep: Vec<u32>,
    /// The rate of the comparison of stacks and of timings.
    pub rate: u32,
    /// The links to and from the switch, for the lab and for the schedule.
    pub link: CableLink,
    /// The guard interval between the slots of a schedule; none: the widest possible.
    pub guard: Option<Duration>,
    /// The seed of random phases.
    pub seed: u64,
    /// Length of the warm-up in each run, whose messages do not count.
    pub warm_up: Duration,
    /// Length of the measurement.
    pub duration: Duration,
    /// Length of the measurement in each run of the sweep.
    pub sweep_duration: Duration,
    /// The first port of the consumer.
    pub first_port: u16,
    /// The command that repeats it, for the report.
    pub command: Vec<String>,
}

/// An experiment's current run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunProgress {
    /// From 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

/// One planned run.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    carrier: Carrier,
    timing: Timing,
    rate: u32,
    duration: Duration,
}

impl Wanted {
    /// The record of a run that failed: only the reason is known.
    fn unmade(&self, error: &TestbedError) -> Run {
        let why = match error {
            TestbedError::Refused(why) => why.clone(),
            TestbedError::Broken(error) => format!("{error:#}"),
        };
        Run {
            carrier: self.carrier,
            timing: self.timing,
            rate: self.rate,
            duration_ns: nanos(self.duration),
            streams: Vec::new(),
            consumer: Usage::default(),
            diverted: None,
            accelerated: None,
            drops: Vec::new(),
            faults: vec![why],
        }
    }
}

impl ExperimentPlan {
    /// The least duration: measurements and warm-ups.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.wanted().iter().flatten().map(|wanted| wanted.duration + self.warm_up).sum()
    }

    /// The comparison of stacks, of timings, and the sweep.
    fn wanted(&self) -> [Vec<Wanted>; 3] {
        let judged = if self.carriers.contains(&Carrier::Tickwire) { Carrier::Tickwire } else { Carrier::Kernel };
        let plain = |carrier, timing| Wanted { carrier, timing, rate: self.rate, duration: self.duration };
        let stacks = self.carriers.iter().map(|&carrier| plain(carrier, self.timing)).collect();
        let timings = [Timing::Unscheduled, Timing::Synchronised, Timing::Scheduled];
        let timings = timings.iter().filter(|_| self.timings).map(|&timing| plain(judged, timing)).collect();
        let swept = |&rate: &u32| Wanted { carrier: judged, timing: self.timing, rate, duration: self.sweep_duration };
        [stacks, timings, self.sweep.iter().map(swept).collect()]
    }

    /// Makes all runs.
    ///
    /// # Errors
    /// [`TestbedError::Refused`] if an input is invalid or a prerequisite is missing, before
    /// anything is sent; otherwise the first run failed. A later failure is reported among the
    /// faults of the failed run, which is the last.
    pub fn conduct(&self, live: &mut dyn FnMut(RunProgress, &Live)) -> Result<Experiment, TestbedError> {
        let wanted = self.wanted();
        // Reports what does not fit, or is missing, before anything starts.
        for one in wanted.iter().flatten() {
            self.possible(one, &self.timed(one)?)?;
        }
        self.served()?;
        let mut ground = Standing { plan: self, bed: None, bound_ns: Cell::new(0) };
        let of = wanted.iter().map(Vec::len).sum();
        let mut number = 0;
        let mut made = Vec::new();
        let mut broken = false;
        for group in &wanted {
            let mut runs = Vec::new();
            for one in group {
                if broken {
                    break;
                }
                number += 1;
                match ground.run(one, &mut |seen| live(RunProgress { number, of }, seen)) {
                    Ok(run) => runs.push(run),
                    Err(error) if number == 1 => return Err(error),
                    // Earlier measurements are kept.
                    Err(error) => {
                        broken = true;
                        runs.push(one.unmade(&error));
                    }
                }
            }
            made.push(runs);
        }
        let [runs, timings, sweep] = <[Vec<Run>; 3]>::try_from(made).unwrap_or_default();
        let (machines, clock, link_bps) = self.described(ground.bound_ns.get());
        Ok(Experiment {
            pattern: self.pattern.clone(),
            command: self.command.clone(),
            machines,
            link_bps,
            clock,
            runs,
            timings,
            sweep,
            time: None,
        })
    }

    fn timed(&self, wanted: &Wanted) -> Result<Pattern, TestbedError> {
        let timed = timed(&self.pattern, wanted.timing, wanted.rate, self.seed, &self.link, self.guard);
        timed.map_err(|error| self.refused(wanted, &error))
    }

    fn refused(&self, wanted: &Wanted, why: &dyn Display) -> TestbedError {
        let rate = if wanted.rate == 1 { String::new() } else { format!(" at {} times its rate", wanted.rate) };
        TestbedError::Refused(format!("{}{rate}: {why}", self.pattern.name))
    }

    /// Checks that each stream has a message that counts, and that the total is not too large.
    fn possible(&self, wanted: &Wanted, timed: &Pattern) -> Result<(), TestbedError> {
        let start = Start { at_ns: 0, warm_up_ns: nanos(self.warm_up), duration_ns: nanos(wanted.duration) };
        let mut messages = 0_u64;
        for stream in &timed.streams {
            let (first, last) = start.numbers(stream);
            messages = messages.saturating_add(last);
            if first >= last {
                let why = format!(
                    "stream {} has a message each {} ms, and none in the {} ms that are measured; expected a longer duration",
                    stream.id,
                    millis(stream.period),
                    millis(wanted.duration)
                );
                return Err(self.refused(wanted, &why));
            }
        }
        if messages > MOST_MESSAGES {
            let why = format!(
                "{messages} messages; expected at most {MOST_MESSAGES} in one run: a shorter one, or a lower rate"
            );
            return Err(self.refused(wanted, &why));
        }
        Ok(())
    }

    /// Checks that a site's machines have the services that are needed, perhaps only in a later
    /// run. The lab has its own.
    fn served(&self) -> Result<(), TestbedError> {
        let Ground::Inventory { site, .. } = &self.ground else { return Ok(()) };
        if !self.wanted().iter().flatten().any(|wanted| wanted.carrier == Carrier::Tickwire) {
            return Ok(());
        }
        let hosts = site.hosts();
        let producers = hosts.producers.iter().map(|(place, _)| place).filter(|_| self.producers);
        for place in std::iter::once(&hosts.consumer).filter(|_| self.consumer).chain(producers) {
            Proof::ask(place, 0, Timeouts::USUAL.appears)
                .map_err(|error| TestbedError::Refused(format!("{error:#}")))?;
        }
        Ok(())
    }

    /// The lab's options.
    fn topology(&self, carrier: Carrier) -> TopologyOptions {
        let (tickwire, busy, nodes) = match &self.ground {
            Ground::Lab { tickwire, busy } => (tickwire.clone(), *busy, None),
            Ground::LabWith(nodes) => (nodes.node.clone(), 0, Some(nodes.clone())),
            Ground::Inventory { .. } => (PathBuf::new(), 0, None),
        };
        let ours = carrier == Carrier::Tickwire && nodes.is_none();
        TopologyOptions {
            rate_bps: self.link.rate_bps,
            producers: self.pattern.producers(),
            consumer_service: ours && self.consumer,
            producer_services: ours && self.producers,
            busy,
            tickwire,
            nodes,
        }
    }

    /// The machines, the clock in words, and the links' rate if known.
    fn described(&self, bound_ns: u64) -> (Vec<String>, String, Option<u64>) {
        match &self.ground {
            Ground::Lab { .. } => (
                vec![format!("a lab of network namespaces on one machine: {}", tickwire_report::machine())],
                "one counter, the machine's, at all ends: exact".to_owned(),
                Some(self.link.rate_bps),
            ),
            Ground::LabWith(nodes) => (
                vec![
                    format!("a lab of network namespaces on one machine: {}", tickwire_report::machine()),
                    nodes.machine.clone(),
                ],
                format!("one counter, the machine's, at all ends; {}", nodes.clock),
                Some(self.link.rate_bps),
            ),
            Ground::Inventory { site, .. } => {
                let hosts = site.hosts();
                let all = std::iter::once(&hosts.consumer).chain(hosts.producers.iter().map(|(place, _)| place));
                let names = all.map(|place| format!("{} ({})", place.name, place.address)).collect();
                let clock =
                    format!("the Tickwire clock of each machine: latencies are wrong by at most {}", far(bound_ns));
                (names, clock, None)
            }
        }
    }
}

/// The lab of the previous run, which the next one may reuse.
struct Standing<'a> {
    plan: &'a ExperimentPlan,
    bed: Option<(Carrier, Topology)>,
    /// The greatest error bound of a latency.
    bound_ns: Cell<u64>,
}

impl Standing<'_> {
    fn run(&mut self, wanted: &Wanted, live: &mut dyn FnMut(&Live)) -> Result<Run, TestbedError> {
        let plan = self.plan;
        let pattern = plan.timed(wanted)?;
        match &plan.ground {
            Ground::Inventory { site, page } => {
                self.measured(&site.hosts(), &pattern, wanted, NodeClock::Page { path: page.clone() }, live)
            }
            Ground::Lab { .. } | Ground::LabWith(_) => {
                if self.bed.as_ref().is_none_or(|(carrier, _)| *carrier != wanted.carrier) {
                    // The kernel is measured without a service, like a host without Tickwire.
                    self.bed = None;
                    self.bed = Some((wanted.carrier, Topology::new(&plan.topology(wanted.carrier))?));
                }
                let Some((_, bed)) = &self.bed else { unreachable!("it has just been built") };
                let before = bed.drops()?;
                let mut run = self.measured(bed.hosts(), &pattern, wanted, NodeClock::Machine, live)?;
                match bed.drops() {
                    Ok(after) => run.drops.append(&mut more(&before, &after)),
                    Err(error) => run.faults.push(format!("{error:#}")),
                }
                Ok(run)
            }
        }
    }

    fn measured(
        &self,
        hosts: &Hosts,
        pattern: &Pattern,
        wanted: &Wanted,
        time: NodeClock,
        live: &mut dyn FnMut(&Live),
    ) -> Result<Run, TestbedError> {
        let plan = self.plan;
        let options = RunOptions {
            carrier: wanted.carrier,
            consumer: plan.consumer,
            producers: plan.producers,
            spin: plan.spin.clone(),
            timing: wanted.timing,
            rate: wanted.rate,
            warm_up: plan.warm_up,
            duration: wanted.duration,
            time,
            // Slots need precise sending; other producers may sleep like a sensor's program.
            watch: if wanted.timing == Timing::Scheduled { WATCH } else { Duration::ZERO },
            first_port: plan.first_port,
            timeouts: Timeouts::USUAL,
        };
        let (run, bound_ns) = run(hosts, pattern, &options, live)?;
        self.bound_ns.set(self.bound_ns.get().max(bound_ns));
        Ok(run)
    }
}

/// How long before its slot a producer polls the clock: a timer's lateness.
const WATCH: Duration = Duration::from_micros(150);

/// Drops since `before`, without zeros.
fn more(before: &[(String, u64)], after: &[(String, u64)]) -> Vec<(String, u64)> {
    let earlier = |place: &str| before.iter().find(|(name, _)| name == place).map_or(0, |(_, count)| *count);
    let since = after.iter().map(|(place, count)| (place.clone(), count.saturating_sub(earlier(place))));
    since.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::super::testing::{MESSAGES, all_received, consumer, pattern, producer, ssh};
    use super::*;
    use std::path::Path;

    #[test]
    fn only_what_was_dropped_meanwhile_counts() {
        let counts =
            |list: &[(&str, u64)]| list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<Vec<_>>();
        let since = more(&counts(&[("a", 1), ("b", 2)]), &counts(&[("a", 4), ("b", 2), ("c", 5)]));
        assert_eq!(since, counts(&[("a", 3), ("c", 5)]));
    }

    /// The kernel, then Tickwire, for a tenth of a second each. The machines run `tickwire` for
    /// Tickwire's nodes and `stat` for the service's figures.
    fn plan(directory: &Path, tickwire: &str, stat: &str) -> ExperimentPlan {
        let script = format!(
            "echo \"$3 $4\" >> {}\ncase $4 in *stat*) {stat}\nexit;; *run*) {tickwire}\nexit 69;; esac\ncase $3 in daq) {};; *) {};; esac",
            directory.join("asked").display(),
            consumer(&[all_received()]),
            producer(&[MESSAGES]),
        );
        let file = directory.join("nodes.toml");
        let text = format!(
            "ssh = {}\n[consumer]\nhost = 'daq'\naddress = '192.0.2.1'\n[[producers]]\nhost = 'sensors'\naddress = '192.0.2.2'\nnumbers = [1]\n",
            toml::Value::from(ssh(&script))
        );
        std::fs::write(&file, text).unwrap();
        let pattern = pattern(1);
        let site = Inventory::read(&file, &pattern).unwrap();
        ExperimentPlan {
            pattern,
            ground: Ground::Inventory { site, page: None },
            carriers: vec![Carrier::Kernel, Carrier::Tickwire],
            consumer: true,
            producers: false,
            spin: None,
            timing: Timing::Pattern,
            timings: false,
            sweep: Vec::new(),
            rate: 1,
            link: CableLink::GIGABIT,
            guard: None,
            seed: 1,
            warm_up: Duration::ZERO,
            duration: Duration::from_millis(100),
            sweep_duration: Duration::from_millis(100),
            first_port: 47_000,
            command: Vec::new(),
        }
    }

    const SERVED: &str = "printf '{}'";

    fn refused(plan: &ExperimentPlan) -> String {
        match plan.conduct(&mut |_, _| ()) {
            Err(TestbedError::Refused(why)) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_run_that_cannot_be_made_costs_nothing_that_was_measured_before_and_is_not_met() {
        let directory = tempfile::tempdir().unwrap();
        let experiment = plan(directory.path(), "echo 'no service' >&2", SERVED).conduct(&mut |_, _| ()).unwrap();
        let [kernel, tickwire] = experiment.runs.as_slice() else { panic!("{experiment:?}") };
        assert!(kernel.is_met(), "{kernel:?}");
        assert_eq!(tickwire.faults, ["daq: the node ended (exit status: 69): no service"]);
        assert!(!tickwire.is_met() && !experiment.is_whole());
        assert_eq!(
            experiment.judged().unwrap().carrier,
            Carrier::Tickwire,
            "the verdict is not about the one that went well"
        );
        assert!(!crate::report::verdict(&experiment).met);
        assert!(experiment.clock.ends_with("wrong by at most 0.002 ms"), "{}", experiment.clock);
    }

    #[test]
    fn what_a_later_run_needs_is_asked_for_before_anything_is_sent() {
        let directory = tempfile::tempdir().unwrap();
        let why = refused(&plan(directory.path(), "", "echo 'no service' >&2; exit 1"));
        assert_eq!(why, "daq: `tickwire stat` failed (exit status: 1): no service");
        let asked = std::fs::read_to_string(directory.path().join("asked")).unwrap();
        assert_eq!(asked, "daq tickwire stat --json\n", "nothing else was started");
    }

    #[test]
    fn what_cannot_be_measured_is_refused_before_anything_is_asked() {
        let directory = tempfile::tempdir().unwrap();
        let good = plan(directory.path(), "", SERVED);
        let mut rare = good.clone();
        rare.pattern.streams[0].period = Duration::from_secs(60);
        rare.pattern.streams[0].phase = Some(Duration::from_secs(30));
        assert_eq!(
            refused(&rare).split("; ").next(),
            Some("test: stream 1 has a message each 60000 ms, and none in the 100 ms that are measured")
        );
        rare.pattern.streams[0].phase = Some(Duration::from_millis(50));
        rare.warm_up = Duration::from_millis(51);
        assert!(refused(&rare).contains("stream 1"), "its only one is in the warm-up");
        let many =
            ExperimentPlan { sweep: vec![1, 1000], sweep_duration: Duration::from_secs(100_000), ..good.clone() };
        assert!(refused(&many).starts_with("test at 1000 times its rate: 10000000000 messages; expected at most"));
        // A message takes 1.4 ms on such a link.
        let link = CableLink { rate_bps: 1_000_000, ..CableLink::GIGABIT };
        let tight = ExperimentPlan { sweep: vec![1, 50, 1000], timing: Timing::Scheduled, link, ..good };
        assert!(refused(&tight).starts_with("test at 50 times its rate: a slot of stream 1"), "{}", refused(&tight));
        assert!(!directory.path().join("asked").exists());
    }
}
