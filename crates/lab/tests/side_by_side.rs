//! Several instances of what is usually single: two programs' lanes, and a network interface with
//! two queues.

mod common;

use common::{Both, TIMEOUT, built, crossing, start, wait_until_listening};
use serde_json::Value;
use tickwire_lab::{CableOptions, Process, Service, ServiceOptions};

const PORTS: [u16; 2] = [9000, 9001];

/// A separate echo server for each port on host b.
fn servers(both: &Both) -> [Process; 2] {
    PORTS.map(|port| {
        let address = format!("{}:{port}", both.pair.b_v4());
        let mut server = start(both.b(), true, &[&built("connections"), "serve", &address]);
        wait_until_listening(both.b(), &mut server, "tcp", port);
        server
    })
}

/// Messages over 50 connections to one of the servers.
fn talk(both: &Both, port: u16, count: &str) -> Process {
    let address = format!("{}:{port}", both.pair.b_v4());
    let client = ["hold", &address, "--connections", "50", "--active", "50", "--count", count];
    start(both.a(), true, &[&[&*built("connections")], &client[..]].concat())
}

fn answered(client: &mut Process) -> u64 {
    let told: Value = serde_json::from_str(&client.success(TIMEOUT).unwrap()).unwrap();
    told["latency"]["count"].as_u64().unwrap()
}

/// Packets received by the lane of a program.
fn came_in(service: &Service, process: &Process) -> u64 {
    let stat = service.stat().unwrap();
    let lanes = stat.lanes_of(process.id());
    assert_eq!(lanes.len(), 1, "{}", stat.json);
    lanes[0]["guard"]["in_packets"].as_u64().unwrap_or_else(|| panic!("{}", lanes[0]))
}

#[test]
fn two_programs_have_a_lane_each_and_the_end_of_one_does_not_touch_the_other() {
    let both = Both::new();
    let [mut first, mut second] = servers(&both);
    let mut clients = PORTS.map(|port| talk(&both, port, "3000"));
    assert_eq!(clients.each_mut().map(answered), [3000, 3000]);
    for server in [&first, &second] {
        assert!(came_in(&both.b_service, server) >= 3000);
    }
    // One program ends in the middle of its traffic; the other one's continues.
    let mut cut = talk(&both, PORTS[0], "1000000");
    let mut whole = talk(&both, PORTS[1], "5000");
    let before = came_in(&both.b_service, &first);
    tickwire_lab::tools::until("traffic", TIMEOUT, || came_in(&both.b_service, &first) > before + 100).unwrap();
    first.kill();
    assert!(!cut.wait(TIMEOUT).unwrap().status.success());
    assert_eq!(answered(&mut whole), 5000);
    assert!(second.is_running().unwrap());
}

/// Frames received by each receive queue of host b's interface, as counted by its driver.
fn by_queue(both: &Both) -> Vec<u64> {
    let counted = both.b().run(&["ethtool", "-S", "eth0"]).unwrap();
    let number = |queue: usize| {
        let name = format!("rx_queue_{queue}_xdp_packets:");
        counted.lines().find_map(|line| line.trim().strip_prefix(&name)?.trim().parse().ok())
    };
    (0..).map_while(number).collect()
}

#[test]
fn what_comes_by_any_queue_of_an_interface_reaches_the_lane() {
    let cable = CableOptions { queues: 2, ..CableOptions::default() };
    // The driver counts the packets given to XDP per queue.
    let options = ServiceOptions { arguments: vec!["--attach".into(), "native".into()], ..ServiceOptions::default() };
    let both = Both::with(&cable, &options);
    let [first, _second] = servers(&both);
    let before = by_queue(&both);
    assert_eq!(before.len(), 2, "{}", both.b().run(&["ethtool", "-S", "eth0"]).unwrap());
    // The kernel's flows are spread over the queues by a hash.
    let address = format!("{}:{}", both.pair.b_v4(), PORTS[0]);
    let program = built("connections");
    let client = [&program, "hold", &address, "--connections", "50", "--active", "50", "--count", "3000"];
    crossing(&both.b_service, 3000, || assert_eq!(answered(&mut start(both.a(), false, &client)), 3000));
    let taken: Vec<u64> = by_queue(&both).iter().zip(&before).map(|(after, before)| after - before).collect();
    assert!(taken.iter().all(|&packets| packets > 100), "{taken:?}");
    assert!(came_in(&both.b_service, &first) >= 3000);
    // From a lane to a lane, both ways.
    assert_eq!(PORTS.map(|port| answered(&mut talk(&both, port, "2000"))), [2000, 2000]);
}
