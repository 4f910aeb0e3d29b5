//! Programs that send what they may not, by the rings and by the bulk device, with a hand-made lane
//! user.

mod common;

use common::{Client, PEER, World, release, reusing, skipped, until, within};
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;
use tickwire_lane::control::{ClaimKind, CountersOf};
use tickwire_service::Attach;
use tickwire_stack::addr::{Address, Endpoint, Mac};

/// An Ethernet frame with an IPv4 UDP datagram.
fn udp_frame(source_mac: Mac, destination_mac: Mac, source: Endpoint, destination: Endpoint) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend(destination_mac.0);
    bytes.extend(source_mac.0);
    bytes.extend([8, 0, 0x45, 0, 0, 32, 0, 0, 0, 0, 64, 17, 0, 0]);
    bytes.extend(source.address.to_v4().unwrap());
    bytes.extend(destination.address.to_v4().unwrap());
    let sum: u32 = bytes[14..34].chunks(2).map(|w| u32::from(w[0]) << 8 | u32::from(w[1])).sum();
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    bytes[24..26].copy_from_slice(&checksum.to_be_bytes());
    bytes.extend(source.port.to_be_bytes());
    bytes.extend(destination.port.to_be_bytes());
    bytes.extend([0, 12, 0, 0]);
    bytes.extend(*b"evil");
    bytes
}

fn guard_refuses(attach: Attach) {
    if skipped() {
        return;
    }
    let world = World::new(attach);
    let (mut client, lane) = world.laned();
    let socket = within(&world.pair.a, || UdpSocket::bind("0.0.0.0:7000").unwrap());
    client.claim_bound(&socket).unwrap();
    let receiver = within(&world.pair.b, || UdpSocket::bind(world.b(9000)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let path = client.path(PEER);
    let (ours, theirs) = (Endpoint::from(world.a(7000)), Endpoint::from(world.b(9000)));
    let good = udp_frame(path.source_mac, path.next_hop_mac, ours, theirs);
    let port = udp_frame(path.source_mac, path.next_hop_mac, Endpoint::new(ours.address, 7001), theirs);
    let address =
        udp_frame(path.source_mac, path.next_hop_mac, Endpoint::new(Address::v4([10, 77, 0, 9]), 7000), theirs);
    let mac = udp_frame(Mac([2, 9, 9, 9, 9, 9]), path.next_hop_mac, ours, theirs);
    let mut arp = vec![0xff; 6];
    arp.extend(path.source_mac.0);
    arp.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    arp.resize(60, 0);
    let mut icmp = good.clone();
    icmp[23] = 1;
    let short = good[..30].to_vec();
    let vlan = [&good[..12], &[0x81, 0, 0, 5], &good[12..]].concat();
    let long = [&good[..], &[0; 1500]].concat();
    for frame in [&port, &address, &mac, &arp, &icmp, &short, &vlan, &long] {
        lane.send_raw(frame);
    }
    lane.send_raw(&good);
    let mut buffer = [0; 64];
    let (length, from) = receiver.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from), (&b"evil"[..], world.a(7000)), "only the honest one came");
    receiver.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert!(receiver.recv_from(&mut buffer).is_err());
    let counters = client.counters(CountersOf::Lane, lane.lane);
    assert_eq!(counters[2], 1, "one let out");
    // malformed, protocol (ARP, ICMP, VLAN), source (address, MAC), port
    assert_eq!(counters[4..8], [1, 3, 2, 1], "{counters:?}");
}

#[test]
fn the_guard_refuses_foreign_ports_addresses_macs_and_protocols() {
    guard_refuses(Attach::Tc);
}

#[test]
fn the_guard_in_xdp_refuses_the_same() {
    guard_refuses(Attach::Native);
}

/// What stands before each frame of a bulk device (`struct virtio_net_hdr`): nothing; or that the
/// data behind so many bytes of headers is to be cut into segments.
fn virtio(kind: u8, headers: u16, size: u16) -> [u8; 10] {
    let [h, s] = [headers, size].map(u16::to_ne_bytes);
    if kind == 0 { [0; 10] } else { [0, kind, h[0], h[1], s[0], s[1], 0, 0, 0, 0] }
}

/// A segment of a connection that the frame's ports name, of so many bytes.
fn tcp_frame(udp: &[u8], len: usize) -> Vec<u8> {
    let mut bytes = udp[..38].to_vec();
    bytes[16..18].copy_from_slice(&u16::try_from(40 + len).unwrap().to_be_bytes());
    bytes[20] = 0x40;
    bytes[23] = 6;
    bytes.extend([0, 0, 0, 1, 0, 0, 0, 1, 0x50, 0x10, 0, 99, 0, 0, 0, 0]);
    bytes.resize(54 + len, 7);
    bytes
}

#[test]
fn the_device_for_trains_is_guarded_and_lets_no_train_out_that_floods() {
    use std::io::Write;
    if skipped() {
        return;
    }
    for attach in [Attach::Native, Attach::Tc] {
        let world = World::new(attach);
        let (mut client, lane) = world.laned();
        let proof = reusing(&world, 7000);
        client.claim(ClaimKind::Flow, Endpoint::from(world.b(9000)), proof.as_fd()).unwrap();
        let path = client.path(PEER);
        let (ours, theirs) = (Endpoint::from(world.a(7000)), Endpoint::from(world.b(9000)));
        let good = udp_frame(path.source_mac, path.next_hop_mac, ours, theirs);
        let foreign = udp_frame(path.source_mac, path.next_hop_mac, Endpoint::new(ours.address, 7001), theirs);
        let mut tap = std::fs::File::from(client.bulk());
        assert_eq!(client.request(&tickwire_lane::control::Request::Bulk, &[]).1.len(), 1, "the same again");
        let mut write = |header: [u8; 10], frame: &[u8]| tap.write(&[&header[..], frame].concat());
        // Packets and bytes that left; and packets that were refused, by reason: malformed,
        // protocol, source, port, fragment, length, checksum.
        let mut counted = |left: [u64; 2], refused: [u64; 7]| {
            let counters = client.counters(CountersOf::Lane, lane.lane);
            assert_eq!((&counters[2..4], &counters[4..11]), (&left[..], &refused[..]));
        };
        let train = tcp_frame(&good, 5000);
        write(virtio(0, 0, 0), &tcp_frame(&good, 500)).unwrap();
        write(virtio(1, 54, 1000), &train).unwrap();
        let sent = 554 + 5 * 54 + 5000;
        counted([6, sent], [0; 7]);
        // Neither from another port, nor what is no segment.
        write(virtio(0, 0, 0), &tcp_frame(&foreign, 500)).unwrap();
        write(virtio(1, 54, 1000), &tcp_frame(&foreign, 5000)).unwrap();
        write(virtio(0, 0, 0), &good).unwrap();
        counted([6, sent], [0, 0, 0, 1 + 5 + 1, 0, 0, 0]);
        // Longer than the NIC takes, as one and in its segments; and so short that one write makes
        // thousands of packets.
        write(virtio(0, 0, 0), &tcp_frame(&good, 3000)).unwrap();
        write(virtio(1, 54, 1470), &tcp_frame(&good, 2940)).unwrap();
        write(virtio(1, 54, 255), &train).unwrap();
        counted([6, sent], [0, 0, 0, 7, 0, 1 + 2 + 20, 0]);
        // A sum that the kernel is to write where the source port is, the source address, the
        // frame's length, or where it belongs. What does not hold water the kernel refuses at once.
        let before = client.counters(CountersOf::Lane, lane.lane);
        for place in [12, 16, 24, 26, 28, 34, 50] {
            for start in [14, place - 2, place, 34] {
                for (kind, frame) in [(0, tcp_frame(&good, 500)), (1, train.clone())] {
                    let mut header = virtio(kind, if kind == 0 { 0 } else { 54 }, if kind == 0 { 0 } else { 1000 });
                    header[0] = 1;
                    header[6..8].copy_from_slice(&(start as u16).to_ne_bytes());
                    header[8..10].copy_from_slice(&((place - start) as i16).to_ne_bytes());
                    let _ = write(header, &frame);
                }
            }
        }
        let after = client.counters(CountersOf::Lane, lane.lane);
        assert_eq!(after[2..10], before[2..10], "nothing of it left");
        assert!(after[10] > 5, "{after:?}");
        // Datagrams in trains, nonsense, and too little.
        let mut datagrams = train.clone();
        datagrams[23] = 17;
        for kind in [2, 3, 4, 5, 0x81, 0x7f] {
            let _ = write(virtio(kind, 54, 1000), &datagrams);
            let _ = write(virtio(kind, 65535, 1000), &good);
        }
        assert!(write(virtio(0, 0, 0), &[]).is_err());
        let _ = write(virtio(0, 0, 0), &good[..20]);
        let before = client.counters(CountersOf::Lane, lane.lane)[2];
        write(virtio(0, 0, 0), &tcp_frame(&good, 500)).unwrap();
        assert_eq!(client.counters(CountersOf::Lane, lane.lane)[2], before + 1, "the way is open still");
    }
}

/// A process that still has the descriptor of a bulk device, and has made the device persistent,
/// sends nothing by it when the lane is gone.
#[test]
fn a_bulk_device_goes_with_its_lane_whatever_process_holds_it() {
    use std::io::Write;
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let (mut client, lane) = world.laned();
    let tap = client.bulk();
    const TUNSETPERSIST: libc::c_ulong = 0x4004_54cb;
    // SAFETY: this call takes a number.
    assert_eq!(unsafe { libc::ioctl(tap.as_raw_fd(), TUNSETPERSIST as _, 1) }, 0);
    drop((client, lane));
    let mut tap = std::fs::File::from(tap);
    until("its device goes", || tap.write(&[0; 100]).is_err());
    until("the lane's devices go", || world.lane_devices().is_empty());
}

#[test]
fn a_flow_lets_nothing_else_out_of_its_port() {
    if skipped() {
        return;
    }
    for attach in [Attach::Tc, Attach::Native] {
        let world = World::new(attach);
        let (mut client, lane) = world.laned();
        let path = client.path(Address::v4([10, 77, 0, 2]));
        let socket = reusing(&world, 7000);
        let ours = Endpoint::from(world.a(7000));
        let tcp = |to: u16| {
            let mut frame = udp_frame(path.source_mac, path.next_hop_mac, ours, world.b(to).into());
            frame[23] = 6;
            frame
        };
        let first = client.claim(ClaimKind::Flow, world.b(80).into(), socket.as_fd()).unwrap();
        for port in [80, 81, 82] {
            lane.send_raw(&tcp(port));
        }
        let figures = |client: &mut Client| {
            let counters = client.counters(CountersOf::Lane, lane.lane);
            (counters[2], counters[7])
        };
        until("one of three", || figures(&mut client) == (1, 2));
        client.claim(ClaimKind::Flow, world.b(81).into(), socket.as_fd()).unwrap();
        for port in [80, 81, 82] {
            lane.send_raw(&tcp(port));
        }
        until("two of three", || figures(&mut client) == (3, 3));
        client.request(&release(&[first]), &[]);
        for port in [80, 81] {
            lane.send_raw(&tcp(port));
        }
        until("what was released is over", || figures(&mut client) == (4, 4));
    }
}

/// Frames that the host's interfaces did not take from the guard in XDP.
fn lost_redirects(client: &mut Client) -> u64 {
    client.counters(CountersOf::Host, 0)[6]
}

/// Whether a driver's refusal was seen, before the service saw that the driver would refuse.
fn refusal_is_seen() -> bool {
    let world = World::new(Attach::Native);
    let (mut client, lane) = world.laned();
    let socket = within(&world.pair.a, || UdpSocket::bind("0.0.0.0:7000").unwrap());
    client.claim_bound(&socket).unwrap();
    let receiver = within(&world.pair.b, || UdpSocket::bind(world.b(9000)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_millis(200))).unwrap();
    let path = client.path(PEER);
    let (ours, theirs) = (Endpoint::from(world.a(7000)), Endpoint::from(world.b(9000)));
    let frame = udp_frame(path.source_mac, path.next_hop_mac, ours, theirs);
    let mut buffer = [0; 64];
    lane.send_raw(&frame);
    assert!(receiver.recv(&mut buffer).is_ok());
    assert_eq!(lost_redirects(&mut client), 0);
    // The far end takes no frames from XDP any more.
    world.pair.b.run(&["ethtool", "-K", "eth0", "gro", "off"]).unwrap();
    lane.send_raw(&frame);
    let seen = lost_redirects(&mut client) == 1;
    assert_eq!(seen, receiver.recv(&mut buffer).is_err(), "what is not counted has come");
    until("the guard goes over to tc", || {
        lane.send_raw(&frame);
        receiver.recv(&mut buffer).is_ok()
    });
    if seen {
        // It does not go back to a driver that has refused frames.
        world.pair.b.run(&["ethtool", "-K", "eth0", "gro", "on"]).unwrap();
        std::thread::sleep(Duration::from_millis(2500));
        world.pair.b.run(&["ethtool", "-K", "eth0", "gro", "off"]).unwrap();
        lane.send_raw(&frame);
        assert!(receiver.recv(&mut buffer).is_ok());
    }
    seen
}

#[test]
fn frames_that_a_driver_does_not_take_from_xdp_are_counted_and_the_next_go_by_tc() {
    if skipped() {
        return;
    }
    // The service queries the driver's features every second, and may do so between the change and
    // the frame.
    assert!((0..5).any(|_| refusal_is_seen()));
}
