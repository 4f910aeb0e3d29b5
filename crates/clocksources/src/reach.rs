//! The counters that can be read, and why the others cannot.

use nix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::fs::File;
use std::os::fd::AsRawFd;
use tickclock::counter::{self, AcpiPm, Hpet};
use tickclock::{Clock, CounterKind};

/// A counter of this machine.
#[derive(Debug)]
pub(crate) struct Counter {
    pub(crate) name: String,
    /// How a program reads it.
    pub(crate) how: String,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Processor(CounterKind),
    Hpet(Hpet),
    AcpiPm(AcpiPm),
    System(ClockId),
    /// A PTP hardware clock; the open file keeps its clock ID valid.
    Device(File),
    Tickwire(Clock),
}

impl Counter {
    /// The counter now, in its own units.
    #[inline]
    pub(crate) fn read(&self) -> u64 {
        match &self.source {
            Source::Processor(kind) => counter::read(*kind).0,
            Source::Hpet(hpet) => hpet.read(),
            Source::AcpiPm(timer) => timer.read(),
            Source::System(clock) => system(*clock),
            Source::Device(file) => system(dynamic(file)),
            Source::Tickwire(clock) => clock.now().utc().0 as u64,
        }
    }

    /// Width in bits, after which the counter wraps.
    pub(crate) const fn bits(&self) -> u32 {
        match &self.source {
            Source::Hpet(hpet) => hpet.bits(),
            Source::AcpiPm(timer) => timer.bits(),
            _ => 64,
        }
    }

    /// Whether it counts nanoseconds, so that it can be the reference.
    pub(crate) const fn is_clock(&self) -> bool {
        matches!(self.source, Source::System(_) | Source::Device(_) | Source::Tickwire(_))
    }
}

/// A counter that cannot be read here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AbsentCounter {
    /// Its name.
    pub name: String,
    /// The reason, and what would change it.
    pub why: String,
}

/// Clocks of the kernel that a program reads through the vDSO, if the kernel's clocksource allows
/// it.
const SYSTEM: [(ClockId, &str); 6] = [
    (ClockId::CLOCK_REALTIME, "CLOCK_REALTIME"),
    (ClockId::CLOCK_MONOTONIC, "CLOCK_MONOTONIC"),
    (ClockId::CLOCK_MONOTONIC_RAW, "CLOCK_MONOTONIC_RAW"),
    (ClockId::CLOCK_BOOTTIME, "CLOCK_BOOTTIME"),
    (ClockId::CLOCK_TAI, "CLOCK_TAI"),
    (ClockId::CLOCK_MONOTONIC_COARSE, "CLOCK_MONOTONIC_COARSE"),
];

/// The kernel's list of clocksources.
const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";

/// Probes every known counter.
pub(crate) fn all() -> (Vec<Counter>, Vec<AbsentCounter>) {
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    let mut add = |name: &str, how: &str, source: Result<Source, String>| match source {
        Ok(source) => found.push(Counter { name: name.to_owned(), how: how.to_owned(), source }),
        Err(why) => absent.push(AbsentCounter { name: name.to_owned(), why }),
    };
    for (kind, how) in [(CounterKind::Tsc, "LFENCE, RDTSC"), (CounterKind::Cntvct, "ISB, MRS")] {
        let source = counter::exists(kind).then_some(Source::Processor(kind));
        add(kind.name(), how, source.ok_or_else(|| "another kind of processor".to_owned()));
    }
    let hpet = Hpet::open("/dev/hpet").map(Source::Hpet).map_err(|e| format!("/dev/hpet: {e}"));
    add("HPET", "a mapped register", hpet);
    let fadt = "/sys/firmware/acpi/tables/FACP";
    add("ACPI PM", "an I/O port", AcpiPm::open(fadt).map(Source::AcpiPm).map_err(|e| format!("{fadt}: {e}")));
    let sources = Kernel::look();
    add("kvm-clock", "", Err(sources.about("kvm-clock")));
    for (clock, name) in SYSTEM {
        let how = format!("clock_gettime, on {}", sources.current);
        let source = clock_gettime(clock).map(|_| Source::System(clock)).map_err(|e| e.to_string());
        add(name, &how, source);
    }
    let devices = ptp_devices();
    if devices.is_empty() {
        add("PTP hardware clock", "", Err("no /dev/ptp* on this machine".to_owned()));
    }
    for device in devices {
        let opened = File::open(&device).map_err(|e| e.to_string());
        let source = opened.and_then(|file| match clock_gettime(dynamic(&file)) {
            Ok(_) => Ok(Source::Device(file)),
            Err(error) => Err(error.to_string()),
        });
        add(&device, "clock_gettime, a system call", source);
    }
    let page = tickclock::default_path();
    let how = format!("the page {}", page.display());
    let tickwire = Clock::open(&page).map_err(|e| e.to_string()).and_then(|clock| match clock.now().bound {
        u64::MAX => Err("it does not know the time yet".to_owned()),
        _ => Ok(Source::Tickwire(clock)),
    });
    add("tickwire", &how, tickwire);
    (found, absent)
}

/// The kernel's clocksources.
struct Kernel {
    current: String,
    available: Vec<String>,
}

impl Kernel {
    fn look() -> Self {
        let read = |name: &str| std::fs::read_to_string(format!("{SOURCES}/{name}")).unwrap_or_default();
        Self {
            current: read("current_clocksource").trim().to_owned(),
            available: read("available_clocksource").split_whitespace().map(str::to_owned).collect(),
        }
    }

    /// Why programs cannot read one of the kernel's clocksources directly.
    fn about(&self, name: &str) -> String {
        if self.current == name {
            "programs read it only as the kernel's clocks, which it drives now".to_owned()
        } else if self.available.iter().any(|one| one == name) {
            format!(
                "the kernel has it but uses {}; writing its name to {SOURCES}/current_clocksource puts it under the kernel's clocks",
                self.current
            )
        } else {
            "the kernel does not have it".to_owned()
        }
    }
}

fn ptp_devices() -> Vec<String> {
    let entries = std::fs::read_dir("/dev").into_iter().flatten().flatten();
    let is_one = |name: &String| name.strip_prefix("ptp").is_some_and(|n| n.parse::<u32>().is_ok());
    let mut names: Vec<_> = entries.filter_map(|e| e.file_name().into_string().ok()).filter(is_one).collect();
    names.sort();
    names.into_iter().map(|name| format!("/dev/{name}")).collect()
}

/// The clock ID of an open clock device for `clock_gettime` (`FD_TO_CLOCKID` of clock_getres(2)).
fn dynamic(file: &File) -> ClockId {
    ClockId::from_raw(!file.as_raw_fd() << 3 | 3)
}

#[inline]
fn system(clock: ClockId) -> u64 {
    clock_gettime(clock).map_or(0, |now| now.tv_sec() as u64 * 1_000_000_000 + now.tv_nsec() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_known_counter_is_either_read_or_named() {
        let (found, absent) = all();
        let named = |name: &str| {
            found.iter().filter(|c| c.name == name).count() + absent.iter().filter(|a| a.name == name).count()
        };
        for name in ["TSC", "CNTVCT", "HPET", "ACPI PM", "kvm-clock", "CLOCK_MONOTONIC_RAW", "CLOCK_TAI", "tickwire"] {
            assert_eq!(named(name), 1, "{name}: {found:?} {absent:?}");
        }
        assert!(absent.iter().all(|one| !one.why.is_empty()));
        for counter in &found {
            let first = counter.read();
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(counter.read() > first, "{} stands still", counter.name);
        }
    }

    #[test]
    fn the_kernels_own_counter_is_explained() {
        let kernel = Kernel { current: "tsc".to_owned(), available: vec!["tsc".to_owned(), "kvm-clock".to_owned()] };
        assert!(kernel.about("kvm-clock").contains("uses tsc"));
        assert!(kernel.about("tsc").contains("drives now"));
        assert_eq!(kernel.about("jiffies"), "the kernel does not have it");
    }
}
