//! Runs the whole study.

use crate::bench::{Bench, Order, Run};
use crate::card::CardPath;
use crate::error::{AbsentMeasurement, JitterStudyError};
use crate::figures::TimeStatistics;
use crate::load::{MachineLoad, Running};
use crate::options::{AROUND_RUN, JitterOptions, RUNS, Target};
use crate::pace::Wait;
use crate::quantity::{MessageCarrier, Point, Quantity};
use crate::readout::{self, CardClock};
use crate::sender::{self, WARM_UP};
use serde::Serialize;
use std::time::Duration;

/// Time for a started load to settle.
const SETTLE: Duration = Duration::from_millis(100);
/// A load ends by itself this long after the longest possible measurement.
const SPARE: Duration = Duration::from_secs(120);

/// The results of the study.
#[derive(Clone, Debug, Serialize)]
pub struct JitterStudy {
    /// The machine: processor and kernel.
    pub machine: String,
    /// The path of the messages.
    pub target: String,
    /// Requested messages of each profile.
    pub samples: u32,
    /// Bytes of each frame.
    pub size_bytes: u32,
    /// Interval between the messages' instants, in ns.
    pub period_ns: u64,
    /// The loads that were applied.
    pub loads: Vec<Applied>,
    /// The measured profiles.
    pub profiles: Vec<Profile>,
    /// What could not be measured, with the reasons.
    pub absent: Vec<AbsentMeasurement>,
}

/// A load that was applied.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Applied {
    /// The load.
    pub load: MachineLoad,
    /// How long it was applied.
    pub seconds: f64,
    /// Number of blocks of 8 MB read from the disk.
    pub blocks: u64,
}

/// One quantity under one load on one path.
#[derive(Clone, Debug, Serialize)]
pub struct Profile {
    /// The quantity.
    pub quantity: Quantity,
    /// The kind of wait, for deviations from the instant.
    pub wait: Option<Wait>,
    /// The interface whose clock was read, or that sent the messages.
    pub interface: String,
    /// The load.
    pub load: MachineLoad,
    /// The path.
    pub carrier: MessageCarrier,
    /// Messages without a timestamp: lost, or not timestamped in time.
    pub missing: usize,
    /// For Tickwire: packets that the guard of the sender's lane let out, which proves the path.
    pub lane_packets: Option<u64>,
    /// The statistics of the times.
    #[serde(flatten)]
    pub figures: TimeStatistics,
}

/// Runs the study and reports each step to `progress`. [`JitterOptions::estimate`] gives its
/// duration.
///
/// # Errors
/// The options are invalid, the lab cannot be created, or nothing at all could be measured. Single
/// measurements that failed are listed in [`JitterStudy::absent`].
pub fn study(options: &JitterOptions, mut progress: impl FnMut(&str)) -> Result<JitterStudy, JitterStudyError> {
    options.check()?;
    let mut making = Making::new(options)?;
    for load in options.loads() {
        making.under(load, &mut progress);
    }
    making.finish()
}

/// The state of a running study.
struct Making<'a> {
    options: &'a JitterOptions,
    clocks: Vec<CardClock>,
    over: Over,
    loads: Vec<Applied>,
    profiles: Vec<Profile>,
    absent: Vec<AbsentMeasurement>,
}

/// Does not return while Ctrl-C is ending the lab, because errors during that are not failures.
fn uninterrupted(error: anyhow::Error) -> anyhow::Error {
    tickwire_lab::wait_if_interrupted();
    error
}

/// Where and under which conditions the messages of a run were timestamped.
struct RunConditions<'a> {
    points: &'a [Point],
    wait: Wait,
    load: MachineLoad,
    carrier: MessageCarrier,
    interface: &'a str,
}

/// The display name of the lab's interface.
const LAB: &str = "eth0 of the lab";

/// The path of the messages.
enum Over {
    Lab(Box<Bench>),
    Card(CardPath, String),
}

impl<'a> Making<'a> {
    fn new(options: &'a JitterOptions) -> Result<Self, JitterStudyError> {
        let (over, only, lacking) = match &options.target {
            Target::Lab => {
                let (bench, why) = Bench::new().map_err(|error| JitterStudyError::Lab(uninterrupted(error)))?;
                let wire = "a lab's cable has none: `--interface IF --to ADDRESS` measures a network card";
                let lacking = [
                    Some(AbsentMeasurement::new("stamps on the wire", wire)),
                    why.map(|why| AbsentMeasurement::new("Tickwire's path", &why)),
                ];
                (Over::Lab(Box::new(bench)), None, lacking)
            }
            Target::Card { interface, to } => {
                let (path, wire) = CardPath::new(interface, *to, options.size);
                let why = "a socket that asks for a card's or driver's stamps is the kernel's: without `--interface` a lab compares the two";
                let lacking = [wire, Some(AbsentMeasurement::new("Tickwire's path", why))];
                (Over::Card(path, interface.clone()), Some(interface.as_str()), lacking)
            }
        };
        let (clocks, mut absent) = readout::clocks(only);
        absent.extend(lacking.into_iter().flatten());
        Ok(Self { options, clocks, over, loads: Vec::new(), profiles: Vec::new(), absent })
    }

    /// Measures everything under one load. Results under a load that ended early are discarded.
    fn under(&mut self, load: MachineLoad, progress: &mut impl FnMut(&str)) {
        let limit = (sender::longest(self.options.samples) + AROUND_RUN) * self.options.runs() + SPARE;
        let running = match load.begin(limit, &self.options.directory, self.options.serial.as_deref()) {
            Ok(running) => running,
            Err(error) => return self.lacks(&format!("load {}", load.name()), error),
        };
        std::thread::sleep(SETTLE);
        let before = self.profiles.len();
        self.readouts(load, progress);
        match &self.over {
            Over::Lab(_) => self.in_lab(load, progress),
            Over::Card(..) => self.by_card(load, progress),
        }
        self.end(load, running, before);
    }

    fn end(&mut self, load: MachineLoad, running: Running, before: usize) {
        match running.finish() {
            Ok((blocks, span)) => self.loads.push(Applied { load, seconds: span.as_secs_f64(), blocks }),
            Err(error) => {
                self.profiles.truncate(before);
                self.lacks(&format!("load {}", load.name()), error);
            }
        }
    }

    fn readouts(&mut self, load: MachineLoad, progress: &mut impl FnMut(&str)) {
        for clock in std::mem::take(&mut self.clocks) {
            progress(&format!("load {}: reading the clock of {}", load.name(), clock.interface));
            let name = format!("clock of {}, load {}", clock.interface, load.name());
            match clock.measure(self.options.samples as usize) {
                Ok(took) => match TimeStatistics::of(took) {
                    Some(figures) => self.profiles.push(Profile {
                        quantity: Quantity::ClockReadout,
                        wait: None,
                        interface: clock.interface.clone(),
                        load,
                        carrier: MessageCarrier::Kernel,
                        missing: 0,
                        lane_packets: None,
                        figures,
                    }),
                    None => self.lacks(&name, "the system clock was set during each reading"),
                },
                Err(error) => self.lacks(&name, error),
            }
            self.clocks.push(clock);
        }
    }

    fn in_lab(&mut self, load: MachineLoad, progress: &mut impl FnMut(&str)) {
        for (carrier, stamps) in RUNS {
            for wait in Wait::ALL {
                let Over::Lab(bench) = &self.over else { return };
                if carrier == MessageCarrier::Tickwire && !bench.has_tickwire() {
                    continue;
                }
                let stamped = if stamps { ", stamped by the driver" } else { "" };
                let name = format!("load {}: {}, {}{stamped}", load.name(), carrier.name(), wait.name());
                progress(&name);
                let (messages, frame) = (self.options.samples, self.options.size);
                match bench.run(&Order { carrier, wait, stamps, messages, frame }) {
                    Ok(run) => {
                        let points: &[Point] = if stamps { &[Point::Driver] } else { &[Point::Peer] };
                        self.enter(&run, &RunConditions { points, wait, load, carrier, interface: LAB });
                    }
                    Err(error) => self.lacks(&name, format!("{:#}", uninterrupted(error))),
                }
            }
        }
    }

    fn by_card(&mut self, load: MachineLoad, progress: &mut impl FnMut(&str)) {
        for wait in Wait::ALL {
            let Over::Card(path, interface) = &self.over else { return };
            let name = format!("load {}: {interface}, {}", load.name(), wait.name());
            progress(&name);
            let points: &[Point] = if path.stamps() { &[Point::Driver, Point::Wire] } else { &[Point::Driver] };
            let interface = interface.clone();
            match path.run(wait, self.options.samples) {
                Ok(messages) => {
                    let run = Run { messages, lane_packets: None };
                    self.enter(
                        &run,
                        &RunConditions { points, wait, load, carrier: MessageCarrier::Kernel, interface: &interface },
                    );
                }
                Err(error) => self.lacks(&name, error),
            }
        }
    }

    /// Enters the profiles of one run, without its warm-up.
    fn enter(&mut self, run: &Run, conditions: &RunConditions<'_>) {
        let counted = run.messages.get(WARM_UP as usize..).unwrap_or_default();
        for quantity in conditions.points.iter().flat_map(|point| point.quantities(conditions.wait)) {
            let wait = quantity.is_deviation().then_some(conditions.wait);
            let times: Vec<i64> = counted.iter().filter_map(|message| quantity.of(message)).collect();
            let missing = counted.len() - times.len();
            let Some(figures) = TimeStatistics::of(times) else {
                let name = format!("{}, load {}", quantity.title(wait), conditions.load.name());
                self.lacks(&name, format!("none of {} messages was stamped there: did they leave?", counted.len()));
                continue;
            };
            self.profiles.push(Profile {
                quantity,
                wait,
                interface: conditions.interface.to_owned(),
                load: conditions.load,
                carrier: conditions.carrier,
                missing,
                lane_packets: run.lane_packets,
                figures,
            });
        }
    }

    /// Records a failed measurement, once.
    fn lacks(&mut self, name: &str, why: impl ToString) {
        let absent = AbsentMeasurement::new(name, &why.to_string());
        if !self.absent.contains(&absent) {
            self.absent.push(absent);
        }
    }

    fn finish(self) -> Result<JitterStudy, JitterStudyError> {
        if self.profiles.is_empty() {
            let why: Vec<String> = self.absent.iter().map(|one| format!("{}: {}", one.name, one.why)).collect();
            return Err(JitterStudyError::Nothing(why.join("; ")));
        }
        let target = match &self.options.target {
            Target::Lab => "a lab of two hosts on this machine, over a cable of its kernel (veth)".to_owned(),
            Target::Card { interface, to } => format!("{interface} to {to}"),
        };
        Ok(JitterStudy {
            machine: tickwire_report::machine(),
            target,
            samples: self.options.samples,
            size_bytes: self.options.size,
            period_ns: crate::PERIOD.as_nanos() as u64,
            loads: self.loads,
            profiles: self.profiles,
            absent: self.absent,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(interface: &str, to: &str) -> JitterOptions {
        JitterOptions {
            samples: 50,
            size: 166,
            target: Target::Card { interface: interface.to_owned(), to: to.parse().unwrap() },
            serial: None,
            loads: vec![MachineLoad::None, MachineLoad::Cpu, MachineLoad::None],
            directory: ".".into(),
        }
    }

    #[test]
    fn a_small_study_of_an_interface_has_its_profiles_and_names_what_is_lacking() {
        let mut said = Vec::new();
        let study = study(&options("lo", "127.0.0.1:9"), |what| said.push(what.to_owned())).unwrap();
        assert_eq!(said.len(), 4, "{said:?}");
        // Two deviations, and the call itself, under each of two loads.
        let of = |load: MachineLoad| {
            study.profiles.iter().filter(move |one| one.load == load).map(|one| (one.quantity, one.wait))
        };
        let (call, instant) = (Quantity::CallToDriver, Quantity::InstantToDriver);
        let expected = [(call, None), (instant, Some(Wait::Watch)), (instant, Some(Wait::Sleep))];
        for load in [MachineLoad::None, MachineLoad::Cpu] {
            assert_eq!(of(load).collect::<Vec<_>>(), expected);
        }
        assert!(study.profiles.iter().all(|one| one.figures.samples + one.missing == 50 && one.interface == "lo"));
        let absent: Vec<&str> = study.absent.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(absent, ["clock of lo", "stamps of lo on the wire", "Tickwire's path"]);
        assert_eq!(
            study.loads.iter().map(|one| (one.load, one.blocks)).collect::<Vec<_>>(),
            [(MachineLoad::None, 0), (MachineLoad::Cpu, 0)]
        );

        let json = serde_json::to_value(&study).unwrap();
        assert_eq!(
            (&json["samples"], &json["size_bytes"], &json["period_ns"]),
            (&50.into(), &166.into(), &500_000.into())
        );
        let one = &json["profiles"][1];
        assert_eq!((&one["quantity"], &one["wait"]), (&"instant_to_driver".into(), &"watch".into()));
        assert_eq!(
            (&one["load"], &one["carrier"], &one["lane_packets"]),
            (&"none".into(), &"kernel".into(), &().into())
        );
        for figure in ["samples", "min_ns", "mean_ns", "p50_ns", "p99_ns", "p999_ns", "max_ns", "jitter_ns", "missing"]
        {
            assert!(one[figure].is_number(), "{figure}: {one}");
        }
        assert_eq!(one["profile"][0]["part"], 1.0);
        assert!(json["absent"][0]["why"].is_string() && json["loads"][1]["load"] == "cpu", "{json}");

        let (table, html) = (crate::table(&study), crate::html(&study, &["tickwire".to_owned(), "jitter".to_owned()]));
        for one in &study.absent {
            assert!(
                table.contains(&one.name) && table.contains(&one.why),
                "{} is absent and not named: {table}",
                one.name
            );
            assert!(html.contains(&one.why.replace('\'', "&#39;")), "{html}");
        }
        for (quantity, wait) in expected {
            assert!(table.contains(&quantity.title(wait)) && html.contains(&quantity.title(wait)), "{table}");
        }
    }

    #[test]
    fn a_load_that_is_not_there_is_named_and_the_others_are_measured() {
        let options = JitterOptions {
            loads: vec![MachineLoad::None, MachineLoad::Disk],
            directory: "/nonexistent".into(),
            ..options("lo", "127.0.0.1:9")
        };
        let study = study(&options, |_| {}).unwrap();
        assert!(
            study.absent.iter().any(|one| one.name == "load disk" && one.why.contains("/nonexistent")),
            "{:?}",
            study.absent
        );
        assert!(study.profiles.iter().all(|one| one.load == MachineLoad::None) && !study.profiles.is_empty());
        let nothing =
            crate::study(&JitterOptions { loads: vec![MachineLoad::Disk], ..options }, |_| {}).unwrap_err().to_string();
        assert!(nothing.starts_with("nothing could be measured: ") && nothing.contains("load disk"), "{nothing}");
    }

    #[test]
    fn what_cannot_be_meant_is_refused_before_anything_is_started() {
        let wrong = |options: JitterOptions| match study(&options, |what| panic!("it began: {what}")).unwrap_err() {
            JitterStudyError::Usage { option, what } => format!("{option}: {what}"),
            other => panic!("{other}"),
        };
        let good = || options("lo", "127.0.0.1:9");
        assert_eq!(wrong(JitterOptions { size: 59, ..good() }), "--size: a frame has 60 to 1514 bytes");
        assert!(wrong(JitterOptions { size: 60, ..options("lo", "[::1]:9") }).contains("over IPv6: the least is 70"));
        assert_eq!(wrong(options("nosuch0", "127.0.0.1:9")), "--interface: there is no interface \"nosuch0\" here");
        assert!(wrong(options("../net/lo", "127.0.0.1:9")).starts_with("--interface: there is no interface"));
        let serial = |loads: Vec<MachineLoad>, serial: Option<&str>| JitterOptions {
            loads,
            serial: serial.map(Into::into),
            ..good()
        };
        assert!(wrong(serial(vec![MachineLoad::DiskSerial], None)).contains("disk+serial needs a serial line"));
        assert!(wrong(serial(vec![], Some("/dev/null"))).starts_with("--serial: /dev/null is no serial line"));
    }
}
