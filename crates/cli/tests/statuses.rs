//! Exit statuses and messages of the commands other than `run`, according to the manual. No service
//! and no root needed.

use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::process::{Command, Output, Stdio};

fn tickwire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwire"));
    command.args(arguments).env("TICKWIRE_SOCKET", "/nonexistent/service.sock");
    command
}

fn done(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = tickwire(arguments).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

#[test]
fn what_was_asked_for_is_success_and_a_wrong_command_line_is_two() {
    assert_eq!(done(&["--version"]).0, Some(0));
    for command in ["service", "run", "stat", "capture", "doctor", "watch"] {
        assert_eq!(done(&[command, "--help"]).0, Some(0));
        let (status, words) = done(&[command, "--no-such-option"]);
        assert_eq!(status, Some(2), "{command}");
        assert!(words.contains("--no-such-option") && words.contains("Usage: tickwire"), "{words}");
    }
    assert_eq!(done(&[]).0, Some(2));
    assert_eq!(done(&["no-such-command"]).0, Some(2));
}

#[test]
fn without_a_service_there_is_nothing_to_show_or_record() {
    for arguments in [&["stat"][..], &["stat", "--json"], &["capture", "-w", "/nonexistent/file"]] {
        let (status, words) = done(arguments);
        assert_eq!(status, Some(1), "{arguments:?}");
        assert!(words.starts_with("tickwire: no service at /nonexistent/service.sock ("), "{words}");
        assert_eq!(words.lines().count(), 1, "{words}");
    }
    assert_eq!(done(&["doctor"]).0, Some(1), "a service is missing");
}

/// Every command reports the same about the service's path, and what to do about it.
#[test]
fn what_does_not_answer_at_the_services_path_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name);
    std::fs::write(place("file"), "").unwrap();
    let _stream = UnixListener::bind(place("stream")).unwrap();
    drop(UnixListener::bind(place("old")).unwrap());
    let other = "is not the service's socket: name that by --socket, or start `tickwire service`";
    let away = "start `tickwire service`, or name its socket by --socket";
    for (name, advice) in [("file", other), ("", other), ("stream", other), ("old", away), ("file/none", away)] {
        let path = place(name).display().to_string();
        for command in [&["stat"][..], &["capture", "-w", "-"], &["run", "--require", "true"], &["doctor"]] {
            let Output { stdout, stderr, .. } = tickwire(command).env("TICKWIRE_SOCKET", &path).output().unwrap();
            let said = String::from_utf8([stdout, stderr].concat()).unwrap();
            let line = said.lines().find(|line| line.contains(&path)).unwrap_or_else(|| panic!("{command:?}: {said}"));
            assert!(line.contains(advice), "{command:?} at {name:?}: {line}");
        }
    }
}

/// A socket of another program, of the same type, that closes the connection or sends an invalid
/// reply.
#[test]
fn a_program_that_does_not_answer_as_the_service_would_is_told_from_it() {
    use nix::sys::socket::{
        AddressFamily, Backlog, MsgFlags, SockFlag, SockType, UnixAddr, accept, bind, listen, recv, send, socket,
    };
    let directory = tempfile::tempdir().unwrap();
    for (name, answer, why) in [("odd", &b"what?"[..], "cannot be understood"), ("curt", b"", "ended the connection")] {
        let path = directory.path().join(name);
        let door = socket(AddressFamily::Unix, SockType::SeqPacket, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(door.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        listen(&door, Backlog::new(1).unwrap()).unwrap();
        let stat = tickwire(&["stat", "--socket", path.to_str().unwrap()]).stderr(Stdio::piped()).spawn().unwrap();
        let peer = accept(door.as_raw_fd()).unwrap();
        recv(peer, &mut [0; 1024], MsgFlags::empty()).unwrap();
        if !answer.is_empty() {
            send(peer, answer, MsgFlags::empty()).unwrap();
        }
        nix::unistd::close(peer).unwrap();
        let Output { status, stderr, .. } = stat.wait_with_output().unwrap();
        let words = String::from_utf8(stderr).unwrap();
        assert_eq!(status.code(), Some(1));
        assert!(words.contains(why) && words.contains(path.to_str().unwrap()), "{words}");
    }
}

#[test]
fn a_service_that_is_away_is_waited_for_and_that_is_said_once() {
    for more in [&[][..], &["--json"]] {
        let arguments = [&["stat", "--watch", "--socket", "/nonexistent/other.sock"], more].concat();
        let mut stat = tickwire(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut errors = BufReader::new(stat.stderr.take().unwrap());
        let mut first = String::new();
        errors.read_line(&mut first).unwrap();
        assert!(first.contains("/nonexistent/other.sock") && first.ends_with("; waiting for it\n"), "{first}");
        // Time for two more attempts: nothing more is printed, and it still runs.
        std::thread::sleep(std::time::Duration::from_millis(2500));
        assert!(stat.try_wait().unwrap().is_none());
        stat.kill().unwrap();
        stat.wait().unwrap();
        let mut rest = String::new();
        errors.read_to_string(&mut rest).unwrap();
        stat.stdout.unwrap().read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
    }
}

#[test]
fn a_configuration_that_cannot_be_used_is_an_error_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.toml");
    std::fs::write(&file, "\n[limits]\nlanes = \"many\"\n").unwrap();
    let (status, words) = done(&["service", "--config", file.to_str().unwrap()]);
    assert_eq!(status, Some(1));
    assert!(words.contains("t.toml:3:9: limits.lanes is the text \"many\"; expected a whole number"), "{words}");
    let (status, words) = done(&["service", "--config", "/nonexistent/t.toml"]);
    assert_eq!(status, Some(1));
    assert!(words.contains("cannot read /nonexistent/t.toml"), "{words}");
}

#[test]
fn a_table_of_leap_seconds_that_is_named_must_be_there_for_daemon_and_service() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.toml");
    let page = directory.path().join("clock");
    let text = format!(
        "[clock]\npage = {page:?}\nleap_seconds = \"/nonexistent/leaps\"\n[[clock.servers]]\nhost = \"127.0.0.1\"\n"
    );
    std::fs::write(&file, text).unwrap();
    for command in [&["clock", "run"][..], &["service"]] {
        let (status, words) = done(&[command, &["--config", file.to_str().unwrap()]].concat());
        assert_eq!(status, Some(1), "{command:?}: {words}");
        assert!(words.contains("cannot read the table of leap seconds /nonexistent/leaps: No such file"), "{words}");
        assert_eq!(words.matches("No such file").count(), 1, "{words}");
    }
}

#[test]
#[cfg(feature = "nts")]
fn the_certificates_of_a_server_must_be_there_for_daemon_and_service() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.toml");
    let page = directory.path().join("clock");
    let server = "[[clock.servers]]\nhost = \"127.0.0.1\"\nnts = true\nnts_ca = \"/nonexistent/ca.pem\"\n";
    std::fs::write(&file, format!("[clock]\npage = {page:?}\n{server}")).unwrap();
    let (file, page) = (file.to_str().unwrap(), page.to_str().unwrap());
    let named = ["clock", "run", "--page", page, "--server", "127.0.0.1", "--nts", "--nts-ca", "/nonexistent/ca.pem"];
    for command in [&["clock", "run", "--config", file][..], &["service", "--config", file], &named] {
        let (status, words) = done(command);
        assert_eq!(status, Some(1), "{command:?}: {words}");
        let said =
            "the server 127.0.0.1 cannot be asked with NTS: there are no certificates to trust: /nonexistent/ca.pem";
        assert!(words.contains(&format!("{said}: No such file")), "{words}");
    }
    for wrong in [&["--nts"][..], &["--server", "127.0.0.1", "--nts-ca", "/ca.pem"]] {
        let (status, words) = done(&[&["clock", "run"], wrong].concat());
        assert_eq!(status, Some(2), "{wrong:?}: {words}");
    }
}

#[test]
fn a_place_that_does_not_exist_is_not_made() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name: &str| directory.path().join(name).display().to_string();
    let (page, lost, record) = (place("clock"), place("no/such"), place("no/record"));
    for (arguments, said) in [
        (&["--page", &lost][..], format!("there is no directory {}: make it", place("no"))),
        (&["--page", &page, "--record", &record], format!("cannot record to {record}: No such file or directory")),
    ] {
        let (status, words) = done(&[&["clock", "run", "--server", "127.0.0.1:9"], arguments].concat());
        assert_eq!(status, Some(1), "{words}");
        assert!(words.contains(&said), "{words}");
        assert!(!directory.path().join("no").exists(), "{arguments:?}");
    }
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_a_reader_that_has_enough_is_none() {
    for more in [&[][..], &["--json"]] {
        let arguments = [&["doctor"], more].concat();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let Output { status, stderr, .. } = tickwire(&arguments).stdout(full).output().unwrap();
        assert_eq!(status.code(), Some(1));
        let words = String::from_utf8(stderr).unwrap();
        assert_eq!(words, "tickwire: cannot write to standard output: No space left on device (os error 28)\n");

        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let Output { status, stderr, .. } = tickwire(&arguments).stdout(writer).output().unwrap();
        assert_eq!(status.code(), Some(1), "a service is missing");
        assert_eq!(String::from_utf8(stderr).unwrap(), "");
    }
}

#[test]
fn a_count_of_nothing_is_refused_in_plain_words() {
    for (count, words) in [("0", "expected at least 1"), ("few", "expected a whole number, at least 1")] {
        let (status, said) = done(&["capture", "-w", "-", "-c", count]);
        assert_eq!(status, Some(2));
        assert!(said.contains(words) && !said.contains("1844"), "{said}");
    }
}

#[test]
fn a_usage_line_does_not_ask_for_the_socket() {
    // A variable that is set does not replace a required argument.
    for command in ["run", "capture"] {
        let (status, words) = done(&[command]);
        assert_eq!(status, Some(2));
        assert!(words.contains(&format!("Usage: tickwire {command} [OPTIONS] ")), "{words}");
        assert!(!words.contains("--socket"), "{words}");
    }
}

#[test]
fn a_relative_socket_is_one_of_the_directory_in_which_it_was_named() {
    let temporary = tempfile::tempdir().unwrap();
    let directory = std::fs::canonicalize(temporary.path()).unwrap();
    let there = directory.join("s.sock");
    let program = ["run", "--socket", "s.sock", "--", "sh", "-c", "cd /; echo $TICKWIRE_SOCKET"];
    let run = tickwire(&program).current_dir(&directory).output().unwrap();
    let stat = tickwire(&["stat", "--socket", "s.sock"]).current_dir(&directory).output().unwrap();
    assert_eq!(String::from_utf8(run.stdout).unwrap().trim_end(), there.to_str().unwrap());
    assert!(String::from_utf8(stat.stderr).unwrap().contains(there.to_str().unwrap()));
}

#[test]
fn a_time_server_says_what_it_lacks() {
    for (arguments, expected, said) in [
        (&["--page", "/dev/null"][..], 1, "tickwire: /dev/null is no ordinary file, so no clock"),
        (&["--listen", "eth0"], 2, "tickwire: --listen: \"eth0\": expected an address of this host"),
        (&["--allow", "lan"], 2, "tickwire: --allow: \"lan\" is no network: expected an address"),
        (&["--rate", "1e9"], 2, "'--rate <N>': expected a number from 0.001 to 1000000, or 0"),
        (&["--burst", "0"], 2, "'--burst <N>': expected a whole number from 1 to"),
        (&["--config", "/nonexistent/file"], 1, "tickwire: cannot read /nonexistent/file: No such"),
    ] {
        let (status, words) = done(&[&["clock", "serve"], arguments].concat());
        assert_eq!(status, Some(expected), "{arguments:?}");
        assert!(words.contains(said), "{words}");
    }
}

#[test]
fn what_is_no_page_of_this_program_is_named_with_what_is_wrong() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    let writer = tickclock::Writer::create(&page, tickclock::CounterKind::MonotonicRaw).unwrap();
    let good = std::fs::read(&page).unwrap();
    drop(writer);
    let with = |word: usize, value: u64| {
        let mut bytes = good.clone();
        bytes[word * 8..][..8].copy_from_slice(&value.to_ne_bytes());
        bytes
    };
    for (bytes, said) in [
        (with(1, 99), "cannot be read as a clock: it is of version 99, this program reads version"),
        (with(0, 7), "cannot be read as a clock: it is no clock page"),
        (with(3, 9), "cannot be read as a clock: it is about a counter that this program does not know (9)"),
        (good[..4095].to_vec(), "cannot be read as a clock: it has 4095 bytes instead of 4096"),
        ([&good[..], &good].concat(), "cannot be read as a clock: it has 8192 bytes instead of 4096"),
        (Vec::new(), " no clock at "),
    ] {
        std::fs::write(&page, &bytes).unwrap();
        for command in [&["read"][..], &["read", "--json"], &["convert", "1"], &["wait", "--timeout", "0.1"]] {
            let (status, words) = done(&[&["clock"], command, &["--page", page.to_str().unwrap()]].concat());
            let expected = if bytes.is_empty() && command[0] == "wait" { 3 } else { 1 };
            assert_eq!(status, Some(expected), "{command:?}: {words}");
            assert!(words.contains(said) && words.lines().count() == 1, "{command:?}: {words}");
        }
    }
    for command in ["status", "sources"] {
        let (status, words) = done(&["clock", command, "--page", page.to_str().unwrap()]);
        assert_eq!(status, Some(1));
        assert!(words.contains("no clock daemon answers for ") && words.contains("tickwire clock run"), "{words}");
    }
}

#[test]
fn what_cannot_be_meant_is_refused_before_anybody_is_asked() {
    for (arguments, said) in [
        (&["run", "--poll", "0.01"][..], "expected a number from 0.05 to 86400"),
        (&["run", "--server", "a.example:99999"], "--server: \"99999\" is no port: expected a number from 1 to 65535"),
        (&["run", "--server", "http://foo"], "--server: \"http://foo\" is no name of a host"),
        (&["run", "--server", ""], "--server: \"\" is no name of a host"),
        (&["convert", "12x"], "expected a whole number from 0 to 18446744073709551615"),
        (&["wait", "--bound", "x"], "expected a number from 0.001 to 1000000000"),
    ] {
        let (status, words) = done(&[&["clock"], arguments].concat());
        assert_eq!(status, Some(2), "{arguments:?}: {words}");
        assert!(words.contains(said) && !words.contains("invalid digit"), "{words}");
    }
    for (command, option) in [("capture", "--lane"), ("capture", "--snaplen"), ("counters", "--reads")] {
        let (status, words) = done(&[command, option, "x"]);
        assert_eq!(status, Some(2));
        assert!(words.contains("expected a whole number from"), "{words}");
    }
}

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
fn the_clocks_settings_are_told_with_their_place_as_the_services_are() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("t.toml");
    for (text, said) in [
        ("[clock]\npol = 1\n", "t.toml:2:1: unknown key `pol`, expected "),
        ("[clock]\ntai_offset = 100000\n", "t.toml:2:14: clock.tai_offset must be 0 to 1000 seconds"),
        ("[clock]\n[[clock.servers]]\nhost = \"a b\"\n", "t.toml:3:8: \"a b\" is no name of a host"),
    ] {
        std::fs::write(&file, text).unwrap();
        for command in [&["clock", "run"][..], &["clock", "serve"], &["service"]] {
            let (status, words) = done(&[command, &["--config", file.to_str().unwrap()]].concat());
            assert_eq!(status, Some(1), "{command:?}: {words}");
            assert!(words.contains(said) && words.lines().count() == 1, "{command:?}: {words}");
        }
    }
}

#[test]
fn what_is_no_record_of_a_clock_is_told_in_a_line() {
    let file = std::env::temp_dir().join(format!("tickwire-record-{}", std::process::id()));
    std::fs::write(&file, "{\"exchange\":{}}\n").unwrap();
    let (status, words) = done(&["clock", "replay", file.to_str().unwrap()]);
    std::fs::remove_file(&file).unwrap();
    assert_eq!(status, Some(1));
    assert!(words.contains(" is no record of a clock, such as ") && words.lines().count() == 1, "{words}");
    let (status, words) = done(&["clock", "replay", "/nonexistent/record"]);
    assert_eq!(status, Some(1));
    assert!(words.contains("cannot read /nonexistent/record"), "{words}");
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

/// `watch` does not fail if something is missing: it says what is missing and what to do.
#[test]
fn what_is_not_there_can_be_watched() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [&["watch", "--once"][..], &["watch"], &["watch", "--run", "1"]] {
        let mut command = tickwire(arguments);
        command.env("TICKWIRE_CLOCK", "/nonexistent/clock").env("XDG_RUNTIME_DIR", directory.path());
        let Output { status, stdout, stderr } = command.output().unwrap();
        let page = String::from_utf8(stdout).unwrap();
        assert_eq!((status.code(), stderr), (Some(0), Vec::new()), "{page}");
        assert!(page.contains("no clock daemon answers for /nonexistent/clock: start "), "{page}");
        assert!(page.contains("no service at /nonexistent/service.sock"), "{page}");
        if arguments.contains(&"--run") {
            assert!(page.contains("process 1 runs no testbed"), "{page}");
        }
        assert!(!page.contains('\x1b'), "no terminal, no colours: {page:?}");
    }
}

#[test]
fn what_cannot_be_watched_is_a_wrong_command_line() {
    for (arguments, words) in [
        (&["--interval", "0"][..], "expected a number from 0.1 to 3600"),
        (&["--metrics", "here"], "expected an address of this host"),
        (&["--metrics", "--once"], "cannot be used with"),
        (&["--run", "0"], "expected a whole number from 1"),
        (&["--metrics", "192.0.2.1"], "tickwire: --metrics: 192.0.2.1 is no address of this host"),
    ] {
        let (status, said) = done(&[&["watch"], arguments].concat());
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains(words), "{said}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (status, said) = done(&["watch", "--metrics", &address]);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.starts_with(&format!("tickwire: cannot listen on {address} for metrics: ")), "{said}");
}

#[test]
fn metrics_are_served_until_a_signal_comes() {
    let mut command = tickwire(&["watch", "--metrics", "127.0.0.1:0"]);
    command.env("TICKWIRE_CLOCK", "/nonexistent/clock");
    let mut watch = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(watch.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address =
        line.trim_end().strip_prefix("tickwire: metrics are at http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut visitor = std::net::TcpStream::connect(address).unwrap();
    std::io::Write::write_all(&mut visitor, b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    visitor.read_to_string(&mut answer).unwrap();
    assert!(answer.contains("\ntickwire_up{part=\"service\"} 0\n"), "{answer}");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(watch.id()).unwrap());
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(watch.wait().unwrap().code(), Some(0));
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
