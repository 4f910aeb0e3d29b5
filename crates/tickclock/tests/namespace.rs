//! A page that is about `CLOCK_MONOTONIC_RAW`, read in another time namespace than it is written
//! in.

mod common;

use std::process::Command;
use tickclock::{Clock, CounterKind, Nanos, Parameters, Writer};

/// The page, where this program is the reader that its own test has started.
const PAGE: &str = "TICKCLOCK_TEST_PAGE";
const NAME: &str = "a_reader_in_another_time_namespace_reads_the_same_time";

#[test]
fn a_reader_in_another_time_namespace_reads_the_same_time() {
    if let Some(page) = std::env::var_os(PAGE) {
        let clock = Clock::open(page).unwrap();
        println!("it is {} now at {}", clock.now().utc().0, clock.counter().0);
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    let writer = Writer::create(&page, CounterKind::MonotonicRaw).unwrap();
    let clock = Clock::open(&page).unwrap();
    writer.publish(&Parameters { ..common::parameters(clock.counter(), Nanos(1_700_000_000_000_000_000)) });
    // Who is not root makes one in a user namespace, if the system lets him; root can, so for him
    // it is a failure that nothing was tried.
    let root = nix::unistd::geteuid().is_root();
    let user: &[&str] = if root { &[] } else { &["--user", "--map-root-user"] };
    for offset in ["86400", "-1", "0"] {
        let before = (clock.now().utc().0, clock.counter().0);
        let reader = Command::new("unshare")
            .args(user)
            .args(["--time", "--monotonic", offset, "--fork", "--"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(PAGE, &page)
            .output()
            .unwrap();
        let after = (clock.now().utc().0, clock.counter().0);
        let said = String::from_utf8(reader.stdout).unwrap();
        if !reader.status.success() && said.is_empty() {
            let why = String::from_utf8_lossy(&reader.stderr);
            assert!(!root, "root cannot make a time namespace: {why}");
            eprintln!("not tried: {why}");
            return;
        }
        let (_, rest) = said.split_once("it is ").expect(&said);
        let numbers: Vec<i64> = rest.split_whitespace().filter_map(|word| word.parse().ok()).take(2).collect();
        assert!((before.0..after.0).contains(&numbers[0]), "{offset}: {before:?} {numbers:?} {after:?}");
        assert!((before.1..after.1).contains(&(numbers[1] as u64)), "{offset}: {before:?} {numbers:?} {after:?}");
    }
}
