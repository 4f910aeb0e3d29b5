//! `tickwire stat`, `capture` and `doctor` on hosts with traffic.

mod common;

use common::{Both, TIMEOUT, built, crossing, start, wait_until_listening};
use nix::sys::signal::Signal;
use tickwire_lab::{Process, tools};

fn server(both: &Both) -> Process {
    let mut server =
        start(both.b(), true, &[&built("pingpong"), "server", "tcp", &format!("{}:7000", both.pair.b_v4())]);
    wait_until_listening(both.b(), &mut server, "tcp", 7000);
    server
}

fn client(both: &Both, count: &str) -> Process {
    let address = format!("{}:7000", both.pair.b_v4());
    start(both.a(), true, &[&built("pingpong"), "client", "tcp", &address, "--count", count, "--warmup", "1"])
}

#[test]
fn stat_shows_a_connection_with_its_figures_while_it_lives() {
    let both = Both::new();
    let server = server(&both);
    let mut talking = client(&both, "1000000000");
    let connection = || {
        let stat = both.b_service.stat().unwrap();
        let lane = stat.lanes_of(server.id()).first().map(|lane| (*lane).clone())?;
        let sockets = lane["sockets"].as_array()?.clone();
        let found = sockets.into_iter().find(|s| s["state"] == "ESTAB" && s["rx_packets"].as_u64() > Some(100))?;
        Some((lane, found))
    };
    tools::until("the connection shows", TIMEOUT, || connection().is_some()).unwrap();
    let (lane, socket) = connection().unwrap();
    assert_eq!((lane["program"].as_str(), lane["uid"].as_u64()), (Some("pingpong"), Some(0)));
    assert_eq!(socket["local"].as_str().unwrap(), format!("{}:7000", both.pair.b_v4()));
    assert!(socket["remote"].as_str().unwrap().starts_with(&both.pair.a_v4()), "{socket}");
    assert!(socket["tcp"]["srtt_us"].as_u64() > Some(0) && socket["tcp"]["cwnd"].as_u64() > Some(0), "{socket}");
    assert!(lane["guard"]["out_packets"].as_u64() > Some(100), "{lane}");
    assert!(lane["counters"]["TcpInSegs"].as_u64() > Some(100) && lane["counters"]["TcpPassiveOpens"] == 1, "{lane}");

    let tickwire = tools::tickwire().unwrap();
    let page = both.b().run(&[tickwire.to_str().unwrap(), "stat"]).unwrap();
    assert!(page.contains("eth0 (veth)") && page.contains("ESTAB") && page.contains("TcpInSegs"), "{page}");
    talking.kill();
}

#[test]
fn a_capture_holds_both_directions_with_stamps_in_order_and_tcpdump_would_read_it() {
    use pcap_file::pcapng::{Block, PcapNgReader};
    let both = Both::new();
    let _server = server(&both);
    let tickwire = tools::tickwire().unwrap();
    let file = both.b().directory().join("capture.pcapng");
    let capture = [tickwire.to_str().unwrap(), "capture", "-w", file.to_str().unwrap(), "--program", "pingpong"];
    let mut capture = both.b().spawn(&capture).unwrap();
    capture.wait_for("capturing", TIMEOUT).unwrap();
    crossing(&both.b_service, 50, || client(&both, "50").success(TIMEOUT).unwrap());
    std::thread::sleep(std::time::Duration::from_millis(300));
    capture.signal(Signal::SIGINT).unwrap();
    let ended = capture.wait(TIMEOUT).unwrap();
    assert!(ended.status.success() && ended.stderr.contains("packets recorded, 0 lost"), "{ended:?}");

    let mut reader = PcapNgReader::new(std::fs::File::open(&file).unwrap()).unwrap();
    let (mut packets, mut stamps) = ([0, 0], Vec::new());
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            packets[packet.interface_id as usize] += 1;
            stamps.push(packet.timestamp);
            // Ethernet, IPv4.
            assert_eq!(packet.data[12..14], [8, 0], "{packet:?}");
        }
    }
    assert!(packets.iter().all(|count| *count >= 50), "{packets:?}");
    assert!(stamps.iter().all(|s| s.as_secs() > 1_700_000_000) && stamps.iter().any(|s| s.subsec_nanos() % 1000 != 0));
    assert_eq!(reader.interfaces().len(), 2);
}

#[test]
fn the_doctor_finds_the_service_and_says_when_it_is_missing() {
    let mut both = Both::new();
    let tickwire = tools::tickwire().unwrap();
    let doctor = || {
        let ended =
            both.pair.a.spawn(&[tickwire.to_str().unwrap(), "doctor", "--json"]).unwrap().wait(TIMEOUT).unwrap();
        let findings: Vec<serde_json::Value> = serde_json::from_str(&ended.stdout).unwrap();
        let service = findings.iter().find(|f| f["check"] == "service").unwrap()["verdict"].clone();
        // No interface of the lab looks physical: only the service names it.
        (ended.status.success(), service, findings.iter().any(|f| f["check"] == "eth0 link"))
    };
    assert_eq!(doctor(), (true, "good".into(), true));
    both.a_service.stop().unwrap();
    assert_eq!(doctor(), (false, "missing".into(), false));
}
