//! A hostile network driven by input bytes: the body of the fuzz targets, which tests also run over
//! the committed corpus.
//!
//! For any input the stack must not panic, must stay within its memory, and must get every frame
//! back once the sockets are closed and time has passed.

mod near;
mod packet;

use crate::{Input, PairConfig, SimulatedPair};
use packet::{ethernet, ip, stamp};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::checksum::{Sum, plain};
use tickwire_stack::tcp::{Ecn, RecvFlags, Shutdown, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::udp::{SendTo, UdpOptions};
use tickwire_stack::{InUse, Limits, ListenerId, StackConfig, TcpId, UdpId};

const PORT: u16 = 80;
const UDP_PORT: u16 = 90;
/// In the first byte: the connection's SYN requests ECN (RFC 3168).
const MARKS: u8 = 0x40;
/// In the first byte: packets arrive in batches, up to `BATCH` in one poll, until another kind of
/// action happens.
const TOGETHER: u8 = 0x20;
/// Packets per batch with `TOGETHER`.
const BATCH: u32 = 8;
/// TSval in the attacker's own SYN.
const STAMP: u32 = 9;
/// The hostile peer's end of the connection.
const PEER_PORT: u16 = 4000;
/// The longest packet.
const LONGEST: usize = 3000;
/// Most actions in a run, which bounds the run time of an input.
const MOST_ACTIONS: usize = 256;

/// Feeds raw frames, each prefixed with its length in two bytes, to a host with open sockets.
pub fn frames(data: &[u8]) {
    let mut arena = Arena::new(0);
    let mut input = Input::new(data);
    for _ in 0..MOST_ACTIONS {
        if input.is_empty() {
            break;
        }
        let len = usize::from(input.u16()) % LONGEST;
        let packet = input.take(len).to_vec();
        arena.inject(&packet);
    }
    arena.finish();
}

/// Runs actions on a live connection: segments near its sequence numbers, with valid or invalid
/// options, raw frames, datagrams, fragments, ICMP errors about it, system calls, and time.
pub fn live(data: &[u8]) {
    let mut input = Input::new(data);
    let how = input.u8();
    let mut arena = Arena::with(usize::from(how & 1), how & MARKS != 0);
    arena.connect();
    arena.most = most_together(how);
    arena.act(&mut input);
    arena.finish();
}

/// The same actions on a connection that the attacker itself opens.
pub fn opening(data: &[u8]) {
    let mut input = Input::new(data);
    let how = input.u8();
    let mut arena = Arena::new(usize::from(how & 1));
    arena.half_open(how & 2 != 0, how & MARKS != 0);
    arena.most = most_together(how);
    arena.act(&mut input);
    arena.finish();
}

fn most_together(how: u8) -> u32 {
    if how & TOGETHER != 0 { BATCH } else { 1 }
}

/// Mostly near zero, sometimes any value.
fn offset(input: &mut Input<'_>) -> u32 {
    match input.u8() {
        0xff => u32::from(input.u16()) << 16 | u32::from(input.u16()),
        near => i32::from(near as i8) as u32,
    }
}

/// Host 1 is under attack; host 0 is its honest peer, whose traffic the attacker adds to.
struct Arena {
    pair: SimulatedPair,
    family: usize,
    listener: ListenerId,
    client: Option<TcpId>,
    server: Option<TcpId>,
    udp: UdpId,
    /// Another socket at the same port, while there is one.
    second: Option<UdpId>,
    /// The latest TSval of the peer and of the host under attack.
    stamps: [u32; 2],
    /// RCV.NXT and SND.NXT of a half-open connection.
    half_open: (u32, u32),
    /// Packets in the current poll, which has not ended.
    batch: u32,
    /// The most packets in one poll.
    most: u32,
}

impl Arena {
    fn new(family: usize) -> Self {
        Self::with(family, false)
    }

    fn with(family: usize, marks: bool) -> Self {
        let limits = Limits {
            frames: 256,
            tcp: 16,
            listeners: 4,
            udp: 4,
            reassemblies: 4,
            waiting: 16,
            watch_sets: 1,
            ..Limits::DEFAULT
        };
        let mut stack = StackConfig::default();
        stack.tcp.ecn = if marks { Ecn::Ask } else { stack.tcp.ecn };
        let mut pair =
            SimulatedPair::new(&PairConfig { limits, stack, stack_invariants: true, ..PairConfig::default() });
        let mut stack = pair.stack(1);
        let options = stack.tcp_defaults();
        let listener = stack.tcp_listen(&options, Endpoint::new(Address::ANY, PORT), 4).expect("a fresh stack listens");
        let udp = stack.udp_open(UdpOptions::default()).expect("a fresh stack has UDP sockets");
        stack.udp_bind(udp, Endpoint::new(Address::ANY, UDP_PORT)).expect("a fresh stack has free ports");
        Self {
            pair,
            family,
            listener,
            client: None,
            server: None,
            udp,
            second: None,
            stamps: [STAMP, 0],
            half_open: (0, 0),
            batch: 0,
            most: 1,
        }
    }

    fn address(&self, host: usize) -> Address {
        self.pair.host(host).addresses[self.family]
    }

    fn connect(&mut self) {
        let (local, remote) = (Endpoint::new(self.address(0), PEER_PORT), Endpoint::new(self.address(1), PORT));
        let now = self.pair.now();
        let mut stack = self.pair.stack(0);
        let options = stack.tcp_defaults();
        let client = stack.tcp_connect(&options, local, remote, now).expect("the path is known");
        self.client = Some(client);
        let open =
            self.pair.run_until(Span::from_secs(5), |p| p.stack(0).tcp_state(client) == Ok(TcpState::Established));
        assert!(open, "an honest connection opens");
        self.accept();
    }

    /// The attacker sends a SYN and reads the SYN-ACK; the honest host takes no part.
    fn half_open(&mut self, options: bool, marks: bool) {
        self.pair.link_mut(0).loss = 1_000_000;
        let options: &[u8] =
            if options { &[2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, STAMP as u8, 0, 0, 0, 0, 1, 3, 3, 7] } else { &[] };
        let mut tcp = Vec::new();
        tcp.extend_from_slice(&PEER_PORT.to_be_bytes());
        tcp.extend_from_slice(&PORT.to_be_bytes());
        tcp.extend_from_slice(&[0, 0, 3, 231, 0, 0, 0, 0]);
        let (offset, bits) = (((20 + options.len()) / 4) << 4, if marks { 0xc2 } else { 2 });
        tcp.extend_from_slice(&[offset as u8, bits, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend_from_slice(options);
        let sum = self.transport_sum(6, &tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        let now = self.pair.now();
        let packet = ethernet(&ip(self.address(0), self.address(1), 6, 0, &tcp));
        self.pair.host_mut(1).receive(now, &packet);
        let answers = self.pair.host_mut(1).transmit(now);
        self.stamps[1] = answers.first().and_then(|answer| stamp(answer)).unwrap_or(0);
        let start = 14 + if self.family == 0 { 20 } else { 40 };
        let number = answers.first().and_then(|a| a.get(start + 4..start + 8)).and_then(|n| n.try_into().ok());
        self.half_open = (1000, u32::from_be_bytes(number.expect("a SYN is answered")).wrapping_add(1));
    }

    /// Runs the actions that the bytes encode.
    fn act(&mut self, input: &mut Input<'_>) {
        for _ in 0..MOST_ACTIONS {
            if input.is_empty() {
                break;
            }
            // The first ten kinds stay as they were when the older inputs of the corpus were found.
            let kind = input.u8();
            let kind = if kind < 200 { kind % 10 } else { 10 + kind % 8 };
            if !matches!(kind, 0..=4 | 10..=14) {
                self.taken_in();
            }
            match kind {
                0 | 1 => self.segment(input),
                2 => {
                    let len = usize::from(input.u8());
                    let packet = input.take(len).to_vec();
                    self.inject(&packet);
                }
                3 => self.fragment(input),
                4 => self.icmp(input),
                5 => self.pair.run_for(Span::from_nanos(1 << (input.u8() % 36))),
                6 => self.write(usize::from(input.u16())),
                7 => self.read(usize::from(input.u16())),
                8 => self.peer_write(usize::from(input.u16())),
                9 => self.shut(input.u8()),
                10..=13 => self.near(input),
                14 => self.datagram(input),
                15 => self.member(input),
                16 => self.connect_udp(input.u8()),
                _ => self.cut(input.u8()),
            }
            self.pair.stack(1).check_invariants();
        }
    }

    fn accept(&mut self) {
        if self.server.is_none() {
            self.server = self.pair.stack(1).tcp_accept(self.listener).ok();
        }
    }

    fn inject(&mut self, packet: &[u8]) {
        let now = self.pair.now();
        if self.batch == 0 {
            self.pair.stack(1).batch_begin();
        }
        self.batch += 1;
        self.pair.host_mut(1).receive(now, packet);
        if self.batch == self.most {
            self.taken_in();
        }
    }

    /// Ends the poll, and sends what it triggered.
    fn taken_in(&mut self) {
        if self.batch > 0 {
            let now = self.pair.now();
            self.batch = 0;
            self.pair.stack(1).batch_end(now);
            self.pair.flush();
        }
    }

    fn inject_ip(&mut self, protocol: u8, payload: &[u8]) {
        let (source, destination) = (self.address(0), self.address(1));
        self.inject(&ethernet(&ip(source, destination, protocol, 0, payload)));
    }

    /// RCV.NXT and SND.NXT of the connection, from its socket row.
    fn numbers(&mut self) -> (u32, u32) {
        let Some(server) = self.server else { return self.half_open };
        let stack = self.pair.stack(1);
        stack.socket_row(server.into()).map_or((0, 0), |row| (row.rcv_nxt.get(), row.snd_nxt.get()))
    }

    fn segment(&mut self, input: &mut Input<'_>) {
        let (expected, next) = self.numbers();
        let flags = input.u8();
        let shape = input.u8();
        let seq = expected.wrapping_add(offset(input));
        let ack = next.wrapping_add(offset(input));
        let window = input.u16();
        let urgent = if flags & 0x20 == 0 { 0 } else { input.u16() };
        let mut options = input.take(usize::from(shape & 0x0f) * 4).to_vec();
        options.truncate(40);
        options.resize(options.len().next_multiple_of(4), 0);
        let payload_len = usize::from(shape >> 4) * 100;
        let port = if shape == 0 { PEER_PORT + 1 } else { PEER_PORT };
        let mut tcp = Vec::new();
        tcp.extend_from_slice(&port.to_be_bytes());
        tcp.extend_from_slice(&PORT.to_be_bytes());
        tcp.extend_from_slice(&seq.to_be_bytes());
        tcp.extend_from_slice(&ack.to_be_bytes());
        tcp.push((((20 + options.len()) / 4) << 4) as u8);
        tcp.push(flags);
        tcp.extend_from_slice(&window.to_be_bytes());
        tcp.extend_from_slice(&[0, 0]);
        tcp.extend_from_slice(&urgent.to_be_bytes());
        tcp.extend_from_slice(&options);
        tcp.resize(tcp.len() + payload_len, 0x55);
        let sum = self.transport_sum(6, &tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        self.inject_ip(6, &tcp);
    }

    fn transport_sum(&self, protocol: u8, bytes: &[u8]) -> u16 {
        Sum::ZERO.pseudo(self.address(0), self.address(1), protocol, bytes.len() as u32).bytes(bytes).checksum()
    }

    /// A fragment of a UDP datagram, with any identification, offset and length.
    fn fragment(&mut self, input: &mut Input<'_>) {
        let id = input.u8() % 8;
        let offset_more = input.u16();
        let len = usize::from(input.u8()) * 8;
        let mut piece = vec![0; len];
        if len >= 8 {
            piece[..2].copy_from_slice(&PEER_PORT.to_be_bytes());
            piece[2..4].copy_from_slice(&UDP_PORT.to_be_bytes());
            piece[4..6].copy_from_slice(&input.u16().to_be_bytes());
        }
        if self.family == 0 {
            // More fragments: bit 13; offset: 13 bits.
            let field = offset_more >> 3 | (offset_more & 1) << 13;
            let packet = ip(self.address(0), self.address(1), 17, u32::from(id) << 16 | u32::from(field), &piece);
            self.inject(&ethernet(&packet));
        } else {
            let mut payload = vec![17, 0];
            payload.extend_from_slice(&(offset_more & 0xfff9).to_be_bytes());
            payload.extend_from_slice(&u32::from(id).to_be_bytes());
            payload.extend_from_slice(&piece);
            self.inject_ip(44, &payload);
        }
    }

    /// An ICMP error that quotes a segment of the connection.
    fn icmp(&mut self, input: &mut Input<'_>) {
        let (_, next) = self.numbers();
        let (kind, code, word) = (input.u8() % 13, input.u8() % 16, u32::from(input.u16()));
        let mut quoted_tcp = Vec::new();
        quoted_tcp.extend_from_slice(&PORT.to_be_bytes());
        quoted_tcp.extend_from_slice(&PEER_PORT.to_be_bytes());
        quoted_tcp.extend_from_slice(&next.wrapping_add(offset(input)).to_be_bytes());
        quoted_tcp.resize(20, 0);
        let mut quoted = ip(self.address(1), self.address(0), 6, 0, &quoted_tcp);
        quoted.truncate(quoted.len() - usize::from(input.u8() % 24));
        let mut message = vec![kind, code, 0, 0];
        message.extend_from_slice(&word.to_be_bytes());
        message.extend_from_slice(&quoted);
        let v4 = self.family == 0;
        let sum = if v4 { plain(&message) } else { self.transport_sum(58, &message) };
        message[2..4].copy_from_slice(&sum.to_be_bytes());
        self.inject_ip(if v4 { 1 } else { 58 }, &message);
    }

    fn write(&mut self, len: usize) {
        self.accept();
        let now = self.pair.now();
        let bytes = vec![0xa5; len];
        if let Some(server) = self.server {
            // Any result is valid; the call must return.
            let _ = self.pair.stack(1).tcp_send(server, now, false, &mut &bytes[..]);
        }
        let to = SendTo { destination: Some(Endpoint::new(self.address(0), PEER_PORT)), ..SendTo::default() };
        let _ = self.pair.stack(1).udp_send(self.udp, now, &to, &mut &bytes[..]);
        self.pair.flush();
    }

    fn read(&mut self, len: usize) {
        self.accept();
        let now = self.pair.now();
        if let Some(server) = self.server {
            let mut buffer = vec![0; len];
            let read = self.pair.stack(1).tcp_recv(server, now, RecvFlags::default(), &mut &mut buffer[..]);
            assert!(read.is_ok_and(|n| n <= len) || read.is_err());
        }
        let _ = self.pair.stack(1).udp_recv(self.udp, false, &mut Vec::new());
        self.pair.flush();
    }

    fn peer_write(&mut self, len: usize) {
        let now = self.pair.now();
        if let Some(client) = self.client {
            let _ = self.pair.stack(0).tcp_send(client, now, false, &mut &vec![0x5a; len][..]);
            self.pair.run_for(Span::from_millis(1));
        }
    }

    fn shut(&mut self, how: u8) {
        let now = self.pair.now();
        let Some(server) = self.server else { return };
        let mut stack = self.pair.stack(1);
        match how % 4 {
            // Any result is valid, here and below: the connection may be gone already.
            0 => _ = stack.tcp_shutdown(server, now, Shutdown::Write),
            1 => _ = stack.tcp_shutdown(server, now, Shutdown::Read),
            2 => {
                _ = stack.tcp_close(server, now);
                self.server = None;
            }
            _ => {
                _ = stack.tcp_abort(server, now);
                self.server = None;
            }
        }
        self.pair.flush();
    }

    /// Closes everything, lets the longest timers expire, and checks that nothing is left.
    fn finish(mut self) {
        self.taken_in();
        let now = self.pair.now();
        for _ in 0..16 {
            self.accept();
            if let Some(server) = self.server.take() {
                let _ = self.pair.stack(1).tcp_abort(server, now);
            }
        }
        if let Some(second) = self.second.take() {
            let _ = self.pair.stack(1).udp_close(second);
        }
        let _ = self.pair.stack(1).tcp_close_listener(self.listener, now);
        let _ = self.pair.stack(1).udp_close(self.udp);
        if let Some(client) = self.client.take() {
            let _ = self.pair.stack(0).tcp_abort(client, now);
        }
        self.pair.run_for(Span::from_secs(3600));
        assert_eq!(self.pair.frames_held(1), 0, "every frame comes back");
        assert_eq!(self.pair.stack(1).in_use(), InUse::default(), "every slot comes back");
    }
}
