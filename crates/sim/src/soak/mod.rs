//! The endurance test: lives of two hosts, drawn from a seed, under changing faults. Every step
//! checks both stacks ([`tickwire_stack::Stack::check_invariants`]), and sequence numbers over time
//! and between both ends (`invariants`). Data is read as it was written, in order; once the faults
//! end, all of it arrives. After everything is closed, nothing is left.
//!
//! | file | what it is about |
//! |---|---|
//! | `fault_injection` | the faults of the cable and the hosts, changed at random |
//! | `connection` | one connection: its two ends, and the data it transferred |
//! | `datagrams` | sockets for self-checking datagrams |
//!
//! A defect is a panic; the same seed reproduces it.

mod connection;
mod datagrams;
mod fault_injection;

use crate::{PairConfig, Rng, SimulatedPair};
use connection::Connection;
use datagrams::Datagrams;
use fault_injection::FaultInjection;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::tcp::{Algorithm, Ecn};
use tickwire_stack::time::Span;
use tickwire_stack::{InUse, Limits, ListenerId, StackConfig};

/// The port on which both hosts listen.
const PORT: u16 = 80;
/// Most connections at a time.
const MOST: usize = 24;
/// Time for all written data to arrive once the faults end. Retransmissions have backed off
/// meanwhile, to a minute.
const CLEARING: Span = Span::from_secs(600);
/// Time after which no closed connection is left: TIME-WAIT, FIN-WAIT-2, and orphans without a
/// responding peer.
const FORGETTING: Span = Span::from_secs(600);

/// Totals of a life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// Packets that were put on the cable.
    pub packets: u64,
    /// Of these: lost, for any reason.
    pub lost: u64,
    /// Connections opened.
    pub connections: u64,
    /// Bytes read from connections.
    pub bytes: u64,
    /// Datagrams read.
    pub datagrams: u64,
    /// Segments retransmitted.
    pub resent: u64,
}

impl Life {
    /// The sum of both.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            packets: self.packets + other.packets,
            lost: self.lost + other.lost,
            connections: self.connections + other.connections,
            bytes: self.bytes + other.bytes,
            datagrams: self.datagrams + other.datagrams,
            resent: self.resent + other.resent,
        }
    }
}

/// Runs the life of this seed, with this many actions.
///
/// # Panics
/// If an invariant does not hold.
#[must_use]
pub fn life(seed: u64, actions: u32) -> Life {
    let mut hosts = Hosts::new(seed);
    for _ in 0..actions {
        hosts.act();
    }
    hosts.clear_up();
    hosts.end()
}

struct Hosts {
    pair: SimulatedPair,
    rng: Rng,
    faults: FaultInjection,
    listeners: [ListenerId; 2],
    connections: Vec<Connection>,
    datagrams: Datagrams,
    port: u16,
    life: Life,
}

impl Hosts {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x50a4);
        let mut stack = StackConfig::default();
        stack.tcp.ecn = [Ecn::Off, Ecn::Accept, Ecn::Ask][rng.below(3) as usize];
        stack.tcp.algorithm = if rng.chance(250_000) { Algorithm::Reno } else { Algorithm::Cubic };
        stack.tcp.syn_queue = if rng.chance(250_000) { 0 } else { 256 };
        stack.tcp.window_shift = rng.below(9) as u8;
        let faults = FaultInjection::new(&mut rng);
        let limits = Limits {
            frames: 256 << rng.below(4),
            tcp: 64,
            listeners: 4,
            udp: 8,
            // Unused entries would only slow down the checks of every step.
            paths: 64,
            watch_sets: 4,
            ..Limits::DEFAULT
        };
        let config = PairConfig {
            seed,
            limits,
            stack,
            mtu: faults.told,
            stack_invariants: true,
            sequence_invariants: true,
            ..PairConfig::default()
        };
        let mut pair = SimulatedPair::new(&config);
        let listeners = [0, 1].map(|host| {
            let mut stack = pair.stack(host);
            let options = stack.tcp_defaults();
            stack.tcp_listen(&options, Endpoint::new(Address::ANY, PORT), 8).expect("a fresh stack listens")
        });
        let datagrams = Datagrams::new(&mut pair);
        Self { pair, rng, faults, listeners, connections: Vec::new(), datagrams, port: 1024, life: Life::default() }
    }

    /// Performs one random action, then advances the time.
    fn act(&mut self) {
        let Self { pair, rng, .. } = self;
        match rng.below(1000) {
            0..4 => self.faults.change(pair, rng),
            4..10 => self.faults.trouble(pair, rng),
            10..16 => self.faults.mend(pair),
            16..40 => self.connect(),
            40..80 => self.datagrams.send(pair, rng),
            80..90 => self.life.datagrams += self.datagrams.receive(pair),
            _ => self.use_one(),
        }
        self.accept();
        let pause = if self.rng.chance(5_000) { 2_000_000 } else { 300 };
        let pause = Span::from_micros(self.rng.below(pause));
        self.pair.run_for(pause);
    }

    fn connect(&mut self) {
        if self.connections.len() >= MOST {
            return;
        }
        let from = self.rng.below(2) as usize;
        let family = self.rng.below(2) as usize;
        self.port = if self.port == u16::MAX { 1024 } else { self.port + 1 };
        if let Some(connection) = Connection::open(&mut self.pair, from, family, self.port, PORT) {
            self.connections.push(connection);
            self.life.connections += 1;
        }
    }

    fn accept(&mut self) {
        for host in 0..2 {
            let listener = self.listeners[host];
            while let Ok(id) = self.pair.stack(host).tcp_accept(listener) {
                let (_, remote) = self.pair.stack(host).tcp_endpoints(id).expect("what was accepted has ends");
                let made = self.connections.iter_mut().rev().find(|c| c.is_from(1 - host, remote));
                match made {
                    Some(connection) => connection.accepted(id),
                    // The client has given up since.
                    None => {
                        let now = self.pair.now();
                        self.pair.stack(host).tcp_abort(id, now).expect("a good handle");
                    }
                }
            }
        }
    }

    /// One end of a random connection acts.
    fn use_one(&mut self) {
        if self.connections.is_empty() {
            return;
        }
        let at = self.rng.below(self.connections.len() as u64) as usize;
        let end = self.rng.below(2) as usize;
        self.life.bytes += self.connections[at].act(&mut self.pair, &mut self.rng, end);
        if self.connections[at].is_over() {
            self.connections.swap_remove(at);
        }
    }

    /// Ends all faults; all written data must arrive.
    fn clear_up(&mut self) {
        self.faults.clear(&mut self.pair);
        let limit = self.pair.now() + CLEARING;
        loop {
            self.accept();
            for connection in &mut self.connections {
                self.life.bytes += connection.drain(&mut self.pair);
            }
            if self.connections.iter().all(Connection::has_arrived) {
                return;
            }
            let now = self.pair.now();
            let late: Vec<_> = self.connections.iter().filter(|c| !c.has_arrived()).collect();
            assert!(now < limit, "what was written does not arrive: {late:?}");
            // Advance the time, so that the state can change.
            self.pair.run_for(Span::from_millis(10));
        }
    }

    /// Closes everything, and checks that nothing is left.
    fn end(mut self) -> Life {
        let now = self.pair.now();
        for connection in &mut self.connections {
            connection.close(&mut self.pair);
        }
        self.life.datagrams += self.datagrams.receive(&mut self.pair);
        self.datagrams.close(&mut self.pair);
        for (host, &listener) in self.listeners.iter().enumerate() {
            self.pair.stack(host).tcp_close_listener(listener, now).expect("a good handle");
        }
        self.pair.run_for(FORGETTING);
        for host in 0..2 {
            let deadline = self.pair.stack(host).deadline();
            assert_eq!(deadline, None, "host {host} waits for something yet");
            assert_eq!(self.pair.frames_held(host), 0, "frames of host {host}");
            let stats = self.pair.link_stats(host);
            self.life.packets += stats.sent;
            self.life.lost += stats.sent + stats.duplicated - stats.delivered;
            let stack = self.pair.stack(host);
            assert_eq!(stack.in_use(), InUse::default(), "slots of host {host}");
            self.life.resent += stack.counters().tcp_retrans_segs.get();
        }
        self.life
    }
}

#[cfg(test)]
mod tests {
    use super::{Life, life};

    /// A short version of `cargo xtask soak`.
    #[test]
    fn short_lives_leave_nothing_behind() {
        let lives = [0, 1, 2, 3, 4, 5, 6, 7].map(|seed| life(seed, 1_500));
        let all = lives.into_iter().fold(Life::default(), Life::and);
        assert!(all.connections > 100 && all.bytes > 1_000_000 && all.datagrams > 100 && all.resent > 100, "{all:?}");
        assert_eq!(lives[0], life(0, 1_500), "the same seed lives the same life");
    }
}
