//! The kernel's stamps on real packets, over loopback; the program's where the kernel has none, as
//! under Wine.

use std::net::UdpSocket;
use tickclock::{CounterKind, counter};
use tickwire_ntp::socket::NtpSocket;
use tickwire_ntp::{NtpPacket, Stamp};
use tickwire_stamping::Quality;

/// Requests until three are timestamped: many, because a busy machine takes its time.
const MOST: u64 = 100_000;

#[test]
fn both_stamps_are_of_one_kind_and_in_order() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let server = UdpSocket::bind(address).unwrap();
        let mut socket = NtpSocket::open(server.local_addr().unwrap(), CounterKind::MonotonicRaw, 1.0).unwrap();
        // The kernel starts to timestamp arrivals some time after the first socket has enabled it
        // (it patches its code in the background).
        let (mut stamped, mut imminent) = (0, 0);
        for number in 1..=MOST {
            let begin = counter::read(CounterKind::MonotonicRaw);
            socket.send(&NtpPacket::request(Stamp(number)).to_bytes()).unwrap();
            // The server's replies come within microseconds, or at least most of them do.
            imminent += u32::from(socket.is_imminent());
            let mut bytes = [0; 100];
            let (length, client) = server.recv_from(&mut bytes).unwrap();
            assert_eq!(NtpPacket::parse(&bytes[..length]).unwrap().0.transmit_timestamp, Stamp(number));
            server.send_to(b"garbage", client).unwrap();
            server.send_to(&bytes[..length], client).unwrap();
            let (mut all, mut garbage) = (Vec::new(), 0);
            while all.is_empty() {
                std::thread::yield_now();
                socket.receive(
                    |packet| packet.transmit_timestamp == Stamp(number),
                    |received| all.push(received),
                    |_| garbage += 1,
                );
            }
            assert!(!socket.is_imminent(), "{address}: it is there");
            let received = all.pop().unwrap().unwrap();
            let end = counter::read(CounterKind::MonotonicRaw);
            assert_eq!(garbage, 1, "{address}");
            if received.quality == Quality::Program && socket.has_kernel_stamps() {
                assert_eq!(stamped, 0, "{address}: and does not stop");
                continue;
            }
            assert!(begin < received.sent && received.sent < received.received && received.received < end, "{address}");
            stamped += 1;
            if stamped == 3 {
                break;
            }
        }
        assert_eq!(stamped, 3, "{address}");
        assert!(imminent == 0 || !socket.has_kernel_stamps(), "{address}: the kernel stamps, so nothing spins");
    }
}

#[test]
fn a_closed_port_is_silence_and_no_error_for_ever() {
    let server = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = server.local_addr().unwrap();
    drop(server);
    let mut socket = NtpSocket::open(address, CounterKind::MonotonicRaw, 1.0).unwrap();
    for _ in 0..3 {
        socket.send(&NtpPacket::request(Stamp(1)).to_bytes()).unwrap();
        socket.receive(|_| true, |received| panic!("{received:?}"), |_| panic!("garbage"));
    }
}
