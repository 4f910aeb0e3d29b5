//! Many connections, small pools, and the invariants across all of them.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::{LinkConfig, PairConfig, Rng, SimulatedPair};
use tickwire_stack::tcp::{Shutdown, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{InUse, Limits, ListenerId, Ready, StackError, TcpId};

/// One end of a connection, and how much of its data has been written and read.
struct Side {
    id: TcpId,
    written: u32,
    read: u32,
    /// Both ends have the same; it distinguishes the data of connections.
    salt: u8,
}

impl Side {
    fn new(pair: &mut SimulatedPair, host: usize, id: TcpId) -> Self {
        let (a, b) = pair.stack(host).tcp_endpoints(id).unwrap();
        Self { id, written: 0, read: 0, salt: (a.port ^ b.port) as u8 }
    }
}

/// The byte at this place of a connection's data.
fn byte(n: u32, salt: u8) -> u8 {
    (n.wrapping_mul(2_654_435_761) >> 24) as u8 ^ salt
}

/// Random lives of connections from host 0 to host 1.
struct Lives {
    pair: SimulatedPair,
    rng: Rng,
    seed: u64,
    listener: ListenerId,
    sides: [Vec<Side>; 2],
    /// The last client's port.
    port: u16,
}

impl Lives {
    /// Over a lossy cable.
    fn new(seed: u64) -> Self {
        let link = LinkConfig {
            loss: 20_000,
            reorder: 20_000,
            duplicate: 10_000,
            corrupt: 5_000,
            jitter: Span::from_micros(20),
            ..LinkConfig::default()
        };
        let limits = Limits { frames: 512, tcp: 64, udp: 8, ..Limits::DEFAULT };
        let config = PairConfig { limits, stack_invariants: true, sequence_invariants: true, ..PairConfig::default() }
            .with_seed(seed)
            .with_link(link);
        let mut pair = SimulatedPair::new(&config);
        let rng = Rng::new(seed ^ 0xabcd);
        let listener = listen(&mut pair, 1, 16);
        Self { pair, rng, seed, listener, sides: [Vec::new(), Vec::new()], port: 1000 }
    }

    /// Opens a connection now and then, if there are not too many.
    fn connect(&mut self) {
        if self.rng.chance(30_000) && self.sides[0].len() < 24 {
            self.port += 1;
            let pair = &mut self.pair;
            let (local, remote, now) = (end(pair, 0, 0, self.port), end(pair, 1, 0, PORT), pair.now());
            let options = options(pair, 0);
            if let Ok(id) = pair.stack(0).tcp_connect(&options, local, remote, now) {
                self.sides[0].push(Side::new(pair, 0, id));
            }
        }
    }

    fn accept(&mut self) {
        if let Ok(id) = self.pair.stack(1).tcp_accept(self.listener) {
            self.sides[1].push(Side::new(&mut self.pair, 1, id));
        }
    }

    /// One of a host's connections writes, reads or ends.
    fn act(&mut self, host: usize) {
        let (pair, rng, all) = (&mut self.pair, &mut self.rng, &mut self.sides[host]);
        if all.is_empty() {
            return;
        }
        let at = rng.below(all.len() as u64) as usize;
        let side = &mut all[at];
        let now = pair.now();
        match rng.below(100) {
            0..45 => {
                let len = rng.below(20_000) as u32;
                let data: Vec<u8> = (0..len).map(|n| byte(side.written + n, side.salt)).collect();
                if let Ok(n) = send(pair, host, side.id, &data) {
                    side.written += n as u32;
                }
            }
            45..95 => {
                if let Ok(bytes) = recv(pair, host, side.id, rng.below(40_000) as usize + 1) {
                    for b in bytes {
                        assert_eq!(b, byte(side.read, side.salt), "seed {}", self.seed);
                        side.read += 1;
                    }
                }
            }
            95 => {
                let _ = pair.stack(host).tcp_shutdown(side.id, now, Shutdown::Write);
            }
            96..99 => {
                close(pair, host, side.id);
                all.swap_remove(at);
            }
            _ => {
                pair.stack(host).tcp_abort(side.id, now).unwrap();
                all.swap_remove(at);
            }
        }
    }

    /// Everything ends: nothing is left.
    fn end(mut self) {
        let (seed, pair) = (self.seed, &mut self.pair);
        let now = pair.now();
        for (host, all) in self.sides.iter().enumerate() {
            for side in all {
                pair.stack(host).tcp_abort(side.id, now).unwrap();
            }
        }
        pair.stack(1).tcp_close_listener(self.listener, now).unwrap();
        pair.run_for(Span::from_secs(400));
        for host in 0..2 {
            assert_eq!(pair.frames_held(host), 0, "seed {seed}: frames of host {host}");
            assert_eq!(pair.stack(host).deadline(), None, "seed {seed}");
            assert_eq!(pair.stack(host).in_use(), InUse::default(), "seed {seed}");
        }
    }
}

/// A random life of many connections over a lossy cable, with random writes, reads, half-closes,
/// closes and aborts. The received bytes are those sent, in order, and at the end nothing is left.
#[test]
fn random_lives_leave_nothing_behind() {
    for seed in 0..20 {
        let mut lives = Lives::new(seed);
        for _ in 0..3_000 {
            lives.connect();
            lives.accept();
            lives.act(0);
            lives.act(1);
            let passes = Span::from_micros(lives.rng.below(300));
            lives.pair.run_for(passes);
        }
        lives.end();
    }
}

/// Thirty concurrent transfers through a lane with few frames: all complete.
#[test]
fn few_frames_are_shared_and_nothing_deadlocks() {
    let limits = Limits { frames: 256, tcp: 64, ..Limits::DEFAULT };
    let config = PairConfig { limits, ..PairConfig::default() };
    let mut pair = SimulatedPair::new(&config);
    let listener = listen(&mut pair, 1, 64);
    let mut flows = Vec::new();
    for n in 0..30 {
        let client = connect(&mut pair, usize::from(n) % 2, 2000 + n);
        let mut server = None;
        assert!(pair.run_until(Span::from_secs(10), |pair| {
            server = server.or_else(|| pair.stack(1).tcp_accept(listener).ok());
            server.is_some()
        }));
        flows.push(Flow::new((0, client), (1, server.unwrap()), 200_000));
        flows.push(Flow::new((1, server.unwrap()), (0, client), 200_000));
    }
    transfer(&mut pair, &mut flows, Span::from_secs(120));
    for flow in &flows {
        close(&mut pair, flow.from.0, flow.from.1);
    }
    let now = pair.now();
    pair.stack(1).tcp_close_listener(listener, now).unwrap();
    pair.run_for(Span::from_secs(70));
    assert_eq!((pair.frames_held(0), pair.frames_held(1)), (0, 0));
    assert_eq!([0, 1].map(|host| pair.stack(host).in_use()), [InUse::default(); 2]);
}

/// A program that never reads cannot take the lane's frames from other connections.
#[test]
fn unread_connections_do_not_starve_the_others() {
    let limits = Limits { frames: 1024, tcp: 64, ..Limits::DEFAULT };
    let mut pair = SimulatedPair::new(&PairConfig { limits, ..PairConfig::default() });
    let listener = listen(&mut pair, 1, 64);
    let mut pairs = Vec::new();
    for n in 0..20 {
        let client = connect(&mut pair, 0, 2000 + n);
        pair.run_for(Span::from_millis(1));
        pairs.push((client, pair.stack(1).tcp_accept(listener).unwrap()));
    }
    for &(client, _) in &pairs[..19] {
        while send(&mut pair, 0, client, &[1; 1000]).is_ok() {
            pair.run_for(Span::from_micros(20));
        }
    }
    pair.run_for(Span::from_millis(100));
    let (client, server) = pairs[19];
    transfer(&mut pair, &mut [Flow::new((0, client), (1, server), 300_000)], Span::from_secs(60));
}

/// `count` connections whose peers open no window, each with as much data queued as the stack
/// accepts.
fn slow_readers(wire: &mut Wire, listener: ListenerId, count: u16) -> Vec<TcpId> {
    readers(wire, listener, count, 0)
}

/// The same, after the peers have acknowledged none of `segments` segments sent to them.
fn readers(wire: &mut Wire, listener: ListenerId, count: u16, segments: usize) -> Vec<TcpId> {
    let readers = (0..count).map(|n| {
        wire.peer.port = 5000 + n;
        let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
        // Until no frame is left for it.
        let _ = (0..segments).all(|_| wire.send(id, &[1; 1000]).is_ok());
        wire.taken();
        wire.put(Seg::new(ACK, theirs, ours).window(0));
        while wire.send(id, &[1; 1000]).is_ok() {}
        id
    });
    let readers = readers.collect();
    wire.taken();
    readers
}

/// A connection beside many that hold all frames.
struct Honest {
    id: TcpId,
    ours: u32,
    theirs: u32,
}

impl Honest {
    const PORT: u16 = 4000;

    fn new(wire: &mut Wire, listener: ListenerId) -> Self {
        wire.peer.port = Self::PORT;
        let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
        Self { id, ours, theirs }
    }

    fn is_asked(&self, wire: &mut Wire) {
        wire.peer.port = Self::PORT;
        wire.put(Seg::new(ACK | PSH, self.theirs, self.ours).data(b"question"));
        assert_eq!(wire.recv(self.id).unwrap(), b"question");
    }

    /// The time after which it can answer. The others do `meanwhile`.
    #[track_caller]
    fn answers_after(&self, wire: &mut Wire, mut meanwhile: impl FnMut(&mut Wire)) -> Span {
        let begin = wire.now;
        loop {
            match wire.send(self.id, b"answer") {
                Err(StackError::WouldBlock) => {}
                done => break assert_eq!(done, Ok(6)),
            }
            wire.pass(Span::from_millis(500));
            meanwhile(wire);
            assert!(wire.now.since(begin) < Span::from_secs(70), "{} given up", wire.count("TcpExtTCPAbortOnMemory"));
        }
        let after = wire.now.since(begin);
        let sent = wire.taken_to(Self::PORT);
        assert!(sent.iter().any(|seg| seg.data == b"answer"), "{sent:?}");
        after
    }
}

fn pressed() -> Wire {
    Wire::on(&PairConfig { limits: Limits { frames: 2048, tcp: 512, ..Limits::DEFAULT }, ..PairConfig::default() })
}

#[test]
fn slow_readers_leave_room_for_the_others() {
    let mut wire = pressed();
    let listener = wire.listen(8);
    slow_readers(&mut wire, listener, 28);
    for port in 4000..4004 {
        wire.peer.port = port;
        let (id, _, _) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
        let taken = wire.send(id, &[1; 64_000]);
        assert!(taken.is_ok_and(|n| n >= 16_000), "room for {taken:?} bytes");
        wire.taken();
    }
}

/// RFC 6429 §4: a connection without progress may be aborted when memory runs out. One with
/// progress is not.
#[test]
fn slow_readers_are_given_up_when_frames_run_out() {
    let mut wire = pressed();
    let listener = wire.listen(8);
    let mut readers = slow_readers(&mut wire, listener, 200);
    let orphan = readers.remove(0);
    wire.close(orphan);
    wire.taken();
    wire.peer.port = 4000;
    let syn = Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]);
    let (id, _, theirs) = wire.accepted_with(listener, syn);
    let mut until = [Span::from_secs(9), Span::from_secs(45), Span::from_secs(20)].into_iter();
    let mut work = |wire: &mut Wire| {
        let end = wire.now + until.next().unwrap();
        let mut most = 0;
        while wire.now < end {
            most = wire.send(id, &[1; 64_000]).unwrap_or(0);
            wire.pass(Span::from_millis(50));
            let port = wire.peer.port;
            let sent = wire.taken_to(port);
            if let Some(last) = sent.iter().filter(|seg| !seg.data.is_empty()).map(Seg::end).max() {
                wire.put(Seg::new(ACK, theirs, last));
            }
        }
        (most, wire.count("TcpExtTCPAbortOnMemory"))
    };
    let (few, given_up) = work(&mut wire);
    assert_eq!(given_up, 0);
    let (_, given_up) = work(&mut wire);
    assert_eq!(given_up, 1, "the orphan is given up first");
    let (many, given_up) = work(&mut wire);
    assert!(given_up > 1 && many > few && many >= 16_000, "{given_up} given up; room for {few}, then {many} bytes");
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    let lost = readers.into_iter().find(|id| wire.state(*id) == Ok(TcpState::Closed)).unwrap();
    assert_eq!(wire.send(lost, b"x"), Err(StackError::TimedOut));
}

/// So many that no frame is left for a connection with an empty queue: some are aborted after
/// seconds, and until then nothing is lost.
#[test]
fn slow_readers_that_leave_no_frame_at_all_are_given_up_soon() {
    let mut wire = pressed();
    let listener = wire.listen(8);
    let honest = Honest::new(&mut wire, listener);
    slow_readers(&mut wire, listener, 400);
    honest.is_asked(&mut wire);
    let after = honest.answers_after(&mut wire, |_| {});
    assert!(
        (Span::from_secs(4)..Span::from_secs(6)).contains(&after),
        "none is given up for a moment without progress: {after:?}"
    );
    assert!((1..5).contains(&wire.count("TcpExtTCPAbortOnMemory")), "no more than needed");
}

/// A peer that never acknowledges the one segment sent, but is heard all the time, does not escape
/// for ever either. It has as long as a silent one.
#[test]
fn a_peer_that_acknowledges_nothing_is_given_up_after_a_minute_when_no_frame_is_left() {
    let mut wire = pressed();
    let listener = wire.listen(8);
    let honest = Honest::new(&mut wire, listener);
    readers(&mut wire, listener, 400, 1);
    honest.is_asked(&mut wire);
    let after = honest.answers_after(&mut wire, |wire| {
        // Each probed peer answers that it is alive, with a closed window.
        for (port, seg) in wire.taken_with_ports().into_iter().filter(|&(port, _)| port != Honest::PORT) {
            wire.peer.port = port;
            wire.put(Seg::new(ACK, seg.ack, seg.seq).window(0));
        }
    });
    assert!(
        (Span::from_secs(55)..Span::from_secs(65)).contains(&after),
        "the network may be away in one direction: {after:?}"
    );
}

/// The same where many connections hold all frames, and each holds few.
#[test]
fn a_connection_that_holds_little_is_given_up_after_a_minute_when_no_frame_is_left() {
    let mut wire = pressed();
    let listener = wire.listen(8);
    let honest = Honest::new(&mut wire, listener);
    for port in 5000..5500 {
        wire.peer.port = port;
        let (id, _, _) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
        let _ = wire.send(id, &[1; 9000]);
        wire.taken();
    }
    honest.is_asked(&mut wire);
    let after = honest.answers_after(&mut wire, |wire| drop(wire.taken()));
    assert!((Span::from_secs(55)..Span::from_secs(65)).contains(&after), "the network may be away: {after:?}");
}

/// Without acknowledgements the network may be down, in one direction or both. That ends no
/// connection within seconds, however few frames are left, and all continue when it is back.
#[test]
fn a_connection_unanswered_for_seconds_is_not_given_up_when_no_frame_is_left() {
    [false, true].into_iter().for_each(not_answered_for_seconds);
}

/// `heard`: the peers' data arrives all the time.
fn not_answered_for_seconds(heard: bool) {
    let mut wire = pressed();
    let listener = wire.listen(8);
    let options = [2, 4, 3, 232];
    let mut all: Vec<_> = (0..500_u16)
        .map(|n| {
            wire.peer.port = 5000 + n;
            let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&options));
            Written { id, ours, theirs, taken: 0, acked: 0 }
        })
        .collect();
    // An outage of 20 s; all programs continue to write.
    let end = wire.now + Span::from_secs(20);
    while wire.now < end {
        for (port, one) in (5000..).zip(&mut all).filter(|_| heard) {
            wire.peer.port = port;
            wire.put(Seg::new(ACK | PSH, one.theirs, one.ours).data(b"x"));
            one.theirs += wire.recv(one.id).map_or(0, |data| data.len() as u32);
        }
        for one in &mut all {
            while let Ok(more) = wire.send(one.id, &[1; 1000]) {
                one.taken += more as u32;
            }
        }
        wire.pass(Span::from_millis(50));
        wire.taken();
    }
    assert_eq!(wire.count("TcpExtTCPAbortOnMemory"), 0);
    // The network is back: each peer accepts data in order, until it has all of it.
    let end = wire.now + Span::from_secs(60);
    while all.iter().any(|one| one.acked != one.taken) {
        assert!(wire.now < end, "something does not arrive");
        wire.pass(Span::from_millis(20));
        for (port, seg) in wire.taken_with_ports() {
            let one = &mut all[usize::from(port - 5000)];
            if seg.seq.wrapping_sub(one.ours) <= one.acked {
                one.acked = one.acked.max(seg.end().wrapping_sub(one.ours));
            }
            wire.peer.port = port;
            wire.put(Seg::new(ACK, one.theirs, one.ours.wrapping_add(one.acked)));
        }
    }
    assert_eq!(wire.count("TcpExtTCPAbortOnMemory"), 0);
}

/// A connection, the amount of data queued, and the amount that the peer has acknowledged.
struct Written {
    id: TcpId,
    ours: u32,
    theirs: u32,
    taken: u32,
    acked: u32,
}

/// A connection that is closed meanwhile needs a frame for its FIN, and its peer may be slow to
/// answer. It is not aborted instead of those that hold the frames.
#[test]
fn a_connection_closed_beside_slow_readers_is_not_given_up_in_their_place() {
    let mut wire = pressed();
    let listener = wire.listen(8);
    let options = [2, 4, 3, 232];
    wire.peer.port = 4000;
    let (honest, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&options));
    let ports: Vec<u16> = (4001..4011).collect();
    let idle: Vec<_> = ports
        .iter()
        .map(|&port| {
            wire.peer.port = port;
            wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&options)).0
        })
        .collect();
    wire.pass(Span::from_secs(60));
    slow_readers(&mut wire, listener, 400);
    wire.peer.port = 4000;
    wire.put(Seg::new(ACK | PSH, theirs, ours).data(b"question"));
    assert_eq!(wire.recv(honest).unwrap(), b"question");
    wire.taken();
    idle.into_iter().for_each(|id| wire.close(id));
    let begin = wire.now;
    while wire.send(honest, b"answer") == Err(StackError::WouldBlock) {
        wire.pass(Span::from_millis(50));
        assert!(wire.now.since(begin) < Span::from_secs(7), "{} given up", wire.count("TcpExtTCPAbortOnMemory"));
    }
    assert!((1..5).contains(&wire.count("TcpExtTCPAbortOnMemory")), "no more than needed");
    let sent = wire.taken_to_any(&ports);
    assert!(sent.len() >= ports.len() && sent.iter().all(|seg| seg.has(FIN)), "{sent:?}");
}

/// Peers that read nothing and continue to send, so that both queues of each fill. A connection
/// that holds nothing still gets a frame for its answer, without waiting until the others have been
/// stuck for so long that they are aborted.
#[test]
fn a_connection_with_nothing_queued_may_answer_beside_many_whose_queues_are_full() {
    let mut wire = pressed();
    let listener = wire.listen(8);
    let options = [2, 4, 3, 232];
    let honest = Honest::new(&mut wire, listener);
    let mut others = Vec::new();
    for port in 5000..5080 {
        wire.peer.port = port;
        let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&options));
        wire.put(Seg::new(ACK, theirs, ours).window(0));
        while wire.send(id, &[1; 1000]).is_ok() {}
        others.push((port, ours, theirs));
    }
    for n in 0..20 {
        for &(port, ours, theirs) in &others {
            wire.peer.port = port;
            wire.put(Seg::new(ACK | PSH, theirs + n * 500, ours).window(0).data(&[2; 500]));
        }
        wire.pass(Span::from_millis(1));
        wire.taken();
    }
    honest.is_asked(&mut wire);
    assert_eq!(honest.answers_after(&mut wire, |_| {}), Span::ZERO);
    assert_eq!(wire.count("TcpExtTCPAbortOnMemory"), 0);
}

/// No frame for a connection with nothing in flight: it is not writable, and becomes so when there
/// is a frame again.
#[test]
fn a_connection_without_a_frame_is_told_when_there_is_one() {
    let limits = Limits { frames: 64, tcp: 64, ..Limits::DEFAULT };
    let mut pair = SimulatedPair::new(&PairConfig { limits, ..PairConfig::default() });
    let listener = listen(&mut pair, 1, 64);
    let clients: Vec<_> = (0..56).map(|n| connect(&mut pair, 0, 2000 + n)).collect();
    let mut servers = Vec::new();
    pair.run_until(Span::from_secs(10), |pair| {
        servers.extend(pair.stack(1).tcp_accept(listener));
        servers.len() == 56
    });
    pair.run_for(Span::from_millis(100));
    pair.link_mut(0).loss = 1_000_000;
    let refused: Vec<_> = clients.iter().copied().filter(|&c| send(&mut pair, 0, c, &[1; 1400]).is_err()).collect();
    assert!(!refused.is_empty() && refused.len() < 56);
    for &id in &refused {
        assert_eq!(pair.stack(0).readiness(id.into()), Ok(Ready::NONE));
    }
    pair.link_mut(0).loss = 0;
    let all = pair.run_until(Span::from_secs(10), |pair| {
        refused.iter().all(|&id| pair.stack(0).readiness(id.into()) == Ok(Ready::OUT))
    });
    assert!(all);
    for &id in &refused {
        send(&mut pair, 0, id, b"now").unwrap();
        pair.run_for(Span::from_millis(5));
    }
}

/// The same while the peer continues to send: received data does not delay the wakeup.
#[test]
fn a_connection_without_a_frame_is_told_of_one_though_data_keeps_coming() {
    let mut wire = pressed();
    let listener = wire.listen(8);
    let readers = slow_readers(&mut wire, listener, 400);
    wire.peer.port = 4000;
    let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    assert_eq!(wire.send(id, b"command"), Err(StackError::WouldBlock));
    assert_eq!(wire.stack().readiness(id.into()), Ok(Ready::NONE));
    let now = wire.now;
    for &reader in &readers[..130] {
        wire.stack().tcp_abort(reader, now).unwrap();
    }
    for n in 0..20 {
        wire.put(Seg::new(ACK | PSH, theirs + n, ours).data(b"x"));
        assert_eq!(wire.recv(id).unwrap(), b"x");
        wire.pass(Span::from_millis(1));
    }
    assert_eq!(wire.stack().readiness(id.into()), Ok(Ready::OUT));
}

/// Readiness as `poll` on Linux reports it, over the life of a connection.
#[test]
fn readiness_follows_the_life_of_a_connection() {
    let mut pair = SimulatedPair::seeded(1);
    let listener = listen(&mut pair, 1, 8);
    assert_eq!(pair.stack(1).readiness(listener.into()), Ok(Ready::NONE));
    let client = connect(&mut pair, 0, 4000);
    assert_eq!(pair.stack(0).readiness(client.into()), Ok(Ready::NONE));
    pair.run_for(Span::from_millis(1));
    assert_eq!(pair.stack(1).readiness(listener.into()), Ok(Ready::IN));
    assert_eq!(pair.stack(0).readiness(client.into()), Ok(Ready::OUT));
    let server = pair.stack(1).tcp_accept(listener).unwrap();
    assert_eq!(pair.stack(1).readiness(listener.into()), Ok(Ready::NONE));
    send(&mut pair, 0, client, b"x").unwrap();
    pair.run_for(Span::from_millis(1));
    assert_eq!(pair.stack(1).readiness(server.into()), Ok(Ready::IN | Ready::OUT));
    recv(&mut pair, 1, server, 10).unwrap();
    assert_eq!(pair.stack(1).readiness(server.into()), Ok(Ready::OUT));
    close(&mut pair, 0, client);
    assert_eq!(pair.stack(0).readiness(client.into()), Err(StackError::Stale));
    pair.run_for(Span::from_millis(1));
    assert_eq!(pair.stack(1).readiness(server.into()), Ok(Ready::IN | Ready::OUT | Ready::RDHUP));
    let now = pair.now();
    pair.stack(1).tcp_shutdown(server, now, Shutdown::Write).unwrap();
    pair.run_for(Span::from_millis(1));
    assert_eq!(pair.stack(1).readiness(server.into()), Ok(Ready::IN | Ready::OUT | Ready::RDHUP | Ready::HUP));
}
