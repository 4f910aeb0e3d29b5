//! The lab itself: hosts reach each other as configured, and nothing is left behind.

use nix::sys::signal::Signal;
use std::process::Command;
use std::time::Duration;
use tickwire_lab::{CableOptions, Lab, LabPair, Process, run};

const TIMEOUT: Duration = Duration::from_secs(10);

fn namespaces_of(lab: &str) -> usize {
    let all = run(&["ip", "netns", "list"]).unwrap();
    // The name of a process's lab number 10 begins with that of number 1.
    all.lines()
        .filter(|l| l.strip_prefix(lab).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())))
        .count()
}

#[test]
fn two_hosts_on_a_cable_reach_each_other_in_both_families() {
    let pair = LabPair::new().unwrap();
    pair.a.run(&["ping", "-c1", "-W2", &pair.b_v4()]).unwrap();
    pair.b.run(&["ping", "-c1", "-W2", &pair.a_v6()]).unwrap();
}

#[test]
fn a_switch_joins_hosts_and_limits_their_rate() {
    let lab = Lab::new().unwrap();
    let switch = lab.switch("s").unwrap();
    let options = CableOptions { rate: Some(100_000_000), ..CableOptions::default() };
    for (name, address) in [("a", "10.1.0.1/24"), ("b", "10.1.0.2/24")] {
        let host = lab.host(name).unwrap();
        lab.plug(&host, &switch, "eth0", &options).unwrap();
        host.address("eth0", address).unwrap();
        if name == "b" {
            host.run(&["ping", "-c1", "-W2", "10.1.0.1"]).unwrap();
            assert!(host.run(&["tc", "qdisc", "show", "dev", "eth0"]).unwrap().contains("rate 100Mbit"));
        }
    }
}

#[test]
fn dropping_a_lab_ends_its_programs_and_removes_its_namespaces_and_files() {
    let pair = LabPair::new().unwrap();
    let (name, directory) = (pair.lab.name().to_owned(), pair.lab.directory());
    let mut sleeper = pair.a.spawn(&["sleep", "1000"]).unwrap();
    // A grandchild that ignores SIGTERM ends, too.
    pair.b.run(&["sh", "-c", "trap '' TERM; sleep 1000 >/dev/null 2>&1 &"]).unwrap();
    assert_eq!(namespaces_of(&name), 2);
    assert!(directory.exists());
    drop(pair);
    assert_eq!(namespaces_of(&name), 0);
    assert!(!directory.exists());
    assert!(!sleeper.wait(TIMEOUT).unwrap().status.success());
}

#[test]
fn what_a_dead_process_left_is_swept() {
    // The largest process number of Linux is 2^22.
    let leftover = "twlab-4194304-0-a";
    run(&["ip", "netns", "add", leftover]).unwrap();
    tickwire_lab::sweep().unwrap();
    assert_eq!(namespaces_of(leftover), 0);
}

#[test]
fn what_stands_in_standard_input_is_run_by_a_shell_in_xtasks_lab() {
    let script = tempfile(
        "ping -c1 $PEER >/dev/null && echo reached $PEER\n\
         on-peer sh -c 'ping -c1 $PEER >/dev/null && echo reached $PEER'\nexit 3\n",
    );
    let xtask = tickwire_lab::tools::built("xtask").unwrap();
    let build = xtask.parent().unwrap();
    let mut lab = Command::new(&xtask);
    lab.args(["lab", "--bare"]).env(tickwire_lab::tools::DIRECTORY_VARIABLE, build).env("SHELL", "/bin/sh");
    let output = lab.stdin(script).output().unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert_eq!(String::from_utf8_lossy(&output.stdout), "reached 10.77.0.2\nreached 10.77.0.1\n", "{words}");
    assert_eq!(output.status.code(), Some(3), "{words}");
}

/// An unlinked file with this text.
fn tempfile(text: &str) -> std::fs::File {
    let path = std::env::temp_dir().join(format!("twlab-script-{}", std::process::id()));
    std::fs::write(&path, text).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file
}

#[test]
fn a_program_that_does_not_end_in_time_is_killed_and_reported() {
    let lab = Lab::new().unwrap();
    let host = lab.host("a").unwrap();
    let mut sleeper = host.spawn(&["sleep", "1000"]).unwrap();
    let error = sleeper.wait(Duration::from_millis(50)).unwrap_err().to_string();
    assert!(error.contains("did not end"), "{error}");
    assert!(!sleeper.is_running().unwrap());
}

/// Starts a program that holds a lab; returns it with the lab's name.
fn hold() -> (Process, String) {
    let mut holder = Process::spawn(Command::new(tickwire_lab::tools::built("examples/hold").unwrap())).unwrap();
    holder.wait_for("\n", TIMEOUT).unwrap();
    let name = holder.stdout().trim().to_owned();
    assert_eq!(namespaces_of(&name), 2);
    (holder, name)
}

#[test]
fn an_interrupted_program_leaves_no_lab_behind() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (mut holder, name) = hold();
        holder.signal(signal).unwrap();
        let ended = holder.wait(TIMEOUT).unwrap();
        assert_eq!(ended.status.code(), Some(128 + signal as i32));
        // It may also have reported leftovers of other runs.
        assert!(ended.stderr.ends_with("interrupted: removing the lab\n"), "{}", ended.stderr);
        assert_eq!(namespaces_of(&name), 0);
        assert!(!std::env::temp_dir().join(format!("beside-{name}")).exists());
        assert!(!std::env::temp_dir().join(name).exists());
    }
}

#[test]
fn a_killed_programs_lab_goes_by_itself_with_the_programs_in_it() {
    let (mut holder, name) = hold();
    let inside = run(&["ip", "netns", "pids", &format!("{name}-a")]).unwrap();
    let process = std::path::PathBuf::from(format!("/proc/{}", inside.trim()));
    assert!(process.exists(), "{inside:?}");
    holder.kill();
    let _ = std::fs::remove_file(std::env::temp_dir().join(format!("beside-{name}")));
    let directory = std::env::temp_dir().join(&name);
    tickwire_lab::tools::until("nothing is left", TIMEOUT, || {
        namespaces_of(&name) == 0 && !directory.exists() && !process.exists()
    })
    .unwrap();
}
