//! An experiment: which runs, one after the other, and where.

use super::Error;
use super::bed::{Bed, BedOptions};
use super::measured::Live;
use super::patience::Patience;
use super::place::Hosts;
use super::plan::timed;
use super::run::{RunOptions, run};
use super::site::Site;
use crate::node::Time;
use crate::outcome::{Carrier, Experiment, Run, Timing};
use crate::pattern::Pattern;
use crate::schedule::Link;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Where an experiment is made.
#[derive(Clone, Debug)]
pub enum Ground {
    /// In a lab on this machine.
    Lab {
        /// The program `tickwire`.
        tickwire: PathBuf,
        /// So many processors are kept busy by other programs all the while.
        busy: usize,
    },
    /// On the machines of a site, whose services run already.
    Site {
        /// Which.
        site: Site,
        /// The clock's page on each of them, if not the usual one.
        page: Option<PathBuf>,
    },
}

/// Which runs.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is sent.
    pub pattern: Pattern,
    /// Where.
    pub ground: Ground,
    /// On which stacks, in this order.
    pub carriers: Vec<Carrier>,
    /// Whether Tickwire's run has the consumer on it.
    pub consumer: bool,
    /// And the producers.
    pub producers: bool,
    /// As `tickwire run --spin`.
    pub spin: Option<String>,
    /// When messages are due in the comparison of stacks.
    pub timing: Timing,
    /// Whether timings are compared, too.
    pub timings: bool,
    /// The rates of the sweep, as multiples of the pattern's; empty: none.
    pub sweep: Vec<u32>,
    /// The rate of the comparison of stacks and of timings.
    pub rate: u32,
    /// The links to and from the switch: what the lab has, and what the schedule reckons with.
    pub link: Link,
    /// How far apart the slots of a schedule are; none: as far as they can be.
    pub guard: Option<Duration>,
    /// What random phases come from.
    pub seed: u64,
    /// How long messages do not count, in each run.
    pub warm_up: Duration,
    /// How long they do.
    pub duration: Duration,
    /// How long each run of the sweep takes.
    pub sweep_duration: Duration,
    /// The first port of the consumer.
    pub first_port: u16,
    /// The command that repeats it, for the report.
    pub command: Vec<String>,
}

/// Which run an experiment is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// From 1.
    pub number: usize,
    /// How many there are.
    pub of: usize,
}

/// One run to be made.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    carrier: Carrier,
    timing: Timing,
    rate: u32,
    duration: Duration,
}

impl Plan {
    /// How long it takes at least: what is measured, and the warm-ups.
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
    /// [`Error::Refused`] if something cannot be meant or is not there, before anything is sent; otherwise something broke.
    pub fn conduct(&self, live: &mut dyn FnMut(Step, &Live)) -> Result<Experiment, Error> {
        let wanted = self.wanted();
        // What does not fit is told before anything begins.
        for one in wanted.iter().flatten() {
            self.timed(one)?;
        }
        let mut ground = Standing { plan: self, bed: None };
        let of = wanted.iter().map(Vec::len).sum();
        let mut number = 0;
        let mut made = Vec::new();
        for group in &wanted {
            let mut runs = Vec::new();
            for one in group {
                number += 1;
                runs.push(ground.run(one, &mut |seen| live(Step { number, of }, seen))?);
            }
            made.push(runs);
        }
        let [runs, timings, sweep] = <[Vec<Run>; 3]>::try_from(made).unwrap_or_default();
        let (machines, clock, link_bps) = self.described();
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

    fn timed(&self, wanted: &Wanted) -> Result<Pattern, Error> {
        let timed = timed(&self.pattern, wanted.timing, wanted.rate, self.seed, &self.link, self.guard);
        timed.map_err(|error| Error::Refused(format!("{}: {error}", self.pattern.name)))
    }

    /// The machines, the clock in words, and the links' rate if it is known.
    fn described(&self) -> (Vec<String>, String, Option<u64>) {
        match &self.ground {
            Ground::Lab { .. } => (
                vec![format!("a lab of network namespaces on one machine: {}", tickwire_report::machine())],
                "one counter, the machine's, at all ends: exact".to_owned(),
                Some(self.link.rate_bps),
            ),
            Ground::Site { site, .. } => {
                let hosts = site.hosts();
                let all = std::iter::once(&hosts.consumer).chain(hosts.producers.iter().map(|(place, _)| place));
                let names = all.map(|place| format!("{} ({})", place.name, place.address)).collect();
                (names, "the Tickwire clock of each machine".to_owned(), None)
            }
        }
    }
}

/// The lab of the run before, which the next one may use, too.
struct Standing<'a> {
    plan: &'a Plan,
    bed: Option<(Carrier, Bed)>,
}

impl Standing<'_> {
    fn run(&mut self, wanted: &Wanted, live: &mut dyn FnMut(&Live)) -> Result<Run, Error> {
        let plan = self.plan;
        let pattern = plan.timed(wanted)?;
        match &plan.ground {
            Ground::Site { site, page } => {
                self.measured(&site.hosts(), &pattern, wanted, Time::Page { path: page.clone() }, live)
            }
            Ground::Lab { tickwire, busy } => {
                if self.bed.as_ref().is_none_or(|(carrier, _)| *carrier != wanted.carrier) {
                    // The kernel is measured without a service beside it, as a host is that has never heard of us.
                    self.bed = None;
                    let ours = wanted.carrier == Carrier::Tickwire;
                    let options = BedOptions {
                        rate_bps: plan.link.rate_bps,
                        producers: plan.pattern.producers(),
                        consumer_service: ours && plan.consumer,
                        producer_services: ours && plan.producers,
                        busy: *busy,
                        tickwire: tickwire.clone(),
                    };
                    self.bed = Some((wanted.carrier, Bed::new(&options)?));
                }
                let Some((_, bed)) = &self.bed else { unreachable!("it has just been built") };
                let before = bed.drops()?;
                let mut run = self.measured(bed.hosts(), &pattern, wanted, Time::Machine, live)?;
                run.drops = more(&before, &bed.drops()?);
                Ok(run)
            }
        }
    }

    fn measured(
        &self,
        hosts: &Hosts,
        pattern: &Pattern,
        wanted: &Wanted,
        time: Time,
        live: &mut dyn FnMut(&Live),
    ) -> Result<Run, Error> {
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
            // A slot is only of use to who is on time; others may sleep as sensors' programs do.
            watch: if wanted.timing == Timing::Scheduled { WATCH } else { Duration::ZERO },
            first_port: plan.first_port,
            patience: Patience::USUAL,
        };
        run(hosts, pattern, &options, live).map(|(run, _)| run)
    }
}

/// How long before its slot a producer watches the clock: a timer's lateness.
const WATCH: Duration = Duration::from_micros(150);

/// What has been dropped since, where it was any.
fn more(before: &[(String, u64)], after: &[(String, u64)]) -> Vec<(String, u64)> {
    let earlier = |place: &str| before.iter().find(|(name, _)| name == place).map_or(0, |(_, count)| *count);
    let since = after.iter().map(|(place, count)| (place.clone(), count.saturating_sub(earlier(place))));
    since.filter(|(_, count)| *count > 0).collect()
}

#[cfg(test)]
mod tests {
    use super::more;

    #[test]
    fn only_what_was_dropped_meanwhile_counts() {
        let counts =
            |list: &[(&str, u64)]| list.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect::<Vec<_>>();
        let since = more(&counts(&[("a", 1), ("b", 2)]), &counts(&[("a", 4), ("b", 2), ("c", 5)]));
        assert_eq!(since, counts(&[("a", 3), ("c", 5)]));
    }
}
