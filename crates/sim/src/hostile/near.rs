//! Input that passes the first checks: segments with plausible timestamps, SACK blocks and ECN
//! marks, datagrams, and the program's own changes of its group memberships.

use super::packet::{ethernet, ip, stamp, with_class};
use super::{Arena, PEER_PORT, PORT, UDP_PORT, offset};
use crate::Input;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::udp::{GroupFilter, UdpOptions};

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;
/// The most option bytes in a TCP header (RFC 9293 §3.1).
const OPTIONS: usize = 40;

impl Arena {
    /// The latest TSval of the peer and of the host under attack, as an on-path attacker sees them.
    fn stamps(&mut self) -> [u32; 2] {
        for host in 0..2 {
            self.stamps[host] = stamp(self.pair.last_sent(host)).unwrap_or(self.stamps[host]);
        }
        self.stamps
    }

    /// The oldest unacknowledged sequence number (SND.UNA).
    fn oldest(&mut self) -> u32 {
        let Some(server) = self.server else { return self.half_open.1 };
        self.pair.stack(1).socket_row(server.into()).map_or(0, |row| row.snd_una.get())
    }

    /// A segment that may pass PAWS, with SACK blocks among the data in flight, and ECN marks of
    /// routers.
    pub(super) fn near(&mut self, input: &mut Input<'_>) {
        let (expected, next) = self.numbers();
        let oldest = self.oldest();
        let what = input.u8();
        let unit = match (what & 0x40 != 0, self.family) {
            (false, _) => 1,
            (true, 0) => 1448,
            (true, _) => 1428,
        };
        // Mostly none of SYN, FIN and RST, and never more than one of them.
        let flags = match input.u8() ^ ACK {
            bits if bits & 7 == 7 => bits & !(FIN | SYN),
            bits if matches!(bits & 7, 5 | 6) => bits & !RST,
            bits => bits & !7,
        };
        let seq = expected.wrapping_add(offset(input));
        let ack = if what & 0x80 == 0 {
            next.wrapping_add(offset(input))
        } else {
            oldest.wrapping_add(u32::from(input.u8()) * unit)
        };
        let window = input.u16();
        let payload = usize::from(input.u8()) * 8;
        let mut options = Vec::new();
        if what & 1 != 0 {
            let [value, echo] = self.stamps();
            options.extend_from_slice(&[1, 1, 8, 10]);
            options.extend_from_slice(&value.wrapping_add(offset(input)).to_be_bytes());
            options.extend_from_slice(&echo.wrapping_add(offset(input)).to_be_bytes());
        }
        if what & 2 != 0 {
            let blocks = (usize::from(what >> 2 & 3) + 1).min((OPTIONS - options.len() - 4) / 8);
            options.extend_from_slice(&[1, 1, 5, 2 + 8 * blocks as u8]);
            for _ in 0..blocks {
                let start = oldest.wrapping_add((i32::from(input.u8() as i8) as u32).wrapping_mul(unit));
                let end = start.wrapping_add(u32::from(input.u8()) * unit);
                options.extend_from_slice(&start.to_be_bytes());
                options.extend_from_slice(&end.to_be_bytes());
            }
        }
        let mut tcp = [PEER_PORT.to_be_bytes(), PORT.to_be_bytes()].concat();
        tcp.extend_from_slice(&seq.to_be_bytes());
        tcp.extend_from_slice(&ack.to_be_bytes());
        tcp.extend_from_slice(&[(((20 + options.len()) / 4) << 4) as u8, flags]);
        tcp.extend_from_slice(&window.to_be_bytes());
        tcp.extend_from_slice(&[0; 4]);
        tcp.extend_from_slice(&options);
        tcp.resize(tcp.len() + payload, 0x55);
        let sum = self.transport_sum(6, &tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let packet = ip(self.address(0), self.address(1), 6, 0, &tcp);
        self.inject(&ethernet(&with_class(packet, what >> 4 & 3)));
    }

    fn group(&self, number: u8) -> Address {
        if self.family == 0 {
            return Address::v4([239, 1, 2, number]);
        }
        let mut group = [0; 16];
        (group[0], group[1], group[15]) = (0xff, 0x05, number);
        Address(group)
    }

    /// A datagram to the open port or the next one, to the host or to a group, with any length and
    /// checksum.
    pub(super) fn datagram(&mut self, input: &mut Input<'_>) {
        let what = input.u8();
        let destination = if what & 1 == 0 { self.address(1) } else { self.group(what >> 1 & 1) };
        let port = UDP_PORT + u16::from(what & 4 != 0);
        let len = usize::from(input.u16()) % super::LONGEST;
        let said = (8 + len as u16).wrapping_add(if what & 8 == 0 { 0 } else { input.u8().into() });
        let mut udp = [PEER_PORT.to_be_bytes(), port.to_be_bytes(), said.to_be_bytes(), [0; 2]].concat();
        udp.resize(8 + len, 0x77);
        if what & 0x10 == 0 {
            let sum = tickwire_stack::checksum::transport(self.address(0), destination, 17, &udp);
            udp[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        let packet = ip(self.address(0), destination, 17, 0, &udp);
        self.inject(&ethernet(&with_class(packet, what >> 6)));
    }

    /// The program changes a group or source filter, or opens or closes a second socket at the
    /// port.
    pub(super) fn member(&mut self, input: &mut Input<'_>) {
        let (how, what) = (input.u8(), input.u8());
        // The last one is not a group.
        let group = if what & 3 == 3 { self.address(0) } else { self.group(what & 1) };
        let source = (what & 4 != 0).then(|| self.address(usize::from(what >> 3 & 1)));
        let socket = self.second.filter(|_| what & 16 != 0).unwrap_or(self.udp);
        let mut stack = self.pair.stack(1);
        // Any result is valid; only its effects are checked.
        match how % 6 {
            0..=4 => {
                let (exclude, interface) = (how % 6 < 3, u32::from(what >> 5 & 1));
                _ = stack
                    .udp_set_filter(socket, &GroupFilter { group, interface, exclude, sources: source.as_slice() });
            }
            _ => match self.second.take() {
                Some(second) => stack.udp_close(second).expect("it is open"),
                None => {
                    self.second = stack.udp_open(UdpOptions::default()).ok();
                    if let Some(second) = self.second {
                        _ = stack.udp_bind(second, Endpoint::new(Address::ANY, UDP_PORT));
                    }
                }
            },
        }
    }

    /// The program connects its datagram socket, or disconnects it.
    pub(super) fn connect_udp(&mut self, how: u8) {
        let port = PEER_PORT + u16::from(how & 2);
        let remote = (how & 1 == 0).then(|| Endpoint::new(self.address(0), port));
        let now = self.pair.now();
        // Any result is valid.
        let _ = self.pair.stack(1).udp_connect(self.udp, now, remote, 0);
        self.pair.flush();
    }

    /// The attacker cuts or restores each direction of the cable. With the one to the host cut, the
    /// host hears only the attacker; with the other cut, the peer receives nothing.
    pub(super) fn cut(&mut self, how: u8) {
        for from in 0..2 {
            self.pair.link_mut(from).loss = if how & (1 << from) == 0 { 0 } else { 1_000_000 };
        }
    }
}
