//! The other end of the test lane's wire: a stack whose programs run inline.
//!
//! UDP port 7 echoes. Three messages are exceptions: `mute` is not answered, `refuse` is answered
//! by an ICMP error, and `dial PORT` makes the peer connect to that port of ours and say hello. TCP
//! port 7 echoes until the end of the stream and then closes; port 9 reads nothing. Packets to port
//! 13 are lost, and so are segments with data to port 15. Packets to ports 17 and 19 are lost until
//! [`AWAKE`] is set, and then 17 echoes. There are no other listeners.

use super::{HERE, THERE, service};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::checksum;
use tickwire_stack::path::Query;
use tickwire_stack::tcp::RecvFlags;
use tickwire_stack::time::Instant;
use tickwire_stack::udp::{SendTo, UdpOptions};
use tickwire_stack::{Limits, ListenerId, OwnedMemory, Stack, StackConfig, TcpId, UdpId};

/// Whether packets to ports 17 and 19 arrive.
pub(super) static AWAKE: [AtomicBool; 2] = [const { AtomicBool::new(false) }; 2];

struct Connection {
    id: TcpId,
    echo: VecDeque<u8>,
    silent: bool,
}

/// The peer.
pub(super) struct Peer {
    memory: OwnedMemory,
    udp: Option<UdpId>,
    listeners: Vec<(ListenerId, bool)>,
    connections: Vec<Connection>,
    dialled: u16,
    /// The endpoints that get a port-unreachable error.
    refused: Vec<Endpoint>,
}

/// Whether a frame (Ethernet, IPv4 without options, TCP) is to be dropped.
fn lost(frame: &[u8]) -> bool {
    let at = |i: usize| frame.get(i).map_or(0, |&byte| usize::from(byte));
    let (tcp, port) = (at(23) == 6, at(36) << 8 | at(37));
    let data = (at(16) << 8 | at(17)).saturating_sub(20 + (at(46) >> 4) * 4);
    let asleep = |n: usize| port == 17 + 2 * n && !AWAKE[n].load(Relaxed);
    tcp && (port == 13 || port == 15 && data > 0 || asleep(0) || asleep(1))
}

/// An ICMP error in its frame: port 7 is unreachable for the socket that sends from that endpoint.
fn unreachable(to: Endpoint) -> Vec<u8> {
    let packet = |protocol: u8, [from, to]: [Address; 2], payload: &[u8]| {
        let mut bytes = vec![0x45, 0, 0, 20 + payload.len() as u8, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        bytes.extend([from, to].iter().flat_map(|address| address.to_v4().unwrap()));
        let sum = checksum::plain(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        [&bytes[..], payload].concat()
    };
    let datagram = [&to.port.to_be_bytes()[..], &[0, 7, 0, 8, 0, 0]].concat();
    let mut error = vec![3, 3, 0, 0, 0, 0, 0, 0];
    error.extend(packet(17, [to.address, THERE], &datagram));
    let sum = checksum::plain(&error);
    error[2..4].copy_from_slice(&sum.to_be_bytes());
    [&[0; 12][..], &[8, 0], &packet(1, [THERE, to.address], &error)].concat()
}

/// Moves every packet that one stack wants to send into the other.
fn carry(from: &mut Stack<'_>, to: &mut Stack<'_>, now: Instant) -> u32 {
    let mut packets = Vec::new();
    from.egress(now, |packet| {
        packets.push(packet);
        true
    });
    let mut moved = 0;
    for packet in packets {
        let bytes = from.frame(packet.frame)[usize::from(packet.offset)..][..usize::from(packet.len)].to_vec();
        from.completed(packet.frame);
        if lost(&bytes) {
            continue;
        }
        moved += give(to, now, &bytes);
    }
    moved
}

/// Puts a packet into a stack. Returns how many went in.
fn give(to: &mut Stack<'_>, now: Instant, bytes: &[u8]) -> u32 {
    to.fill();
    to.receive_bytes(now, bytes);
    1
}

impl Peer {
    pub(super) fn new() -> Self {
        Self {
            memory: OwnedMemory::new(&Limits { frames: 4096, ..Limits::DEFAULT }),
            udp: None,
            listeners: Vec::new(),
            connections: Vec::new(),
            dialled: 40_000,
            refused: Vec::new(),
        }
    }

    fn begin(&mut self, now: Instant) {
        let mut stack = self.memory.stack();
        stack.init(&StackConfig { secret: [9; 4], ..StackConfig::default() });
        for query in [Query::to(HERE), Query::to(HERE).from(THERE)] {
            stack.path_set(service::path_to(query, THERE), now);
        }
        let udp = stack.udp_open(UdpOptions::default()).unwrap();
        stack.udp_bind(udp, Endpoint::new(THERE, 7)).unwrap();
        self.udp = Some(udp);
        for (port, silent) in [(7, false), (9, true), (15, true), (17, false)] {
            let options = stack.tcp_defaults();
            self.listeners.push((stack.tcp_listen(&options, Endpoint::new(THERE, port), 64).unwrap(), silent));
        }
    }

    /// Carries packets both ways until none are left, with the peer's programs running in between.
    /// Returns how many came back.
    pub(super) fn exchange(&mut self, stack: &mut Stack<'static>, now: Instant) -> u32 {
        if self.udp.is_none() {
            self.begin(now);
        }
        let mut back = 0;
        loop {
            let there = carry(stack, &mut self.memory.stack(), now);
            self.memory.stack().on_time(now);
            self.serve(now);
            let errors: u32 = self.refused.drain(..).map(|to| give(stack, now, &unreachable(to))).sum();
            let here = errors + carry(&mut self.memory.stack(), stack, now);
            back += here;
            if there + here == 0 {
                return back;
            }
        }
    }

    fn serve(&mut self, now: Instant) {
        let mut stack = self.memory.stack();
        let udp = self.udp.unwrap();
        loop {
            let mut data = Vec::new();
            let Ok(datagram) = stack.udp_recv(udp, false, &mut data) else { break };
            if data == b"mute" {
                continue;
            }
            if data == b"refuse" {
                self.refused.push(datagram.source);
                continue;
            }
            if let Some(port) =
                std::str::from_utf8(&data).ok().and_then(|text| text.strip_prefix("dial ")?.parse().ok())
            {
                self.dialled += 1;
                let (local, remote) = (Endpoint::new(THERE, self.dialled), Endpoint::new(HERE, port));
                let options = stack.tcp_defaults();
                let id = stack.tcp_connect(&options, local, remote, now).unwrap();
                self.connections.push(Connection { id, echo: b"hello".iter().copied().collect(), silent: false });
                continue;
            }
            let to = SendTo { destination: Some(datagram.source), ..SendTo::default() };
            let _ = stack.udp_send(udp, now, &to, &mut data.as_slice());
        }
        for &(listener, silent) in &self.listeners {
            while let Ok(id) = stack.tcp_accept(listener) {
                self.connections.push(Connection { id, echo: VecDeque::new(), silent });
            }
        }
        self.connections.retain_mut(|connection| {
            let alive = connection.silent || connection.turn(&mut stack, now);
            if !alive {
                let _ = stack.tcp_close(connection.id, now);
            }
            alive
        });
    }
}

impl Connection {
    /// Reads and echoes; false at the end.
    fn turn(&mut self, stack: &mut Stack<'_>, now: Instant) -> bool {
        let mut ended = false;
        loop {
            let mut data = Vec::new();
            match stack.tcp_recv(self.id, now, RecvFlags::default(), &mut data) {
                Ok(0) => {
                    ended = true;
                    break;
                }
                Ok(_) => self.echo.extend(data),
                Err(tickwire_stack::StackError::WouldBlock) => break,
                Err(_) => return false,
            }
        }
        while !self.echo.is_empty() {
            let data: Vec<u8> = self.echo.iter().copied().collect();
            match stack.tcp_send(self.id, now, false, &mut data.as_slice()) {
                Ok(n) => drop(self.echo.drain(..n)),
                Err(tickwire_stack::StackError::WouldBlock) => return true,
                Err(_) => return false,
            }
        }
        !ended
    }
}
