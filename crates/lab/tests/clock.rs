//! The clock of `tickwire service`, against a server with a known true time.

mod common;

use common::{TIMEOUT, built};
use serde_json::Value;
use std::path::PathBuf;
use tickwire_lab::{LabHost, LabPair, Process, Service, ServiceOptions, tools};

const NTP: u16 = 123;

/// A server of the true time on host b.
struct Truth {
    file: String,
    _server: Process,
}

impl Truth {
    fn serve(pair: &LabPair) -> Self {
        let path = |name: &str| pair.b.directory().join(name).to_str().unwrap().to_owned();
        let (truth, recipe, file) = (built("truth"), path("recipe.toml"), path("truth.toml"));
        // Far enough from the system clock that the two cannot be confused.
        std::fs::write(&recipe, "ahead_us = 3e6\nrate_ppm = 10.0\n").unwrap();
        pair.b.run(&[&truth, "begin", &recipe, &file]).unwrap();
        let mut server = pair.b.spawn(&[&truth, "serve", &file, &format!("{}:{NTP}", pair.b_v4())]).unwrap();
        tickwire_lab::wait_until_listening(&pair.b, "udp", NTP, &mut server).unwrap();
        Self { file, _server: server }
    }

    /// Measures a clock's error for two seconds.
    fn probe(&self, host: &LabHost, page: &str) -> Value {
        let probe = ["probe", &self.file, "--page", page, "--seconds", "2", "--from", "0", "--rate", "1000"];
        let printed = host.run(&[&[built("truth").as_str()], &probe[..]].concat()).unwrap();
        serde_json::from_str(printed.trim()).unwrap()
    }
}

fn page_of(host: &LabHost) -> PathBuf {
    host.directory().join("clock")
}

/// A service on host a with these lines in its `[clock]` table.
fn service(pair: &LabPair, lines: &str) -> Service {
    let config = format!("[clock]\npage = {:?}\n{lines}", page_of(&pair.a));
    Service::start_with(&pair.a, &ServiceOptions { config, ..ServiceOptions::default() }).unwrap()
}

fn server(name: &str) -> String {
    format!("[[clock.servers]]\nhost = \"{name}\"\n")
}

#[test]
fn the_service_keeps_the_clock_and_ends_it_with_itself() {
    let pair = LabPair::new().unwrap();
    let truth = Truth::serve(&pair);
    let page = page_of(&pair.a);
    let page = page.to_str().unwrap();
    let mut service = service(&pair, &server(&pair.b_v4()));
    let tickwire = tools::tickwire().unwrap();
    let clock = |command: &[&str]| {
        let command = [&[tickwire.to_str().unwrap(), "clock"], command, &["--page", page]].concat();
        pair.a.run(&command).unwrap()
    };
    clock(&["wait", "--bound", "1000", "--timeout", "20"]);
    let reading: Value = serde_json::from_str(&clock(&["read", "--json"])).unwrap();
    assert!(reading["bound_ns"].as_u64().unwrap() <= 1_000_000, "{reading}");
    let figures = truth.probe(&pair.a, page);
    assert!(figures["bounded"].as_u64().unwrap() > 1000 && figures["outside"] == 0, "{figures}");
    let status: Value = serde_json::from_str(&clock(&["status", "--json"])).unwrap();
    assert_eq!(status["sources"][0]["standing"], "followed", "{status}");

    let ended = service.stop().unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(!PathBuf::from(format!("{page}.sock")).exists(), "the status socket is gone");
    clock(&["read"]);
}

#[test]
fn a_clock_that_cannot_be_kept_leaves_the_fast_path_alone() {
    let pair = LabPair::new().unwrap();
    let port = 9101;
    let script = format!("import socket, time; s = socket.create_server(('127.0.0.1', {port})); time.sleep(100)");
    let mut taker = pair.a.spawn(&[common::python(), "-c", &script]).unwrap();
    tickwire_lab::wait_until_listening(&pair.a, "tcp", port, &mut taker).unwrap();
    let lines = format!("metrics = \"127.0.0.1:{port}\"\n{}", server(&pair.b_v4()));
    let mut service = service(&pair, &lines);
    tools::until("the failure is logged", TIMEOUT, || service.log().contains("there is no clock")).unwrap();
    assert!(service.log().contains("Address already in use"), "{}", service.log());
    service.stat().unwrap();
    // The competing server ends.
    taker.kill();
    tools::until("the clock begins", TIMEOUT, || service.log().contains("the clock starts")).unwrap();
    assert!(service.stop().unwrap().status.success());
}

#[test]
fn a_server_without_an_address_is_logged_and_ends_nothing() {
    let pair = LabPair::new().unwrap();
    let mut service = service(&pair, &server("no-such-host.invalid"));
    tools::until("it is logged", TIMEOUT, || service.log().contains("the server's name is not known")).unwrap();
    service.stat().unwrap();
    assert!(service.stop().unwrap().status.success());
}

#[test]
fn a_wrong_setting_of_the_clock_is_told_with_its_place() {
    let pair = LabPair::new().unwrap();
    let config = "[clock]\npoll = 1\n\npols = 3\n".to_owned();
    let error = Service::start_with(&pair.a, &ServiceOptions { config, ..ServiceOptions::default() }).unwrap_err();
    let error = format!("{error:#}");
    assert!(error.contains("tickwire.toml:4:1: unknown key `pols`"), "{error}");
}

/// An unused unit of NTP's shared memory; it belongs to the machine, not to the namespace.
struct Unit(u8);

impl Drop for Unit {
    fn drop(&mut self) {
        let key = format!("{:#x}", 0x4e54_5030 + u32::from(self.0));
        let _ = std::process::Command::new("ipcrm").args(["-M", &key]).status();
    }
}

#[test]
fn chronyd_takes_the_time_from_the_shared_memory() {
    let pair = LabPair::new().unwrap();
    let _truth = Truth::serve(&pair);
    let unit = Unit(77);
    let mut service = service(&pair, &format!("shm_unit = {}\n{}", unit.0, server(&pair.b_v4())));
    let path = |name: &str| pair.a.directory().join(name).to_str().unwrap().to_owned();
    let configuration = path("chrony.conf");
    let lines =
        format!("refclock SHM {} refid TICK poll 0\ncmdport 0\nbindcmdaddress /\npidfile {}\n", unit.0, path("pid"));
    std::fs::write(&configuration, lines).unwrap();
    // -x: it does not adjust the system clock.
    let mut chronyd = pair.a.spawn(&["chronyd", "-x", "-d", "-u", "root", "-f", &configuration]).unwrap();
    // By as much as the true time is ahead of it.
    tools::until("chronyd believes it", TIMEOUT, || chronyd.stderr().contains("System clock wrong by 3.000"))
        .unwrap_or_else(|error| panic!("{error}: {}\n{}", chronyd.stderr(), service.log()));
    assert!(chronyd.stderr().contains("Selected source TICK"), "{}", chronyd.stderr());
    chronyd.stop(TIMEOUT).unwrap();
    service.stop().unwrap();
}

#[test]
fn a_service_that_may_not_steer_the_system_clock_says_so() {
    let pair = LabPair::new().unwrap();
    let config = pair.a.directory().join("tickwire.toml");
    let page = page_of(&pair.a);
    let lines = format!("[clock]\nsteer_system_clock = true\npage = {page:?}\n{}", server(&pair.b_v4()));
    std::fs::write(&config, lines).unwrap();
    let tickwire = tools::tickwire().unwrap();
    let run = [tickwire.to_str().unwrap(), "clock", "run", "--config", config.to_str().unwrap()];
    let without = ["setpriv", "--bounding-set", "-sys_time", "--inh-caps", "-sys_time"];
    let ended = pair.a.spawn(&[&without[..], &run[..]].concat()).unwrap().wait(TIMEOUT).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        ended.stderr.contains("cannot be steered: EPERM") && ended.stderr.contains("CAP_SYS_TIME"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_card_that_stamps_nothing_is_named_and_the_kernels_stamps_are_used() {
    let pair = LabPair::new().unwrap();
    let _truth = Truth::serve(&pair);
    let page = page_of(&pair.a);
    let tickwire = tools::tickwire().unwrap();
    let run = [tickwire.to_str().unwrap(), "clock", "run", "--config"];
    for (wanted, why) in [("enable", "has no clock that stamps packets"), ("never", "hardware_stamps = \"never\"")] {
        let config = pair.a.directory().join("clock.toml");
        let text =
            format!("[clock]\npoll = 0.1\nhardware_stamps = {wanted:?}\npage = {page:?}\n{}", server(&pair.b_v4()));
        std::fs::write(&config, text).unwrap();
        let mut daemon = pair.a.spawn(&[&run[..], &[config.to_str().unwrap()]].concat()).unwrap();
        let source = || {
            let sources = [run[0], "clock", "sources", "--json", "--page", page.to_str().unwrap()];
            let report: Value = serde_json::from_str(&pair.a.run(&sources).ok()?).ok()?;
            Some(report["sources"][0].clone())
        };
        let stamped = || source().is_some_and(|source| source["stamped"]["kernel"].as_u64() >= Some(5));
        tools::until("the kernel's stamps are used", TIMEOUT, stamped).unwrap();
        let source = source().unwrap();
        assert_eq!(source["stamps"], "kernel", "{source}");
        assert!(source["no_card"].as_str().unwrap().contains(why), "{source}");
        assert_eq!(source["lacking"], serde_json::json!({}), "{source}");
        daemon.kill();
    }
}
