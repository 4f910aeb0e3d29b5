//! Readers and the writer share a page as programs and the daemon do.

mod common;

use std::io::Write;
use std::path::Path;
use tickclock::{Clock, Count, CounterKind, CreateError, Nanos, OpenError, PageFault, Parameters, Status, Writer};

fn second(n: i64) -> Nanos {
    Nanos(n * 1_000_000_000)
}

fn parameters(time: Nanos) -> Parameters {
    common::parameters(Count(1_000_000), time)
}

fn page(directory: &tempfile::TempDir) -> std::path::PathBuf {
    directory.path().join("clock")
}

#[test]
fn readers_see_what_the_daemon_publishes_and_keep_it_when_another_follows() {
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    assert!(matches!(Clock::open(&path), Err(OpenError::Missing(_))));
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    let clock = Clock::open(&path).unwrap();
    assert!(!clock.now().status.contains(Status::SYNCHRONISED));
    assert_eq!(clock.now().bound, u64::MAX);
    assert!(clock.wait_until(Nanos(0)).is_err(), "waits for no time that is not known");
    writer.publish(&parameters(second(1000)));
    let reading = clock.at(Count(1_000_007));
    assert_eq!(reading.utc(), second(963).plus(7));
    assert_eq!(reading.interval(), (reading.utc().plus(-500), reading.utc().plus(500)));
    assert_eq!(clock.elapsed(Count(5), Count(8)), Some(3));
    assert!(matches!(Writer::create(&path, CounterKind::MonotonicRaw), Err(CreateError::Busy(_))));
    drop(writer);
    assert_eq!(clock.at(Count(1_000_000)).utc(), second(963), "the page outlives its writer");
    let next = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    assert_eq!(next.last(), parameters(second(1000)));
    next.publish(&parameters(second(2000)));
    assert_eq!(clock.at(Count(1_000_000)).tai, second(2000), "and serves the next one");
}

#[test]
fn a_page_on_which_nothing_was_published_goes_with_its_writer() {
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    let early = Clock::open(&path).unwrap();
    drop(writer);
    assert!(!path.exists() && early.now().status.contains(Status::RETIRED), "and its reader is notified");
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    std::fs::rename(&path, directory.path().join("away")).unwrap();
    let next = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    drop(writer);
    assert!(path.exists(), "but not another one of the same name");
    next.publish(&parameters(second(1000)));
    drop(next);
    drop(Writer::create(&path, CounterKind::MonotonicRaw).unwrap());
    assert!(Clock::open(&path).unwrap().at(Count(1_000_000)).is_known(), "nor one on which another has published");
}

#[test]
fn a_page_about_another_counter_is_replaced_and_its_readers_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    let writer = Writer::create(&path, CounterKind::Cntvct).unwrap();
    writer.publish(&parameters(second(1000)));
    if cfg!(not(target_arch = "aarch64")) {
        assert!(matches!(Clock::open(&path), Err(OpenError::Counter(_, CounterKind::Cntvct))));
    }
    drop(writer);
    let old = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    let reader = Clock::open(&path).unwrap();
    (0..2).for_each(|_| old.publish(&parameters(second(1000))));
    assert_eq!(reader.elapsed(Count(1000), Count(2000)), Some(1000));
    drop(old);
    let _new = Writer::create(&path, CounterKind::Cntvct).unwrap();
    assert!(reader.now().status.contains(Status::RETIRED));
    assert_eq!(reader.elapsed(Count(1000), Count(2000)), None, "nor does it tell spans for ever by the rate of then");
}

#[test]
fn what_is_no_page_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("clock");
    let refused =
        |path: &Path| (Clock::open(path).unwrap_err(), Writer::create(path, CounterKind::MonotonicRaw).unwrap_err());
    std::fs::write(&path, "a letter").unwrap();
    let (reader, writer) = refused(&path);
    assert!(matches!(reader, OpenError::Fault(_, PageFault::Size(8))), "{reader}");
    assert!(matches!(writer, CreateError::Foreign(_)), "{writer}");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "a letter");
    std::fs::write(&path, vec![7; 4096]).unwrap();
    let (reader, writer) = refused(&path);
    assert!(matches!(reader, OpenError::Fault(_, PageFault::Magic)), "{reader}");
    assert!(matches!(writer, CreateError::Foreign(_)), "{writer}");
    let (reader, writer) = refused(directory.path());
    // Windows opens no directory as a file.
    assert!(matches!(reader, OpenError::Kind(_)) || cfg!(windows), "{reader}");
    assert!(matches!(writer, CreateError::System(..)), "{writer}");
    let lost = directory.path().join("no/such/clock");
    let error = Writer::create(&lost, CounterKind::MonotonicRaw).unwrap_err();
    assert!(matches!(&error, CreateError::Directory(path) if lost.parent() == Some(path)), "{error}");
    assert!(!directory.path().join("no").exists(), "nothing is made");
}

/// Replaces the bytes of a file that may be mapped: Windows does not let it be truncated then.
fn overwrite(path: &Path, bytes: &[u8]) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().write_all(bytes).unwrap();
}

#[test]
fn a_page_of_another_version_is_refused_by_readers_and_replaced_by_a_daemon() {
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    writer.publish(&parameters(second(1000)));
    drop(writer);
    let reader = Clock::open(&path).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[8..16].copy_from_slice(&99u64.to_ne_bytes());
    overwrite(&path, &bytes);
    let error = Clock::open(&path).unwrap_err();
    assert!(matches!(error, OpenError::Fault(_, PageFault::Version(99))), "{error}");
    assert!(reader.now().is_known());
    let _writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    assert!(Clock::open(&path).is_ok());
    assert!(
        reader.now().status.contains(Status::RETIRED) && !reader.now().is_known(),
        "a reader of that version is notified"
    );
}

#[test]
fn a_page_from_before_the_machine_was_started_is_no_clock() {
    // Without a boot's identifier, as under Wine, any page is of this one.
    if tickclock::boot_id().is_empty() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    writer.publish(&parameters(second(1000)));
    drop(writer);
    assert!(Clock::open(&path).unwrap().now().is_known());
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[32..40].copy_from_slice(&99u64.to_ne_bytes());
    overwrite(&path, &bytes);
    assert!(matches!(Clock::open(&path), Err(OpenError::Missing(_))));
    let _writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    assert!(!Clock::open(&path).unwrap().now().is_known(), "what it said is forgotten");
}

#[cfg(unix)]
#[test]
fn a_file_of_another_user_is_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    std::fs::write(&path, "").unwrap();
    let given = std::os::unix::fs::chown(&path, Some(65_534), None);
    let created = Writer::create(&path, CounterKind::MonotonicRaw);
    match given {
        Ok(()) => assert!(matches!(&created, Err(CreateError::Owner(_, owner)) if owner == "65534"), "{created:?}"),
        // Only root can change the owner of a file; without root the file stays ours.
        Err(error) => assert!(error.kind() == std::io::ErrorKind::PermissionDenied && created.is_ok(), "{error}"),
    }
}

#[test]
fn a_page_in_the_making_is_not_there_yet() {
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    for bytes in [vec![], vec![0; 4096]] {
        std::fs::write(&path, bytes).unwrap();
        assert!(matches!(Clock::open(&path), Err(OpenError::Missing(_))));
    }
}

#[test]
fn a_count_from_a_reader_that_nothing_is_known_of_is_unknown() {
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    let clock = Clock::open(&path).unwrap();
    assert_eq!((clock.now().age, clock.now().error), (i64::MAX, u64::MAX), "nothing was published");
    writer.publish(&parameters(second(1000)));
    let far = clock.at(Count(u64::MAX));
    assert!(!far.is_known() && !far.status.contains(Status::SYNCHRONISED), "{far:?}");
    assert_eq!(far.interval(), (Nanos(i64::MIN), Nanos(i64::MAX)));
    assert_eq!(clock.elapsed(Count(0), Count(u64::MAX)), None);
}

#[test]
fn of_counts_that_are_not_of_this_counter_nothing_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    let clock = Clock::open(&path).unwrap();
    let before = clock.counter();
    let since = Count(before.0 + 1);
    let at = loop {
        let now = clock.counter();
        if now > since {
            break now;
        }
    };
    writer.publish(&Parameters { since, fresh_until: at, ..common::parameters(at, second(1000)) });
    assert!(clock.at(at).is_known() && clock.at(clock.counter()).is_known() && clock.now().is_known());
    assert_eq!(clock.at(at).disruptions, 2);
    let old = clock.at(before);
    assert!(!old.is_known() && old.status.contains(Status::DISRUPTED), "{old:?}");
    assert_eq!(clock.elapsed(before, at), None);
    // Before a counter restarted, it was far ahead.
    let ahead = clock.counter().plus(3_600_000_000_000);
    assert!(!clock.at(ahead).is_known() && !clock.at(ahead).status.contains(Status::SYNCHRONISED));
    assert_eq!((clock.elapsed(at, ahead), clock.elapsed(ahead, at)), (None, None));
}

#[test]
fn waiting_ends_at_the_instant_and_not_before() {
    let directory = tempfile::tempdir().unwrap();
    let path = page(&directory);
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    let clock = Clock::open(&path).unwrap();
    writer.publish(&Parameters { at: clock.counter(), ..parameters(second(100)) });
    for ms in [0, 1, 150] {
        let instant = clock.now().utc().plus(ms * 1_000_000);
        let reached = clock.wait_until(instant).unwrap();
        assert!(reached.utc() >= instant);
    }
}

#[cfg(unix)]
#[test]
fn a_page_behind_a_link_is_read_but_not_written() {
    let directory = tempfile::tempdir().unwrap();
    let (path, link) = (page(&directory), directory.path().join("link"));
    let _writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    Clock::open(&link).unwrap();
    let error = Writer::create(&link, CounterKind::MonotonicRaw).unwrap_err();
    assert!(matches!(error, CreateError::Link(_)), "{error}");
}
