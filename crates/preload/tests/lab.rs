//! Real programs on the fast path, between two hosts of the lab. Needs root.
//!
//! Every test checks that its traffic crossed the lanes: the service's count of diverted packets
//! must show it.

use std::time::Duration;
use tickwire_lab::stat::Stat;
use tickwire_lab::tools::{built, until};
use tickwire_lab::{LabHost, LabPair, Process, Service};

const TIMEOUT: Duration = Duration::from_secs(60);

struct Setup {
    pair: LabPair,
    _services: [Service; 2],
    program: String,
}

impl Setup {
    fn new() -> Self {
        let pair = LabPair::new().unwrap();
        let services = [Service::start(&pair.a).unwrap(), Service::start(&pair.b).unwrap()];
        let program = built("examples/sockets").unwrap().to_string_lossy().into_owned();
        Self { pair, _services: services, program }
    }

    /// Starts the test program, accelerated, on a host.
    fn start(&self, host: &LabHost, arguments: &[&str]) -> Process {
        let mut command = host.accelerated(&self.program).unwrap();
        command.args(arguments);
        Process::spawn(command).unwrap()
    }

    /// A server on b and a client on a; returns what the client printed. Both ends' services must
    /// have diverted at least `packets`.
    fn talk(&self, server: &str, client: &str, address: &str, count: &str, packets: u64) -> String {
        let mut server = self.start(&self.pair.b, &[server, address, count]);
        server.wait_for("ready", TIMEOUT).unwrap();
        let mut client = self.start(&self.pair.a, &[client, address, count]);
        let said = client.success(TIMEOUT).unwrap();
        server.success(TIMEOUT).unwrap();
        for host in [&self.pair.a, &self.pair.b] {
            let diverted = Stat::read(host).unwrap().diverted();
            assert!(diverted >= packets, "only {diverted} packets went by the lane of {}", host.name());
        }
        // No lane of the programs is left when they have ended.
        until("the lanes end", Duration::from_secs(2), || {
            let lanes = Stat::read(&self.pair.b).unwrap();
            lanes.lanes("sockets").is_empty()
        })
        .unwrap();
        said
    }
}

#[test]
fn datagrams_of_all_sizes_in_both_families() {
    let setup = Setup::new();
    assert_eq!(setup.talk("udp-server", "udp-client", &format!("{}:7000", setup.pair.b_v4()), "20", 20).trim(), "ok");
    let v6 = format!("[{}]:7000", setup.pair.b_v6());
    assert_eq!(setup.talk("udp-server", "udp-client", &v6, "20", 40).trim(), "ok");
}

#[test]
fn a_server_that_forks_for_each_connection() {
    let setup = Setup::new();
    let said = setup.talk("fork-server", "client", &format!("{}:7001", setup.pair.b_v4()), "4", 50);
    assert_eq!(said.trim(), "ok fork fork fork fork");
}

#[test]
fn a_server_whose_workers_were_forked_before() {
    let setup = Setup::new();
    let said = setup.talk("prefork-server", "client", &format!("[{}]:7002", setup.pair.b_v6()), "4", 50);
    assert_eq!(said.trim(), "ok worker worker worker worker");
}

#[test]
fn a_connection_goes_on_in_an_executed_program() {
    let setup = Setup::new();
    let said = setup.talk("exec-server", "client", &format!("{}:7003", setup.pair.b_v4()), "3", 50);
    assert_eq!(said.trim(), "ok exec exec exec");
}
