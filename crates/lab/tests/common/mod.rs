//! What the tests of accelerated programs share: two hosts with a service each, and the proof that traffic crossed our stack.
#![allow(dead_code, reason = "each test file uses a part")]

use std::time::Duration;
use tickwire_lab::{CableOptions, Host, Pair, Process, Service, ServiceOptions, tools};

/// Long enough for a machine that is busy with other things; nothing should come near it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Two hosts on a cable with a service each.
pub(crate) struct Both {
    pub(crate) a_service: Service,
    pub(crate) b_service: Service,
    pub(crate) pair: Pair,
}

impl Both {
    pub(crate) fn new() -> Self {
        Self::with(&CableOptions::default(), &ServiceOptions::default())
    }

    pub(crate) fn with(cable: &CableOptions, options: &ServiceOptions) -> Self {
        let pair = Pair::with(cable).unwrap();
        // Both at a time: the kernel takes its time to verify BPF programs.
        let (a_service, b_service) = std::thread::scope(|scope| {
            let a = scope.spawn(|| Service::start_with(&pair.a, options).unwrap());
            let b = Service::start_with(&pair.b, options).unwrap();
            (a.join().unwrap(), b)
        });
        Self { a_service, b_service, pair }
    }

    pub(crate) fn a(&self) -> &Host {
        &self.pair.a
    }

    pub(crate) fn b(&self) -> &Host {
        &self.pair.b
    }
}

/// Runs something and checks that at least so many packets were diverted to lanes of the service meanwhile.
pub(crate) fn crossing<T>(service: &Service, packets: u64, work: impl FnOnce() -> T) -> T {
    let before = service.stat().unwrap().diverted();
    let result = work();
    let crossed = service.stat().unwrap().diverted() - before;
    assert!(crossed >= packets, "only {crossed} packets crossed the stack\nlog: {}", service.log());
    result
}

/// A program, accelerated or not.
pub(crate) fn start(host: &Host, accelerated: bool, command: &[&str]) -> Process {
    let (program, arguments) = command.split_first().unwrap();
    let mut prepared = if accelerated { host.accelerated(program).unwrap() } else { host.command(program) };
    prepared.args(arguments);
    Process::spawn(prepared).unwrap()
}

/// Waits until a port is bound on a host (`tcp` or `udp`), and a moment longer: it is entered with the service after that.
pub(crate) fn bound(host: &Host, process: &mut Process, protocol: &str, port: u16) {
    let kind = if protocol == "tcp" { "-lnt" } else { "-lnu" };
    let filter = format!("sport = :{port}");
    let there = || host.run(&["ss", "-H", kind, &filter]).is_ok_and(|found| !found.trim().is_empty());
    let waited = tools::until("the port is bound", PATIENCE, || there() || !process.is_running().unwrap());
    assert!(waited.is_ok() && process.is_running().unwrap(), "{}{}", process.stdout(), process.stderr());
    std::thread::sleep(Duration::from_millis(150));
}

/// The system's Python, not a version manager's script in front of it.
pub(crate) fn python() -> &'static str {
    if std::path::Path::new("/usr/bin/python3").exists() { "/usr/bin/python3" } else { "python3" }
}

/// A program of the workspace.
pub(crate) fn built(name: &str) -> String {
    tools::built(name).unwrap().to_str().unwrap().to_owned()
}
