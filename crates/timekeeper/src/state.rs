//! The counter's period, which takes minutes to learn, kept across restarts of the daemon. Offset
//! and asymmetry are not kept: they are learnt anew.
//!
//! The file is valid if it is of this boot and this counter, and the counter has not broken since.
//! It must be writable by the daemon's own user or root only, because a wrong period would make the
//! bound wrong. For an invalid file the daemon logs the reason and starts cold.

use crate::hardware::Look;
use crate::os;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;
use tickclock::{Count, CounterKind, Scale};
use tickwire_clock::sync::SURE;

/// Limit of the file's size, in bytes: longer than any state.
const LONGEST: u64 = 4096;
/// Increases when the meaning of the file changes.
const VERSION: u32 = 1;
/// Largest plausible deviation of the true period from the one that the kernel has measured,
/// relative: as much as the kernel's clock can be steered.
const PLAUSIBLE: f64 = 500e-6;
/// Relative change of the rate that temperature can cause: at once, and once more in each hour.
const AGEING: f64 = 1e-7;
/// A rate with a larger error than this, relative, is not worth saving: a cold start assumes little
/// more about a quartz.
const COLD: f64 = 100e-6;
const HOUR: f64 = 3600e9;
/// Uncertainty of the measured sleep time, in ns.
const LITTLE: i64 = 1_000_000;

/// The file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    /// [`tickclock::boot_id`].
    boot: String,
    counter: String,
    count: u64,
    raw_ns: i64,
    slept_ns: i64,
    period_ns: f64,
    /// The largest error of the period, relative.
    rate_error: f64,
}

/// An estimate of the counter's period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Known {
    /// Its period.
    pub(crate) period: Scale,
    /// The largest error of the period, relative.
    pub(crate) rate_error: f64,
}

impl Known {
    /// The error as a standard deviation, relative: the clock's initial estimate.
    pub(crate) fn deviation(&self) -> f64 {
        self.rate_error / SURE
    }
}

/// Why a file is invalid.
#[derive(Debug, Error)]
pub(crate) enum Void {
    #[error("it cannot be read: {0}")]
    Read(#[from] std::io::Error),
    #[error("it is no ordinary file")]
    Kind,
    #[error("others can write it")]
    Foreign,
    #[error("it is damaged: {0}")]
    Damaged(String),
    #[error("it is of version {0}, this program's is {VERSION}")]
    Version(u32),
    #[error("the machine has started anew since")]
    Boot,
    #[error("it is about the counter {0}")]
    Counter(String),
    #[error("the counter has broken since: {0}")]
    Broken(String),
    #[error("its figures are impossible: {0}")]
    Impossible(&'static str),
}

impl Void {
    /// Whether this is the normal end of a valid file, and no fault.
    pub(crate) const fn is_usual(&self) -> bool {
        matches!(self, Self::Boot | Self::Broken(_) | Self::Version(_))
    }
}

/// The state's file.
#[derive(Debug)]
pub(crate) struct State {
    path: PathBuf,
    boot: String,
    failing: bool,
    /// The rate error of what this daemon saved last.
    kept: f64,
}

/// Beside the page: its name with `.state`.
fn beside(page: &Path) -> PathBuf {
    let mut name = page.as_os_str().to_owned();
    name.push(".state");
    name.into()
}

impl State {
    /// The file of this name, or else the one beside the page.
    pub(crate) fn new(path: Option<&Path>, page: &Path) -> Self {
        Self {
            path: path.map_or_else(|| beside(page), Path::to_owned),
            boot: tickclock::boot_id(),
            failing: false,
            kept: COLD,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The previous daemon's estimate, if there is a file. `now` is the counter's present value,
    /// and `nominal` its period as measured with the kernel's clock.
    pub(crate) fn read(&self, kind: CounterKind, now: &Look, nominal: Scale) -> Result<Option<Known>, Void> {
        let file = match os::open_own(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        if !file.metadata()?.is_file() {
            return Err(Void::Kind);
        }
        if !os::is_own(&file)? {
            return Err(Void::Foreign);
        }
        let mut text = String::new();
        let length =
            file.take(LONGEST + 1).read_to_string(&mut text).map_err(|error| Void::Damaged(error.to_string()))?;
        if length as u64 > LONGEST {
            return Err(Void::Damaged("it is too long".into()));
        }
        let file: File = toml::from_str(&text).map_err(|error| Void::Damaged(error.message().into()))?;
        self.judge(&file, kind, now, nominal).map(Some)
    }

    fn judge(&self, file: &File, kind: CounterKind, now: &Look, nominal: Scale) -> Result<Known, Void> {
        if file.version != VERSION {
            return Err(Void::Version(file.version));
        }
        if self.boot.is_empty() || file.boot != self.boot {
            return Err(Void::Boot);
        }
        if file.counter != kind.name() {
            return Err(Void::Counter(file.counter.clone()));
        }
        let then = Look { count: Count(file.count), raw: file.raw_ns, slept: file.slept_ns };
        let passed = now.raw.saturating_sub(then.raw);
        // The sleep time is the difference of two clocks, read one after the other.
        let slept = -LITTLE..=now.slept.saturating_add(LITTLE);
        if then.raw < 0 || passed < 0 || now.count < then.count || !slept.contains(&then.slept) {
            return Err(Void::Impossible("they are of the future"));
        }
        if let Some(what) = now.broken_since(&then, nominal) {
            return Err(Void::Broken(what));
        }
        let off = file.period_ns / nominal.period() - 1.0;
        let Some(period) = Scale::from_period(file.period_ns).filter(|_| off.abs() <= PLAUSIBLE) else {
            return Err(Void::Impossible("the counter's period is far from what the kernel says"));
        };
        if !(0.0..=COLD).contains(&file.rate_error) {
            return Err(Void::Impossible("the period's error"));
        }
        let rate_error = file.rate_error + AGEING * (1.0 + passed as f64 / HOUR);
        Ok(Known { period, rate_error: rate_error.min(COLD) })
    }

    /// Whether `known` is more than twice as good as what this daemon saved last.
    pub(crate) fn is_outdone_by(&self, known: &Known) -> bool {
        known.rate_error < self.kept / 2.0
    }

    /// Saves the estimate at `now`; the file is replaced atomically. There is no fsync: the
    /// daemon's only thread does not wait for a disk, and after a power failure the file would be
    /// of another boot.
    pub(crate) fn write(&mut self, kind: CounterKind, now: &Look, known: Known) {
        if known.rate_error >= COLD {
            return;
        }
        self.kept = known.rate_error;
        let file = File {
            version: VERSION,
            boot: self.boot.clone(),
            counter: kind.name().into(),
            count: now.count.0,
            raw_ns: now.raw,
            slept_ns: now.slept,
            period_ns: known.period.period(),
            rate_error: known.rate_error,
        };
        match self.replace(&file) {
            Ok(()) => self.failing = false,
            // Logged once, not each minute.
            Err(error) if !self.failing => {
                self.failing = true;
                tracing::warn!(path = %self.path.display(), %error, "the clock's state cannot be kept: the next start will be cold");
            }
            Err(_) => {}
        }
    }

    fn replace(&self, file: &File) -> std::io::Result<()> {
        let text = toml::to_string(file).map_err(std::io::Error::other)?;
        let mut new = self.path.clone().into_os_string();
        new.push(".new");
        // Left over by a daemon that died in between.
        let _ = std::fs::remove_file(&new);
        os::create_own(Path::new(&new))?.write_all(text.as_bytes())?;
        std::fs::rename(&new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_clock::ensemble::leap::Announcement;

    const KIND: CounterKind = CounterKind::Tsc;
    const SECOND: i64 = 1_000_000_000;

    fn nominal() -> Scale {
        Scale::from_period(0.5).unwrap()
    }

    /// So many seconds after the machine's start.
    fn at(seconds: i64) -> Look {
        Look { count: Count((seconds * 2 * SECOND) as u64), raw: seconds * SECOND, slept: 0 }
    }

    fn known() -> Known {
        Known { period: Scale::from_period(0.500_02).unwrap(), rate_error: 3e-7 }
    }

    struct Bed {
        _directory: tempfile::TempDir,
        state: State,
    }

    impl Bed {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let mut state = State::new(None, &directory.path().join("clock"));
            // Wine has no identifier of a boot.
            if state.boot.is_empty() {
                state.boot = "this one".into();
            }
            Self { _directory: directory, state }
        }

        fn written() -> Self {
            let mut bed = Self::new();
            bed.state.write(KIND, &at(1000), known());
            bed
        }

        fn read(&self, now: &Look) -> Result<Option<Known>, String> {
            self.state.read(KIND, now, nominal()).map_err(|void| void.to_string())
        }

        /// Replaces the line that begins with `from`, and returns the error of the next read.
        fn changed(&self, from: &str, to: &str) -> String {
            let text = std::fs::read_to_string(self.state.path()).unwrap();
            let line = text.lines().find(|line| line.starts_with(from)).unwrap();
            std::fs::write(self.state.path(), text.replace(line, to)).unwrap();
            self.read(&at(1001)).unwrap_err()
        }
    }

    #[test]
    fn what_was_known_is_known_again_and_a_little_less_surely() {
        let bed = Bed::written();
        assert!(bed.state.path().ends_with("clock.state"));
        let now = bed.read(&at(1001)).unwrap().unwrap();
        assert_eq!(now.period, known().period, "to the last bit");
        assert!((3e-7..5e-7).contains(&now.rate_error), "{now:?}");
        let later = bed.read(&at(1000 + 10 * 3600)).unwrap().unwrap();
        assert!((1.3e-6..1.5e-6).contains(&later.rate_error), "{later:?}");
        let files = std::fs::read_dir(bed.state.path().parent().unwrap()).unwrap().count();
        assert_eq!(files, 1, "nothing else is left");
    }

    /// A period known to 0.3 ppm stays within that from the first exchange on, while the next
    /// exchanges carry little information yet.
    #[test]
    fn a_warm_clock_is_warm_at_once_and_stays_within_what_was_known() {
        use tickclock::Status;
        use tickwire_clock::ensemble::{Ensemble, EnsembleConfig, SourceConfig};
        use tickwire_sim::{Oscillator, OscillatorWander, SimulatedTimeServer};
        let bed = Bed::written();
        let now = bed.read(&at(1001)).unwrap().unwrap();
        let still = OscillatorWander { skew: -1e-7, cycles: &[], walk: 0.0, white: 0.0, ageing: 0.0 };
        let config = EnsembleConfig {
            nominal: now.period,
            rate_error: now.deviation(),
            holdover_after: 10 * SECOND,
            fresh_for: 5 * SECOND,
            tai_offset: None,
        };
        for seed in 1..=8 {
            let mut oscillator = Oscillator::new(1e9 / now.period.period(), still, seed);
            let mut server = SimulatedTimeServer::new(seed);
            let mut ensemble = Ensemble::new(config, &[SourceConfig::default()]);
            for number in 0..100 {
                let second = if number < 8 { f64::from(number) * 0.2 } else { f64::from(number) - 6.0 };
                let exchange = server.exchange(second, &mut oscillator).unwrap();
                // Whether the exchange is used does not matter here.
                let _ = ensemble.exchange(0, &exchange, Announcement::None);
                let page = ensemble.parameters(exchange.received);
                assert!(!page.status.contains(Status::WARMING_UP), "{seed}, {second} s: {page:?}");
                let off = page.local.period() / now.period.period() - 1.0;
                assert!(off.abs() < now.rate_error, "{seed}, {second} s: off by {off:e} of {:e}", now.rate_error);
            }
        }
    }

    #[test]
    fn without_a_file_the_start_is_cold() {
        assert_eq!(Bed::new().read(&at(1)).unwrap(), None);
    }

    #[test]
    fn another_boot_or_counter_or_a_break_make_it_void() {
        let void = |change: fn(&Bed) -> String| change(&Bed::written());
        assert!(void(|bed| bed.changed("boot", "boot = 'another'")).contains("started anew"));
        assert!(void(|bed| bed.changed("counter", "counter = 'HPET'")).contains("the counter HPET"));
        assert!(void(|bed| bed.changed("version", "version = 7")).contains("version 7"));
        let bed = Bed::written();
        let jumped = Look { count: at(1500).count, ..at(1001) };
        assert!(bed.read(&jumped).unwrap_err().contains("has broken since"));
        let slept = Look { slept: 60 * SECOND, ..at(1001) };
        assert!(bed.read(&slept).unwrap_err().contains("slept for 60"));
        assert!(bed.read(&at(999)).unwrap_err().contains("of the future"));
        assert!(bed.read(&Look { slept: -100, ..at(1001) }).is_ok(), "a reading that is no better");
    }

    #[test]
    fn impossible_figures_are_not_believed() {
        for (key, value) in [
            ("period_ns", "0.6"),
            ("period_ns", "0.0"),
            ("period_ns", "nan"),
            ("period_ns", "-0.5"),
            ("rate_error", "nan"),
            ("rate_error", "-1.0"),
            ("rate_error", "1.0"),
            ("raw_ns", "-9223372036854775808"),
            ("raw_ns", "9223372036854775807"),
            ("slept_ns", "-9223372036854775808"),
            ("slept_ns", "9223372036854775807"),
        ] {
            let why = Bed::written().changed(key, &format!("{key} = {value}"));
            assert!(why.contains("impossible"), "{key} = {value}: {why}");
        }
        assert!(Bed::written().changed("count =", "count = 9223372036854775807").contains("of the future"));
        assert!(Bed::written().changed("count =", "count = 0").contains("has broken"));
    }

    #[test]
    fn damaged_files_are_told() {
        let bed = Bed::written();
        assert!(bed.changed("rate_error", "").contains("damaged: missing field"));
        assert!(Bed::written().changed("rate_error", "more = 1").contains("damaged: unknown field"));
        let path = bed.state.path();
        std::fs::write(path, [0xff; 100]).unwrap();
        assert!(bed.read(&at(1001)).unwrap_err().contains("damaged"));
        std::fs::write(path, "#".repeat(5000)).unwrap();
        assert!(bed.read(&at(1001)).unwrap_err().contains("too long"));
        std::fs::write(path, "").unwrap();
        assert!(bed.read(&at(1001)).unwrap_err().contains("damaged"));
    }

    #[cfg(unix)]
    #[test]
    fn files_of_others_are_not_believed() {
        use std::os::unix::fs::PermissionsExt;
        let bed = Bed::written();
        let path = bed.state.path();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o666)).unwrap();
        assert!(bed.read(&at(1001)).unwrap_err().contains("others can write it"));
        std::fs::remove_file(path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path).unwrap();
        assert!(bed.read(&at(1001)).unwrap_err().contains("cannot be read"));
        std::fs::remove_file(path).unwrap();
        nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(bed.read(&at(1001)).unwrap_err().contains("no ordinary file"), "and the open does not block");
    }

    #[test]
    fn an_unwritable_path_does_no_harm() {
        let mut state = State::new(Some(Path::new("/proc/nowhere/state")), Path::new("/run/clock"));
        state.write(KIND, &at(1000), known());
        assert!(state.failing);
    }

    #[test]
    fn what_is_known_twice_as_well_is_worth_a_write() {
        let mut bed = Bed::new();
        let known = |rate_error| Known { rate_error, ..known() };
        assert!(bed.state.is_outdone_by(&known(49e-6)) && !bed.state.is_outdone_by(&known(51e-6)));
        bed.state.write(KIND, &at(1000), known(49e-6));
        assert!(bed.state.is_outdone_by(&known(24e-6)) && !bed.state.is_outdone_by(&known(25e-6)));
    }

    #[test]
    fn what_is_known_badly_is_not_kept() {
        let mut bed = Bed::new();
        bed.state.write(KIND, &at(1000), Known { rate_error: 2e-4, ..known() });
        assert!(!bed.state.path().exists());
    }
}
