//! Publishes the progress of a run in a file, for `tickwire watch`.
//!
//! The file is replaced atomically at each change, and its run holds a lock (`flock`) on it. So a
//! reader finds either the old or the new file, and recognises a stale one by its free lock. Root's
//! file is in `/run/tickwire`, other users' in `$XDG_RUNTIME_DIR` or the directory for temporary
//! files. Readers accept files of root and of their own user only, and validate these too: size and
//! number are bounded, and control characters in names are escaped.

use crate::controller::{Live, RunProgress};
use crate::outcome::StreamDescription;
use crate::pattern::{MOST_STREAMS, Pattern};
use crate::time::Moment;
use nix::fcntl::OFlag;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};
use tickwire_show::sanitize_terminal::sanitized;

/// Root's directory.
const OWN_DIRECTORY: &str = "/run/tickwire";
/// The least time between two replacements of the file.
const PAUSE: Duration = Duration::from_millis(250);
/// The most bytes read of a file: several times the size for [`MOST_STREAMS`].
const LARGEST: u64 = 2 << 20;
/// The most runs read.
const MOST_RUNS: usize = 64;
/// The longest name shown of a pattern, or of a row of the clock's table, in characters.
const LONGEST_NAME: usize = 200;

/// The published state of a run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Shown {
    /// The process of the run; from the file's name, not its content.
    #[serde(skip)]
    pub pid: u32,
    /// When the run began, in seconds of Unix time by the system clock.
    pub since_s: u64,
    /// The source of the pattern.
    pub pattern: String,
    /// Description of each stream.
    pub streams: Vec<StreamDescription>,
    /// The current step; none before the first.
    pub step: Option<RunProgress>,
    /// Progress of that step; while the clock is measured, the result of the last step.
    pub live: Option<Live>,
    /// Progress of the clock measurement, which follows the runs; none before it.
    #[serde(default)]
    pub clock: Option<Moment>,
}

/// A run of another process.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Its published state.
    pub shown: Shown,
    /// Time since that was published.
    pub age: Duration,
}

/// Publishes a run until it is dropped. Errors here do not disturb the run: it is just not visible.
#[derive(Debug)]
pub struct Publisher {
    /// None: there is no directory to publish in.
    place: Option<RunDirectory>,
    shown: Shown,
    last: Option<Instant>,
    /// The current file, locked.
    held: Option<File>,
}

impl Publisher {
    /// Starts to publish a run of this process, and removes stale files of ended runs.
    #[must_use]
    pub fn new(pattern: &Pattern) -> Self {
        Self::at(RunDirectory::own(), pattern, Instant::now())
    }

    fn at(place: Option<RunDirectory>, pattern: &Pattern, now: Instant) -> Self {
        if let Some(place) = &place {
            place.tidy();
            tickwire_lab::remove_when_interrupted(place.file(std::process::id()));
        }
        let shown = Shown {
            pid: std::process::id(),
            since_s: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs(),
            pattern: pattern.name.clone(),
            streams: pattern.streams.iter().map(Into::into).collect(),
            step: None,
            live: None,
            clock: None,
        };
        let mut publisher = Self { place, shown, last: None, held: None };
        publisher.publish(now);
        publisher
    }

    /// Publishes progress, at most every 250 ms.
    pub fn show(&mut self, step: RunProgress, live: &Live) {
        self.show_at(step, live, Instant::now());
    }

    fn show_at(&mut self, step: RunProgress, live: &Live, now: Instant) {
        if self.place.is_some() && self.last.is_none_or(|last| now.saturating_duration_since(last) >= PAUSE) {
            self.shown.step = Some(step);
            self.shown.live = Some(live.clone());
            self.publish(now);
        }
    }

    /// Publishes progress of the clock measurement, at most every 250 ms and at each new row.
    pub fn show_clock(&mut self, moment: &Moment) {
        self.show_clock_at(moment, Instant::now());
    }

    fn show_clock_at(&mut self, moment: &Moment, now: Instant) {
        // A new row is always published.
        let new = self.shown.clock.as_ref().is_none_or(|shown| shown.row != moment.row);
        if self.place.is_some() && (new || self.last.is_none_or(|last| now.saturating_duration_since(last) >= PAUSE)) {
            self.shown.clock = Some(moment.clone());
            if let Some(live) = &mut self.shown.live {
                // The lab and its service have ended, and no message arrived recently.
                live.service = None;
                live.streams.iter_mut().for_each(|stream| stream.worst_ns = 0);
            }
            self.publish(now);
        }
    }

    fn publish(&mut self, now: Instant) {
        self.last = Some(now);
        if let Some(Ok(file)) = self.place.as_ref().map(|place| place.replace(&self.shown)) {
            // The old file's lock is released only after the new file is in place, so the run
            // always looks alive.
            self.held = Some(file);
        }
    }
}

impl Drop for Publisher {
    fn drop(&mut self) {
        if let (Some(place), Some(_)) = (&self.place, &self.held) {
            // On failure the next run removes it.
            let _ = fs::remove_file(place.file(self.shown.pid));
        }
    }
}

/// The runs that this user may watch, the most recent first.
#[must_use]
pub fn runs() -> Vec<Seen> {
    let mut all: Vec<Seen> = RunDirectory::all().iter().flat_map(RunDirectory::runs).take(MOST_RUNS).collect();
    all.sort_by_key(|seen| (std::cmp::Reverse(seen.shown.since_s), seen.shown.pid));
    all
}

/// A directory for published files.
#[derive(Clone, Debug)]
struct RunDirectory {
    directory: PathBuf,
    /// Prefix of the files' names, to distinguish them in a shared directory.
    prefix: &'static str,
}

impl RunDirectory {
    /// Root's directory, dedicated to Tickwire.
    fn roots() -> Self {
        Self { directory: OWN_DIRECTORY.into(), prefix: "testbed-" }
    }

    fn shared(directory: PathBuf) -> Self {
        Self { directory, prefix: "tickwire-testbed-" }
    }

    /// The directory of the user's session, if there is one.
    fn session() -> Option<Self> {
        let directory = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR")?);
        let own = fs::metadata(&directory).is_ok_and(|meta| meta.is_dir() && meta.uid() == user());
        (directory.is_absolute() && own).then(|| Self::shared(directory))
    }

    /// The directory in which this process publishes its run.
    fn own() -> Option<Self> {
        if user() == 0 {
            let place = Self::roots();
            // Same mode as the service sets: its clients must be able to enter the directory for
            // any umask of this process.
            if fs::create_dir(&place.directory).is_ok() {
                let _ = fs::set_permissions(&place.directory, Permissions::from_mode(0o755));
            }
            return place.directory.is_dir().then_some(place);
        }
        Some(Self::session().unwrap_or_else(|| Self::shared(std::env::temp_dir())))
    }

    /// All directories that may have published runs.
    fn all() -> Vec<Self> {
        let mut all = vec![Self::roots()];
        all.extend(Self::session());
        all.push(Self::shared(std::env::temp_dir()));
        all
    }

    fn file(&self, pid: u32) -> PathBuf {
        self.directory.join(format!("{}{pid}.json", self.prefix))
    }

    /// Replaces the file by a new, locked one.
    fn replace(&self, shown: &Shown) -> io::Result<File> {
        let file = self.file(shown.pid);
        let next = self.directory.join(format!(".{}{}.next", self.prefix, shown.pid));
        let text = serde_json::to_vec(shown)?;
        // A stale file of this name is of an earlier process with this PID; a link is not followed.
        let _ = fs::remove_file(&next);
        let mut written = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&next)?;
        let placed = written
            .try_lock()
            .map_err(io::Error::from)
            .and_then(|()| written.write_all(&text))
            .and_then(|()| fs::rename(&next, &file));
        if placed.is_err() {
            let _ = fs::remove_file(&next);
        }
        placed.map(|()| written)
    }

    /// PIDs of the processes that have, or had, a file here.
    fn named(&self) -> Vec<u32> {
        let Ok(entries) = fs::read_dir(&self.directory) else { return Vec::new() };
        let number = |name: &str| name.strip_prefix(self.prefix)?.strip_suffix(".json")?.parse().ok();
        entries.flatten().filter_map(|entry| number(entry.file_name().to_str()?)).collect()
    }

    /// The published runs whose process is alive.
    fn runs(&self) -> Vec<Seen> {
        let seen = |pid| match look(&self.file(pid)) {
            Some(Look::Live(file)) => read(&file, pid).ok(),
            _ => None,
        };
        self.named().into_iter().filter_map(seen).take(MOST_RUNS).collect()
    }

    /// Removes stale files of this user's ended runs.
    fn tidy(&self) {
        for pid in self.named() {
            let file = self.file(pid);
            if let Some(Look::Left(left)) = look(&file)
                && left.metadata().is_ok_and(|meta| meta.uid() == user())
            {
                let _ = fs::remove_file(file);
            }
        }
    }
}

/// A file of a trusted user.
enum Look {
    /// Its run is alive.
    Live(File),
    /// Its run has ended.
    Left(File),
}

/// Opens a published file; None if there is none, or its owner is not trusted.
fn look(path: &Path) -> Option<Look> {
    // The file may be replaced between open and the check of its lock: then check the new one.
    for _ in 0..8 {
        // Does not follow a link, nor block on a FIFO.
        let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
        let file = OpenOptions::new().read(true).custom_flags(flags.bits()).open(path).ok()?;
        let meta = file.metadata().ok()?;
        if !meta.is_file() || ![0, user()].contains(&meta.uid()) {
            return None;
        }
        match file.try_lock_shared() {
            Err(TryLockError::WouldBlock) => return Some(Look::Live(file)),
            Err(TryLockError::Error(_)) => return None,
            Ok(()) => {}
        }
        let now = fs::symlink_metadata(path).ok()?;
        if (now.dev(), now.ino()) == (meta.dev(), meta.ino()) {
            return Some(Look::Left(file));
        }
    }
    None
}

fn read(file: &File, pid: u32) -> io::Result<Seen> {
    let mut text = Vec::new();
    file.take(LARGEST + 1).read_to_end(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let mut shown: Shown = serde_json::from_slice(&text)?;
    shown.pid = pid;
    shown.pattern = sanitized(&shown.pattern, LONGEST_NAME);
    if let Some(clock) = &mut shown.clock {
        clock.name = sanitized(&clock.name, LONGEST_NAME);
    }
    shown.streams.truncate(MOST_STREAMS);
    if let Some(live) = &mut shown.live {
        live.streams.truncate(MOST_STREAMS);
        // Stream numbers are unique, as in a pattern.
        let mut known = BTreeSet::new();
        live.streams.retain(|stream| known.insert(stream.id));
    }
    let age = file.metadata()?.modified()?.elapsed().unwrap_or_default();
    Ok(Seen { shown, age })
}

fn user() -> u32 {
    nix::unistd::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::LiveStream;
    use crate::outcome::{Carrier, Timing};
    use crate::pattern::sample;

    fn pattern() -> Pattern {
        Pattern { name: "cell.csv".to_owned(), streams: vec![sample(10), sample(11)] }
    }

    fn live(received: u64) -> Live {
        let stream = |id| LiveStream { id, received, ..LiveStream::default() };
        Live {
            carrier: Carrier::Tickwire,
            timing: Timing::Pattern,
            rate: 1,
            elapsed_s: 1.0,
            duration_s: 30.0,
            service: None,
            streams: vec![stream(10), stream(11)],
        }
    }

    const STEP: RunProgress = RunProgress { number: 2, of: 3 };

    fn place() -> (tempfile::TempDir, RunDirectory) {
        let directory = tempfile::tempdir().unwrap();
        let place = RunDirectory::shared(directory.path().into());
        (directory, place)
    }

    fn received(place: &RunDirectory) -> Option<u64> {
        let seen = place.runs();
        assert!(seen.len() <= 1, "{seen:?}");
        Some(seen.first()?.shown.live.as_ref()?.streams[0].received)
    }

    #[test]
    fn a_run_is_seen_while_it_lasts_and_not_more_often_than_it_should_say() {
        let (directory, place) = place();
        let begin = Instant::now();
        let mut publisher = Publisher::at(Some(place.clone()), &pattern(), begin);
        let seen = place.runs().remove(0);
        assert_eq!((seen.shown.pid, seen.shown.pattern.as_str()), (std::process::id(), "cell.csv"));
        assert_eq!(seen.shown.streams.iter().map(|stream| stream.id).collect::<Vec<_>>(), [10, 11]);
        assert!(seen.shown.live.is_none(), "it has only begun");
        let mut show = |ms, number| publisher.show_at(STEP, &live(number), begin + Duration::from_millis(ms));
        show(249, 1);
        assert_eq!(received(&place), None);
        show(250, 2);
        show(499, 3);
        assert_eq!(received(&place), Some(2));
        show(500, 4);
        assert_eq!(received(&place), Some(4));
        assert_eq!(place.runs()[0].shown.step.map(|step| (step.number, step.of)), Some((2, 3)));
        drop(publisher);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0, "nothing is left behind");
    }

    #[test]
    fn the_clocks_part_is_seen_beside_what_became_of_the_last_run() {
        let (_directory, place) = place();
        let begin = Instant::now();
        let mut publisher = Publisher::at(Some(place.clone()), &pattern(), begin);
        let mut last = Live { service: Some("/lab/service.sock".into()), ..live(7) };
        last.streams[0].worst_ns = 5;
        publisher.show_at(STEP, &last, begin + PAUSE);
        let moment = |row, passed_s| Moment { row, rows: 2, name: "a\u{1b}b".to_owned(), passed_s, whole_s: 14.0 };
        let mut show = |ms, row, passed_s| {
            publisher.show_clock_at(&moment(row, passed_s), begin + PAUSE + Duration::from_millis(ms));
            let shown = place.runs().remove(0).shown;
            let live = shown.live.unwrap();
            assert_eq!((live.streams[0].received, live.streams[0].worst_ns, live.service), (7, 0, None));
            let clock = shown.clock.unwrap();
            assert_eq!((clock.name.as_str(), clock.rows, clock.whole_s), ("a\\u{1b}b", 2, 14.0));
            (clock.row, clock.passed_s)
        };
        assert_eq!(show(1, 1, 0.0), (1, 0.0), "a row that begins is shown at once");
        assert_eq!(show(250, 1, 0.2), (1, 0.0));
        assert_eq!(show(251, 1, 0.3), (1, 0.3));
        assert_eq!(show(252, 2, 0.0), (2, 0.0));
    }

    #[test]
    fn what_a_killed_run_left_is_not_seen_and_the_next_removes_it() {
        let (_directory, place) = place();
        let left = place.file(1);
        drop(
            place.replace(&Shown { pid: 1, ..Publisher::at(None, &pattern(), Instant::now()).shown.clone() }).unwrap(),
        );
        assert!(left.exists());
        assert_eq!(place.runs().len(), 0);
        assert!(left.exists(), "a reader removes nothing");
        let _publisher = Publisher::at(Some(place.clone()), &pattern(), Instant::now());
        assert!(!left.exists());
        assert_eq!(place.runs().len(), 1);
    }

    #[test]
    fn a_run_goes_on_unseen_where_it_cannot_be_shown() {
        let (directory, place) = place();
        drop(directory);
        let mut publisher = Publisher::at(Some(place.clone()), &pattern(), Instant::now());
        publisher.show_at(STEP, &live(1), Instant::now() + PAUSE);
        assert_eq!(place.runs().len(), 0);
    }

    /// A file of that name, locked like that of a live run.
    fn planted(place: &RunDirectory, pid: u32, text: &[u8]) -> File {
        let mut file = File::create_new(place.file(pid)).unwrap();
        file.write_all(text).unwrap();
        file.try_lock().unwrap();
        file
    }

    fn text_of(mut change: impl FnMut(&mut serde_json::Value)) -> Vec<u8> {
        let mut shown = Publisher::at(None, &pattern(), Instant::now()).shown.clone();
        shown.live = Some(live(7));
        let mut value = serde_json::to_value(shown).unwrap();
        change(&mut value);
        serde_json::to_vec(&value).unwrap()
    }

    #[test]
    fn what_is_new_to_this_version_is_passed_over() {
        let (_directory, place) = place();
        let _file = planted(
            &place,
            5,
            &text_of(|value| {
                value["new"] = 1.into();
                value["live"]["new"] = "x".into();
                value["live"]["streams"][0]["new"] = 2.into();
            }),
        );
        assert_eq!(received(&place), Some(7));
    }

    #[test]
    fn what_is_no_run_is_none() {
        let (_directory, place) = place();
        let mut large = text_of(|_| {});
        large.resize(usize::try_from(LARGEST).unwrap() + 1, b' ');
        let contents = [&b""[..], b"{", b"[1]", b"\xff", &b"[".repeat(10_000), &large];
        let _files: Vec<File> = (1..).zip(contents).map(|(pid, text)| planted(&place, pid, text)).collect();
        nix::unistd::mkfifo(&place.file(100), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::create_dir(place.file(101)).unwrap();
        let other = place.directory.join("other");
        let elsewhere = File::create_new(&other).unwrap();
        (&elsewhere).write_all(&text_of(|_| {})).unwrap();
        elsewhere.try_lock().unwrap();
        std::os::unix::fs::symlink(&other, place.file(102)).unwrap();
        fs::write(place.directory.join("tickwire-testbed-x.json"), "").unwrap();
        assert_eq!(place.runs().len(), 0);
    }

    #[test]
    fn another_users_run_is_not_believed() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let (_directory, place) = place();
        let _file = planted(&place, 5, &text_of(|_| {}));
        assert_eq!(place.runs().len(), 1);
        std::os::unix::fs::chown(place.file(5), Some(65534), None).unwrap();
        assert_eq!(place.runs().len(), 0);
    }

    #[test]
    fn a_link_in_the_place_of_the_next_file_is_not_followed() {
        let (_directory, place) = place();
        let victim = place.directory.join("victim");
        fs::write(&victim, "precious").unwrap();
        let pid = std::process::id();
        std::os::unix::fs::symlink(&victim, place.directory.join(format!(".{}{pid}.next", place.prefix))).unwrap();
        std::os::unix::fs::symlink(&victim, place.file(pid)).unwrap();
        let _publisher = Publisher::at(Some(place.clone()), &pattern(), Instant::now());
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        assert_eq!(place.runs().len(), 1);
    }

    #[test]
    fn hostile_names_and_numbers_are_made_harmless() {
        let (_directory, place) = place();
        let _file = planted(
            &place,
            5,
            &text_of(|value| {
                value["pattern"] = format!("a\x1b[2J\u{202e}{}", "x".repeat(1000)).into();
                let stream = value["live"]["streams"][0].clone();
                value["live"]["streams"] = vec![stream; 3].into();
            }),
        );
        let shown = place.runs().remove(0).shown;
        assert!(
            shown.pattern.starts_with("a\\u{1b}[2J\\u{202e}xxx") && shown.pattern.ends_with("x…"),
            "{}",
            shown.pattern
        );
        assert_eq!(shown.live.unwrap().streams.len(), 1);
    }
}
