//! The clock, with chronyd as a server that authenticates its replies (NTS, RFC 8915): two programs
//! that share only the wire protocol.

mod common;

use common::{TIMEOUT, vouched};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::time::Duration;
use tickwire_lab::{LabPair, Process, Service, ServiceOptions, tools};

/// chronyd's NTP port; not the default, so that NTS-KE must announce it.
const NTP: u16 = 1123;
const NTS_KE: u16 = 4460;
/// chronyd's control socket; in a directory that chronyd makes itself, because no other user may
/// have access to it.
const CONTROL: &str = "chronyd/control.sock";

/// Chronyd on host b.
struct Chronyd<'a> {
    pair: &'a LabPair,
    process: Process,
}

impl<'a> Chronyd<'a> {
    fn start(pair: &'a LabPair) -> Self {
        let path = |name: &str| pair.b.directory().join(name).to_str().unwrap().to_owned();
        let lines = format!(
            "local stratum 3\nallow\nport {NTP}\nntsntpserver {}\nntsserverkey {}\nntsservercert {}\n\
             bindcmdaddress {}\ncmdport 0\npidfile {}\n",
            pair.b_v6(),
            path("key.pem"),
            path("certificate.pem"),
            path(CONTROL),
            path("pid"),
        );
        std::fs::write(path("chrony.conf"), lines).unwrap();
        // -x: it does not adjust the system clock.
        let mut process = pair.b.spawn(&["chronyd", "-x", "-d", "-u", "root", "-f", &path("chrony.conf")]).unwrap();
        tickwire_lab::wait_until_listening(&pair.b, "tcp", NTS_KE, &mut process).unwrap();
        tickwire_lab::wait_until_listening(&pair.b, "udp", NTP, &mut process).unwrap();
        Self { pair, process }
    }

    /// Requests received, and how many of them were authenticated.
    fn requests(&self) -> [u64; 2] {
        let socket = self.pair.b.directory().join(CONTROL);
        let told = self.pair.b.run(&["chronyc", "-h", socket.to_str().unwrap(), "serverstats"]).unwrap();
        let figure = |name: &str| {
            let line = told.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {told}"));
            line.split_once(':').unwrap().1.trim().parse().unwrap()
        };
        [figure("NTP packets received"), figure("Authenticated NTP packets")]
    }
}

/// The daemon alone on host a.
fn daemon(pair: &LabPair, trusted: &str, poll: &str) -> Process {
    let (tickwire, page) = (tools::tickwire().unwrap(), pair.a.directory().join("clock"));
    let mut command = pair.a.command(tickwire.to_str().unwrap());
    command.args(["clock", "run", "--server", &pair.b_v4(), "--nts", "--nts-ca", trusted, "--poll", poll, "--page"]);
    command.arg(page);
    Process::spawn(command).unwrap()
}

/// What the daemon of host a reports about its server.
fn source(pair: &LabPair) -> Value {
    let tickwire = tools::tickwire().unwrap();
    let page = pair.a.directory().join("clock");
    let sources = ["clock", "sources", "--json", "--page", page.to_str().unwrap()];
    let output = pair.a.command(tickwire.to_str().unwrap()).args(sources).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    report["sources"][0].clone()
}

/// Waits until the condition holds for the source.
fn until(pair: &LabPair, what: &str, mut holds: impl FnMut(&Value) -> bool) -> Value {
    let mut last = Value::Null;
    tools::until(what, TIMEOUT, || {
        last = source(pair);
        holds(&last)
    })
    .unwrap_or_else(|error| panic!("{error}: {last}"));
    last
}

fn number(source: &Value, name: &str) -> u64 {
    source.pointer(name).and_then(Value::as_u64).unwrap_or(0)
}

#[test]
fn the_service_keeps_the_clock_by_authenticated_exchanges_only() {
    let pair = LabPair::new().unwrap();
    let trusted = vouched(&pair);
    let chronyd = Chronyd::start(&pair);
    let page = pair.a.directory().join("clock");
    let config = format!(
        "[clock]\npage = {page:?}\npoll = 0.2\n[[clock.servers]]\nhost = {:?}\nnts = true\nnts_ca = {trusted:?}\n",
        pair.b_v4()
    );
    let mut service = Service::start_with(&pair.a, &ServiceOptions { config, ..ServiceOptions::default() }).unwrap();
    let source =
        until(&pair, "the server is followed", |source| number(source, "/used") > 20 && source["stamps"] == "kernel");
    assert_eq!(source["standing"], "followed", "{source}");
    let sent_to = format!("[{}]:{NTP}", pair.b_v6());
    assert_eq!(source["address"], sent_to.as_str(), "the keys came with another address and port");
    assert_eq!(number(&source, "/nts/agreed"), 1, "{source}");
    assert!(number(&source, "/nts/cookies") >= 7, "as many come as are spent: {source}");
    let [all, authenticated] = chronyd.requests();
    assert!(all == authenticated && all >= 20, "{authenticated} of {all}");

    // Each lost exchange costs a cookie; the next reply restores all of them.
    let chronyd = chronyd.process;
    chronyd.suspend().unwrap();
    let few = until(&pair, "cookies are spent", |source| number(source, "/nts/cookies") <= 5);
    chronyd.signal(Signal::SIGCONT).unwrap();
    let again = until(&pair, "cookies are there again", |source| number(source, "/nts/cookies") >= 7);
    assert_eq!(number(&again, "/nts/agreed"), 1, "{few} {again}");
    let ended = service.stop().unwrap();
    assert!(ended.status.success(), "{}", ended.stderr);
}

#[test]
fn a_server_that_comes_back_with_other_keys_is_asked_again() {
    let pair = LabPair::new().unwrap();
    let trusted = vouched(&pair);
    let mut chronyd = Chronyd::start(&pair);
    // So rarely that it still has cookies when chronyd is back, however busy the machine is.
    let mut daemon = daemon(&pair, &trusted, "1");
    let before = until(&pair, "the server is followed", |source| number(source, "/used") > 10);
    chronyd.process.stop(TIMEOUT).unwrap();
    let chronyd = Chronyd::start(&pair);
    let after = until(&pair, "keys are agreed on anew", |source| {
        number(source, "/nts/agreed") == 2 && number(source, "/used") > number(&before, "/used") + 10
    });
    let nak = |source: &Value| source["refused"].as_object().unwrap().keys().any(|why| why.contains("(NTSN)"));
    assert!(nak(&after) && after["standing"] == "followed", "{after}");
    let [all, authenticated] = chronyd.requests();
    assert!(authenticated >= 10, "{authenticated} of {all}");
    daemon.stop(Duration::from_secs(5)).unwrap();
}

#[test]
fn a_server_with_an_untrusted_certificate_is_not_asked() {
    let pair = LabPair::new().unwrap();
    let trusted = vouched(&pair);
    // A new authority; the server keeps the certificate of the first one.
    let [key, certificate] = ["key.pem", "certificate.pem"].map(|name| pair.b.directory().join(name));
    let kept = [&key, &certificate].map(|file| std::fs::read(file).unwrap());
    vouched(&pair);
    for (file, text) in [&key, &certificate].into_iter().zip(kept) {
        std::fs::write(file, text).unwrap();
    }
    let chronyd = Chronyd::start(&pair);
    let mut daemon = daemon(&pair, &trusted, "0.2");
    let source = until(&pair, "the failure is told", |source| {
        source["nts"]["failed"].as_object().is_some_and(|failed| !failed.is_empty())
    });
    let failed = source["nts"]["failed"].to_string();
    let untrusted = "no trusted authority has signed the certificate";
    assert!(failed.contains(untrusted) && source["used"] == 0, "{source}");
    assert_eq!(chronyd.requests(), [0, 0]);
    let mut sources = pair.a.command(tools::tickwire().unwrap().to_str().unwrap());
    let table = sources.args(["clock", "sources", "--page"]).arg(pair.a.directory().join("clock")).output().unwrap();
    let table = String::from_utf8(table.stdout).unwrap();
    assert!(table.contains("no keys") && table.contains(&format!("{untrusted}: 1")), "{table}");
    let log = daemon.stderr();
    assert!(log.contains("no keys could be agreed on (NTS)") && log.contains(untrusted), "{log}");
    daemon.stop(Duration::from_secs(5)).unwrap();
}
