//! Exit statuses and messages of studies, latency profiles and the testbed, according to the
//! manual.
#![cfg(unix)]

mod common;

use common::{done, tickwire};
use std::process::{Output, Stdio};

#[test]
fn a_study_that_cannot_be_made_leaves_the_reports_file_as_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let [old, new] = ["old.html", "new.html"].map(|name| directory.path().join(name));
    std::fs::write(&old, "what was found yesterday").unwrap();
    for file in [&old, &new] {
        let study = ["counters", "--reads", "100", "--seconds", "0.1", "--reference", "nosuch", "--html"];
        let (status, words) = done(&[&study[..], &[file.to_str().unwrap()]].concat());
        assert_eq!(status, Some(2), "{words}");
    }
    assert_eq!(std::fs::read_to_string(&old).unwrap(), "what was found yesterday");
    assert!(!new.exists());
}

#[test]
fn a_measurement_that_cannot_be_meant_is_refused_before_anything_is_started() {
    let directory = tempfile::tempdir().unwrap();
    let html = directory.path().join("jitter.html").display().to_string();
    for (arguments, said) in [
        (&["--samples", "49"][..], "expected a whole number from 50 to 100000"),
        (&["--size", "59"], "expected a whole number from 60 to 1514"),
        (&["--load", "none,gpu"], "invalid value 'gpu'"),
        (&["--to", "127.0.0.1"], "--interface <IF>"),
        (&["--interface", "lo"], "--to <ADDRESS>"),
        (&["--interface", "lo", "--to", "example.org"], "expected an address as 192.0.2.1, 192.0.2.1:5000"),
        (
            &["--interface", "nosuch0", "--to", "127.0.0.1"],
            "tickwire: --interface: there is no interface \"nosuch0\" here",
        ),
        (&["--interface", "lo", "--to", "::1", "--size", "60"], "tickwire: --size: a frame of 60 bytes has no room"),
        (&["--serial", "/dev/null"], "tickwire: --serial: /dev/null is no serial line: expected a terminal device"),
        (&["--serial", "/nonexistent/tty"], "tickwire: --serial: cannot open /nonexistent/tty: No such file"),
        (&["--load", "disk+serial"], "tickwire: --load: disk+serial needs a serial line: name it by --serial"),
    ] {
        let (status, words) = done(&[&["jitter", "--html", &html], arguments].concat());
        assert_eq!(status, Some(2), "{arguments:?}: {words}");
        assert!(words.contains(said), "{arguments:?}: {words}");
        assert!(!std::path::Path::new(&html).exists());
    }
}

#[test]
fn an_interface_is_measured_and_what_it_lacks_is_named() {
    let lo = ["jitter", "--interface", "lo", "--to", "127.0.0.1", "--samples", "50", "--load", "none"];
    let Output { status, stdout, stderr } = tickwire(&[&lo[..], &["--json"]].concat()).output().unwrap();
    let words = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), words.as_str()), (Some(0), ""));
    let study: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(study["profiles"].as_array().unwrap().len(), 3, "{study}");
    assert_eq!(study["target"], "lo to 127.0.0.1:9");
    let directory = tempfile::tempdir().unwrap();
    let html = directory.path().join("jitter.html");
    let table = tickwire(&[&lo[..], &["--html", html.to_str().unwrap()]].concat()).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    for absent in study["absent"].as_array().unwrap() {
        let line = format!("not here: {}: {}", absent["name"].as_str().unwrap(), absent["why"].as_str().unwrap());
        assert!(table.contains(&line), "{table}");
    }
    let html = std::fs::read_to_string(html).unwrap();
    assert!(html.contains("<svg") && html.contains("--interface lo --to 127.0.0.1"), "{html}");
}

/// Arguments for a study of the loopback interface, which takes less than a second.
const LOOPBACK: [&str; 9] = ["jitter", "--interface", "lo", "--to", "127.0.0.1", "--samples", "50", "--load", "none"];

#[test]
fn a_report_that_cannot_be_written_is_told_before_anything_begins() {
    for study in [&LOOPBACK[..], &["counters"], &["testbed", "run"], &["testbed", "time", "--virtual=60"]] {
        for (file, why) in [("/nonexistent/r.html", "No such file"), ("/", "Is a directory")] {
            let (status, words) = done(&[study, &["--html", file]].concat());
            assert_eq!(status, Some(2), "{words}");
            assert!(words.starts_with(&format!("tickwire: cannot write {file}: {why}")), "{words}");
            assert_eq!(words.lines().count(), 1, "{words}");
        }
    }
}

#[test]
fn a_report_may_go_to_standard_output_whatever_that_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("out");
    let file = std::fs::File::create(&path).unwrap();
    let mut command = tickwire(&[&LOOPBACK[..], &["--html", "/dev/stdout"]].concat());
    assert!(command.stdout(file).status().unwrap().success());
    let piped = String::from_utf8(command.stdout(Stdio::piped()).output().unwrap().stdout).unwrap();
    for both in [std::fs::read_to_string(path).unwrap(), piped] {
        assert!(both.starts_with("<!doctype html>"), "{both}");
        let (_, table) = both.split_once("</html>").unwrap();
        assert!(table.contains("127.0.0.1"), "{table}");
    }
}

#[test]
fn a_full_disk_takes_the_report_and_not_what_is_printed() {
    let output = tickwire(&[&LOOPBACK[..], &["--json", "--html", "/dev/full"]].concat()).output().unwrap();
    let words = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.starts_with("tickwire: cannot write /dev/full: No space left"), "{words}");
    assert!(serde_json::from_slice::<serde_json::Value>(&output.stdout).is_ok());
}

#[test]
fn a_reference_that_is_not_there_is_named_with_the_reason() {
    for (arguments, why) in [
        (&["--reference", "lo"][..], "lo: this interface has no PTP hardware clock"),
        (&["--reference", "no-such-dev0"], "no-such-dev0: no such interface"),
        (&["--reference", "/dev/ptp4000000000"], "/dev/ptp4000000000: there is no such PTP hardware clock"),
        (&["--intervals", "1,90", "--seconds", "100"], "says nothing of an interval of 90 s"),
        (&["--reference", "lo", "--intervals", "1"], "--intervals: a clock beside a PTP hardware clock"),
    ] {
        let (status, words) = done(&[&["testbed", "time"], arguments].concat());
        assert_eq!(status, Some(2), "{arguments:?}: {words}");
        assert!(words.contains(why), "{arguments:?}: {words}");
    }
}

#[test]
fn a_run_that_cannot_measure_the_clock_says_so_before_anything_is_started() {
    for (arguments, why) in [
        (&["--nodes", "/nonexistent/cell.toml", "--time"][..], "--time: only in the lab, where true time is known"),
        (&["--time=13"], "--time: expected 14 s at least"),
        (&["--time=soon"], "'--time[=<SECONDS>]': expected a number"),
    ] {
        let (status, words) = done(&[&["testbed", "run"], arguments].concat());
        assert_eq!(status, Some(2), "{arguments:?}: {words}");
        assert!(words.contains(why), "{arguments:?}: {words}");
    }
}

#[test]
fn the_table_of_2015_in_virtual_time_needs_no_root_and_no_network() {
    let arguments = ["testbed", "time", "--virtual=960", "--reads", "1000", "--json"];
    let Output { status, stdout, .. } = tickwire(&arguments).output().unwrap();
    assert_eq!(status.code(), Some(0));
    let figures: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    let names: Vec<_> = figures["rows"].as_array().unwrap().iter().map(|row| &row["silent_after_s"]).collect();
    assert_eq!(names, [&serde_json::Value::Null, &240.0.into()]);
    assert_eq!(figures["rows"][0]["origin"], "virtual");
}

#[test]
fn a_negative_number_is_told_what_was_expected() {
    let run = ["--duration", "--warm-up", "--rate", "--busy", "--link", "--guard", "--port", "--seed"];
    let run = run.map(|option| ["testbed", "run", option, "-1"]).into_iter();
    let time = ["--seconds", "--reads"].map(|option| ["testbed", "time", option, "-1"]);
    for arguments in run.chain(time) {
        let (status, words) = done(&arguments);
        assert_eq!(status, Some(2), "{arguments:?}");
        assert!(words.contains("invalid value '-1'") && words.contains("expected"), "{arguments:?}: {words}");
    }
    let (_, words) = done(&["testbed", "run", "--seed", "x"]);
    assert!(words.contains("expected a whole number from 0"), "{words}");
}

#[test]
fn a_testbed_that_cannot_be_meant_is_two_and_says_why() {
    let run = |more: &[&str]| done(&[&["testbed", "run"], more].concat());
    for (more, words) in [
        (&["--pattern", "/nonexistent/p.csv"][..], "tickwire: cannot read /nonexistent/p.csv: No such file"),
        (&["--nodes", "/nonexistent/n.toml"], "tickwire: cannot read /nonexistent/n.toml: No such file"),
        (&["--guard", "5"], "tickwire: --guard: only scheduled sending has slots"),
        (&["--on", "kernel", "--spin", "never"], "tickwire: --spin: nothing is accelerated"),
        (&["--pattern", "/nonexistent/\u{1b}[2J"], "tickwire: cannot read /nonexistent/\\u{1b}[2J: No such file"),
    ] {
        let (status, said) = run(more);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.starts_with(words) && said.lines().count() == 1, "{said}");
    }
}

/// Otherwise the accelerated ends would refuse it, after the kernel's run.
#[test]
fn a_wrong_variable_that_the_ends_of_a_lab_inherit_is_refused_at_the_start() {
    for more in [&[][..], &["--on", "tickwire"]] {
        let mut command = tickwire(&[&["testbed", "run"], more].concat());
        let Output { status, stderr, .. } = command.env("TICKWIRE_SPIN", "soon").output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(2), "{said}");
        assert!(said.starts_with("tickwire: TICKWIRE_SPIN: expected `always`, `never`, `adaptive` or "), "{said}");
    }
}

/// Errors found only when the study begins: nothing is printed before the one sentence.
#[test]
fn what_is_refused_is_refused_in_one_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let nodes = directory.path().join("nodes.toml");
    let text = "ssh = ['/nonexistent/ssh']\n[consumer]\nhost = 'daq'\naddress = '192.0.2.1'\n[[producers]]\nhost = 's'\naddress = '192.0.2.2'\nnumbers = [1]\n";
    std::fs::write(&nodes, text).unwrap();
    let pattern = directory.path().join("p.csv");
    std::fs::write(&pattern, "producer,udp_kb,udp_ms,udp_max_ms\n1,1,10,5\n").unwrap();
    let [nodes, pattern] = [&nodes, &pattern].map(|file| file.to_str().unwrap());
    for (more, words) in [
        (&["--timing", "scheduled", "--guard", "1000000"][..], "tickwire: 2015: a slot of stream"),
        (&["--pattern", pattern, "--nodes", nodes], "tickwire: daq: cannot start `/nonexistent/ssh`: No such file"),
    ] {
        let html = directory.path().join("r.html");
        let (status, said) = done(&[&["testbed", "run", "--html", html.to_str().unwrap()], more].concat());
        assert_eq!(status, Some(2), "{said}");
        assert!(said.starts_with(words) && said.lines().count() == 1, "{said}");
        assert!(!html.exists());
    }
}

/// A file name need not be UTF-8.
#[test]
fn a_pattern_may_be_called_anything() {
    use std::os::unix::ffi::OsStrExt;
    let directory = tempfile::tempdir().unwrap();
    let pattern = directory.path().join(std::ffi::OsStr::from_bytes(b"\xff.csv"));
    std::fs::write(&pattern, "producer,udp_kb,udp_ms,udp_max_ms\n1,1,10,5\n").unwrap();
    let nodes = directory.path().join("nodes.toml");
    let text = "ssh = ['false']\n[consumer]\nhost = 'daq'\naddress = '192.0.2.1'\n[[producers]]\nhost = 's'\naddress = '192.0.2.2'\nnumbers = [1]\n";
    std::fs::write(&nodes, text).unwrap();
    let mut command = tickwire(&["testbed", "run", "--nodes"]);
    let Output { status, stderr, .. } = command.arg(nodes).arg("--pattern").arg(pattern).output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(status.code(), Some(2), "{said}");
    assert!(said.ends_with("tickwire: daq: `tickwire stat` failed (exit status: 1)\n"), "{said}");
}
