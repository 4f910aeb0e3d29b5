//! Exit statuses and messages of the clock daemon, the time server and `tickwire clock`, according
//! to the manual.
#![cfg(unix)]

mod common;

use common::done;

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
