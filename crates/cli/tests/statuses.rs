//! Exit statuses and messages of the commands other than `run`, according to the manual. Those of
//! the clock are in `clock_statuses`, those of measurements in `measurement_statuses`.
#![cfg(unix)]

mod common;

use common::{done, tickwire};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::process::{Output, Stdio};

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
