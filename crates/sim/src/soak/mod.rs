//! The endurance test: lives of two hosts, drawn from a seed, in any weather. At every step both
//! stacks are looked through for what must always hold ([`tickwire_stack::Stack::audit`]), and the
//! numbers of connections from step to step and from end to end (`laws`); whatever is read is what
//! was written, in order; when the weather has cleared up all that was written arrives; and when
//! all is closed nothing is left.
//!
//! | file | what it is about |
//! |---|---|
//! | `weather` | what the cable does, changed every now and then |
//! | `connection` | one connection: its two ends, and what went through |
//! | `datagrams` | sockets for datagrams that look after themselves |
//!
//! A defect is a panic that names the seed: the same seed does the same again.

mod connection;
mod datagrams;
mod weather;

use crate::{Pair, PairConfig, Rng};
use connection::Connection;
use datagrams::Datagrams;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::tcp::{Algorithm, Ecn};
use tickwire_stack::time::Span;
use tickwire_stack::{Config, InUse, Limits, ListenerId};
use weather::Weather;

/// Where both hosts listen.
const PORT: u16 = 80;
/// Connections at one time.
const MOST: usize = 24;
/// How long everything that was written may take to arrive in good weather. Retransmissions back
/// off meanwhile, to a minute.
const CLEARING: Span = Span::from_secs(600);
/// After so long nothing is left of what was closed: TIME-WAIT, FIN-WAIT-2, orphans that nobody
/// answers.
const FORGETTING: Span = Span::from_secs(600);

/// What a life was made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Life {
    /// Packets that were put on the cable.
    pub packets: u64,
    /// Of these: lost, by whatever cause.
    pub lost: u64,
    /// Connections that were begun.
    pub connections: u64,
    /// Bytes that were read from connections.
    pub bytes: u64,
    /// Datagrams that were read.
    pub datagrams: u64,
    /// Segments that were sent again.
    pub resent: u64,
}

impl Life {
    /// Both together.
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

/// Lives the life of this seed, of so many actions of its programs.
///
/// # Panics
/// If anything that must hold does not.
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
    pair: Pair,
    rng: Rng,
    weather: Weather,
    listeners: [ListenerId; 2],
    connections: Vec<Connection>,
    datagrams: Datagrams,
    port: u16,
    life: Life,
}

impl Hosts {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed ^ 0x50a4);
        let mut stack = Config::default();
        stack.tcp.ecn = [Ecn::Off, Ecn::Accept, Ecn::Ask][rng.below(3) as usize];
        stack.tcp.algorithm = if rng.chance(250_000) { Algorithm::Reno } else { Algorithm::Cubic };
        stack.tcp.syn_queue = if rng.chance(250_000) { 0 } else { 256 };
        stack.tcp.window_shift = rng.below(9) as u8;
        let weather = Weather::new(&mut rng);
        let limits = Limits {
            frames: 256 << rng.below(4),
            tcp: 64,
            listeners: 4,
            udp: 8,
            // What is not used would only be looked through at every step.
            paths: 64,
            watch_sets: 4,
            ..Limits::DEFAULT
        };
        let config =
            PairConfig { seed, limits, stack, mtu: weather.told, audit: true, laws: true, ..PairConfig::default() };
        let mut pair = Pair::new(&config);
        let listeners = [0, 1].map(|host| {
            let mut stack = pair.stack(host);
            let options = stack.tcp_defaults();
            stack.tcp_listen(&options, Endpoint::new(Address::ANY, PORT), 8).expect("a fresh stack listens")
        });
        let datagrams = Datagrams::new(&mut pair);
        Self { pair, rng, weather, listeners, connections: Vec::new(), datagrams, port: 1024, life: Life::default() }
    }

    /// One thing happens, and some time passes.
    fn act(&mut self) {
        let Self { pair, rng, .. } = self;
        match rng.below(1000) {
            0..4 => self.weather.change(pair, rng),
            4..10 => self.weather.trouble(pair, rng),
            10..16 => self.weather.mend(pair),
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
                    // Who began it has given up since.
                    None => {
                        let now = self.pair.now();
                        self.pair.stack(host).tcp_abort(id, now).expect("a good handle");
                    }
                }
            }
        }
    }

    /// One end of one connection does something.
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

    /// The weather becomes good: what was written arrives.
    fn clear_up(&mut self) {
        self.weather.clear(&mut self.pair);
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
            // At least some time, or nothing could change.
            self.pair.run_for(Span::from_millis(10));
        }
    }

    /// Everything is closed, and then nothing is left.
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

    /// A taste of `cargo xtask soak`.
    #[test]
    fn short_lives_leave_nothing_behind() {
        let lives = [0, 1, 2, 3, 4, 5, 6, 7].map(|seed| life(seed, 1_500));
        let all = lives.into_iter().fold(Life::default(), Life::and);
        assert!(all.connections > 100 && all.bytes > 1_000_000 && all.datagrams > 100 && all.resent > 100, "{all:?}");
        assert_eq!(lives[0], life(0, 1_500), "the same seed lives the same life");
    }
}
