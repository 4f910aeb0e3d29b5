//! A hand-made peer: it builds segments byte by byte and parses the stack's answers. It can send
//! what no well-behaved peer would.

use std::collections::VecDeque;
use tickwire_sim::{PairConfig, SimulatedPair};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::checksum;
use tickwire_stack::tcp::{RecvFlags, TcpState};
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{ListenerId, Stack, StackConfig, StackError, TcpId};

pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const PSH: u8 = 8;
pub(crate) const ACK: u8 = 16;
pub(crate) const URG: u8 = 32;
pub(crate) const ECE: u8 = 64;
pub(crate) const CWR: u8 = 128;
/// Codepoints of RFC 3168 §5.
pub(crate) const ECT0: u8 = 2;
pub(crate) const CE: u8 = 3;

/// A segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seg {
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) bits: u8,
    pub(crate) window: u16,
    pub(crate) urgent: u16,
    pub(crate) options: Vec<u8>,
    pub(crate) data: Vec<u8>,
    /// Traffic class of the packet.
    pub(crate) class: u8,
}

impl Seg {
    pub(crate) fn new(bits: u8, seq: u32, ack: u32) -> Self {
        Self { seq, ack, bits, window: 60_000, ..Self::default() }
    }

    pub(crate) fn data(mut self, bytes: &[u8]) -> Self {
        self.data = bytes.to_vec();
        self
    }

    pub(crate) fn class(mut self, class: u8) -> Self {
        self.class = class;
        self
    }

    pub(crate) fn window(mut self, window: u16) -> Self {
        self.window = window;
        self
    }

    pub(crate) fn options(mut self, options: &[u8]) -> Self {
        self.options = options.to_vec();
        self
    }

    pub(crate) fn timestamps(mut self, value: u32, echo: u32) -> Self {
        self.options.extend_from_slice(&[1, 1, 8, 10]);
        self.options.extend_from_slice(&value.to_be_bytes());
        self.options.extend_from_slice(&echo.to_be_bytes());
        self
    }

    pub(crate) fn sack(mut self, blocks: &[(u32, u32)]) -> Self {
        self.options.extend_from_slice(&[1, 1, 5, 2 + 8 * blocks.len() as u8]);
        for (start, end) in blocks {
            self.options.extend_from_slice(&start.to_be_bytes());
            self.options.extend_from_slice(&end.to_be_bytes());
        }
        self
    }

    pub(crate) fn has(&self, bits: u8) -> bool {
        self.bits & bits == bits
    }

    pub(crate) fn end(&self) -> u32 {
        self.seq.wrapping_add(self.data.len() as u32)
    }

    /// The payload of an option, if present.
    pub(crate) fn option(&self, kind: u8) -> Option<&[u8]> {
        let mut rest = &self.options[..];
        while let Some(&first) = rest.first() {
            match first {
                0 => return None,
                1 => rest = &rest[1..],
                _ => {
                    let len = usize::from(rest[1]);
                    if first == kind {
                        return Some(&rest[2..len]);
                    }
                    rest = &rest[len..];
                }
            }
        }
        None
    }

    /// The SACK blocks.
    pub(crate) fn blocks(&self) -> Vec<(u32, u32)> {
        let word = |b: &[u8]| u32::from_be_bytes(b.try_into().unwrap());
        self.option(5).map_or(Vec::new(), |b| b.chunks(8).map(|b| (word(&b[..4]), word(&b[4..]))).collect())
    }

    /// The timestamps: TSval and TSecr.
    pub(crate) fn times(&self) -> Option<(u32, u32)> {
        let word = |b: &[u8]| u32::from_be_bytes(b.try_into().unwrap());
        self.option(8).map(|b| (word(&b[..4]), word(&b[4..])))
    }

    pub(crate) fn packet(&self, from: Endpoint, to: Endpoint) -> Vec<u8> {
        let header = 20 + self.options.len().next_multiple_of(4);
        let mut tcp = vec![0; header];
        tcp[0..2].copy_from_slice(&from.port.to_be_bytes());
        tcp[2..4].copy_from_slice(&to.port.to_be_bytes());
        tcp[4..8].copy_from_slice(&self.seq.to_be_bytes());
        tcp[8..12].copy_from_slice(&self.ack.to_be_bytes());
        tcp[12] = (header as u8 / 4) << 4;
        tcp[13] = self.bits;
        tcp[14..16].copy_from_slice(&self.window.to_be_bytes());
        tcp[18..20].copy_from_slice(&self.urgent.to_be_bytes());
        tcp[20..20 + self.options.len()].copy_from_slice(&self.options);
        tcp.extend_from_slice(&self.data);
        let sum = checksum::transport(from.address, to.address, 6, &tcp);
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        ipv4_with(from, to, 6, self.class, &tcp)
    }

    fn parse(packet: &[u8]) -> (Self, u16) {
        let (ip, tcp) = packet[14..].split_at(20);
        assert_eq!((ip[0], ip[9]), (0x45, 6), "TCP in IPv4 without options");
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let tcp = &tcp[..total - 20];
        let header = usize::from(tcp[12] >> 4) * 4;
        let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
        let half = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
        let seg = Self {
            seq: word(4),
            ack: word(8),
            bits: tcp[13],
            window: half(14),
            urgent: half(18),
            options: tcp[20..header].to_vec(),
            data: tcp[header..].to_vec(),
            class: ip[1],
        };
        (seg, half(2))
    }
}

/// An Ethernet frame with an IPv4 packet.
pub(crate) fn ipv4(from: Endpoint, to: Endpoint, protocol: u8, payload: &[u8]) -> Vec<u8> {
    ipv4_with(from, to, protocol, 0, payload)
}

fn ipv4_with(from: Endpoint, to: Endpoint, protocol: u8, class: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 8, 0, 0x45, class];
    packet.extend_from_slice(&(20 + payload.len() as u16).to_be_bytes());
    packet.extend_from_slice(&[0, 0, 0x40, 0, 64, protocol, 0, 0]);
    packet.extend_from_slice(&from.address.to_v4().unwrap());
    packet.extend_from_slice(&to.address.to_v4().unwrap());
    let sum = checksum::plain(&packet[14..34]);
    packet[24..26].copy_from_slice(&sum.to_be_bytes());
    packet.extend_from_slice(payload);
    packet
}

/// A stack and the hand-made peer on its cable.
pub(crate) struct Wire {
    pair: SimulatedPair,
    pub(crate) now: Instant,
    /// The peer's end.
    pub(crate) peer: Endpoint,
    /// The stack's end.
    pub(crate) own: Endpoint,
    /// The Ethernet address to which the last packet went.
    pub(crate) last_to: [u8; 6],
    /// The time to live of the last packet.
    pub(crate) last_ttl: u8,
    /// Whether the last packet had DF clear.
    pub(crate) last_may_fragment: bool,
    out: VecDeque<(Instant, Seg, u16)>,
    collected: u32,
}

impl Wire {
    pub(crate) fn new() -> Self {
        Self::with(StackConfig::default())
    }

    pub(crate) fn with(config: StackConfig) -> Self {
        Self::on(&PairConfig { stack: config, ..PairConfig::default() })
    }

    pub(crate) fn on(config: &PairConfig) -> Self {
        let pair = SimulatedPair::new(config);
        let peer = Endpoint::new(pair.host(0).addresses[0], 4000);
        let own = Endpoint::new(pair.host(1).addresses[0], super::PORT);
        let now = pair.now();
        Self {
            pair,
            now,
            peer,
            own,
            last_to: [0; 6],
            last_ttl: 0,
            last_may_fragment: false,
            out: VecDeque::new(),
            collected: 0,
        }
    }

    pub(crate) fn stack(&mut self) -> Stack<'_> {
        self.pair.stack(1)
    }

    /// The peer sends a segment.
    pub(crate) fn put(&mut self, seg: Seg) {
        let packet = seg.packet(self.peer, self.own);
        self.put_bytes(&packet);
    }

    /// The peer sends segments of `each` bytes that the host's kernel merges into one packet.
    pub(crate) fn put_merged(&mut self, seg: Seg, each: u16) {
        let packet = seg.packet(self.peer, self.own);
        assert!(self.pair.host_mut(1).receive_merged(self.now, &packet, each));
        self.collect();
    }

    /// Delivers any bytes over the cable.
    pub(crate) fn put_bytes(&mut self, packet: &[u8]) {
        assert!(self.pair.host_mut(1).receive(self.now, packet));
        self.collect();
    }

    fn collect(&mut self) {
        for packet in self.pair.host_mut(1).transmit(self.now) {
            self.last_to.copy_from_slice(&packet[..6]);
            self.last_ttl = packet[22];
            self.last_may_fragment = packet[20] & 0x40 == 0;
            let (seg, port) = Seg::parse(&packet);
            self.out.push_back((self.now, seg, port));
        }
        // Checking the invariants at every call would take longer than the tests themselves.
        self.collected += 1;
        if self.collected <= 32 || self.collected.is_multiple_of(128) {
            self.pair.stack(1).check_invariants();
        }
        // The cable is fast: these frames have left the host by now.
        assert!(self.pair.host_mut(1).transmit(self.now).is_empty());
    }

    /// The segments that the stack has sent since the last call.
    pub(crate) fn taken(&mut self) -> Vec<Seg> {
        self.collect();
        self.out.drain(..).map(|(_, seg, _)| seg).collect()
    }

    /// The segments that the stack has sent to one port of the peer; all others are discarded.
    pub(crate) fn taken_to(&mut self, port: u16) -> Vec<Seg> {
        self.taken_to_any(&[port])
    }

    /// The segments that the stack has sent to these ports; all others are discarded.
    pub(crate) fn taken_to_any(&mut self, ports: &[u16]) -> Vec<Seg> {
        self.collect();
        self.out.drain(..).filter(|(_, _, to)| ports.contains(to)).map(|(_, seg, _)| seg).collect()
    }

    /// The segments that the stack has sent, with their destination ports.
    pub(crate) fn taken_with_ports(&mut self) -> Vec<(u16, Seg)> {
        self.collect();
        self.out.drain(..).map(|(_, seg, to)| (to, seg)).collect()
    }

    /// The segments that the stack has sent, with their times.
    pub(crate) fn taken_at(&mut self) -> Vec<(Instant, Seg)> {
        self.collect();
        self.out.drain(..).map(|(at, seg, _)| (at, seg)).collect()
    }

    /// The only segment that the stack has sent.
    #[track_caller]
    pub(crate) fn one(&mut self) -> Seg {
        let mut all = self.taken();
        assert_eq!(all.len(), 1, "one segment expected: {all:?}");
        all.remove(0)
    }

    #[track_caller]
    pub(crate) fn nothing(&mut self) {
        let all = self.taken();
        assert!(all.is_empty(), "nothing expected: {all:?}");
    }

    /// Advances the time; timers fire when they are due.
    pub(crate) fn pass(&mut self, span: Span) {
        let end = self.now + span;
        self.collect();
        while let Some(due) = self.stack().deadline().filter(|&due| due <= end) {
            self.now = self.now.max(due);
            let now = self.now;
            self.stack().on_time(now);
            self.collect();
        }
        self.now = end;
        self.collect();
    }

    pub(crate) fn send(&mut self, id: TcpId, bytes: &[u8]) -> Result<usize, StackError> {
        let now = self.now;
        self.stack().tcp_send(id, now, false, &mut &bytes[..])
    }

    pub(crate) fn recv(&mut self, id: TcpId) -> Result<Vec<u8>, StackError> {
        let (mut bytes, now) = (Vec::new(), self.now);
        self.stack().tcp_recv(id, now, RecvFlags::default(), &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn state(&mut self, id: TcpId) -> Result<TcpState, StackError> {
        self.stack().tcp_state(id)
    }

    pub(crate) fn close(&mut self, id: TcpId) {
        let now = self.now;
        self.stack().tcp_close(id, now).unwrap();
    }

    pub(crate) fn listen(&mut self, backlog: u32) -> ListenerId {
        let own = self.own;
        let options = self.stack().tcp_defaults();
        self.stack().tcp_listen(&options, own, backlog).unwrap()
    }

    /// The peer opens a connection with this SYN, and the stack accepts it. Returns the handle and
    /// the next sequence numbers of the stack and of the peer.
    pub(crate) fn accepted_with(&mut self, listener: ListenerId, syn: Seg) -> (TcpId, u32, u32) {
        let (theirs, times) = (syn.seq.wrapping_add(1), syn.times());
        self.put(syn);
        let answer = self.one();
        assert!(answer.has(SYN | ACK), "{answer:?}");
        assert_eq!(answer.ack, theirs);
        let ours = answer.seq.wrapping_add(1);
        let mut ack = Seg::new(ACK, theirs, ours);
        if let (Some((value, _)), Some((echo, _))) = (times, answer.times()) {
            ack = ack.timestamps(value, echo);
        }
        self.put(ack);
        self.nothing();
        let id = self.stack().tcp_accept(listener).unwrap();
        (id, ours, theirs)
    }

    /// Like [`Wire::accepted_with`], with MSS 1000 and SACK, and a listener of its own.
    pub(crate) fn accepted(&mut self) -> (TcpId, u32, u32) {
        let listener = self.listen(8);
        self.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232, 4, 2, 1, 1]))
    }

    pub(crate) fn count(&mut self, name: &str) -> u64 {
        let stack = self.stack();
        let mut counters = stack.counters().iter();
        counters.find(|(n, _)| *n == name).unwrap_or_else(|| panic!("a counter named {name}")).1
    }

    /// Frames that are neither free nor in the fill ring.
    pub(crate) fn held(&mut self) -> usize {
        self.collect();
        self.pair.frames_held(1)
    }
}
