//! A page for `CLOCK_MONOTONIC_RAW` that is written in one time namespace and read in another.
#![cfg(target_os = "linux")]

mod common;

use std::process::Command;
use tickclock::{Clock, CounterKind, Nanos, Parameters, Writer};

/// The page to read, if this process is the reader that the test started.
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
    // Without root a user namespace is needed, which the system may forbid. Root can always make a
    // time namespace, so then a skip is a failure.
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
