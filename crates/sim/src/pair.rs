//! Two hosts on a cable, in virtual time.

use crate::host::SimulatedHost;
use crate::invariants::Invariants;
use crate::link::{LinkConfig, LinkStats, SimulatedLink};
use crate::rng::Rng;
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{Limits, Stack, StackConfig};

/// Configuration of a pair.
#[derive(Clone, Debug)]
pub struct PairConfig {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Sizes of both stacks.
    pub limits: Limits,
    /// Configuration of both stacks; their secrets are drawn from the seed.
    pub stack: StackConfig,
    /// The cable from host 0 to host 1 and back.
    pub links: [LinkConfig; 2],
    /// The interface MTU of each host.
    pub mtu: u32,
    /// Each host knows the path to the other from the start. If false, the next step answers a path
    /// request.
    pub paths: bool,
    /// Checks both stacks at every step ([`Stack::check_invariants`]), which takes time in
    /// proportion to their frames and sockets.
    pub stack_invariants: bool,
    /// Checks the sequence numbers of connections from step to step, and against those of the other
    /// host (`invariants`). Only valid if no third party injects packets.
    pub sequence_invariants: bool,
}

impl Default for PairConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            limits: Limits { frames: 4096, tcp: 256, udp: 256, ..Limits::DEFAULT },
            stack: StackConfig::default(),
            links: [LinkConfig::default(); 2],
            mtu: 1500,
            paths: true,
            stack_invariants: false,
            sequence_invariants: false,
        }
    }
}

impl PairConfig {
    /// Applies the same conditions to both directions of the cable.
    #[must_use]
    pub fn with_link(mut self, link: LinkConfig) -> Self {
        self.links = [link; 2];
        self
    }

    /// Uses another seed.
    #[must_use]
    pub fn with_seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }
}

/// Two hosts on a cable.
#[derive(Debug)]
pub struct SimulatedPair {
    hosts: [SimulatedHost; 2],
    links: [SimulatedLink; 2],
    rng: Rng,
    now: Instant,
    mtu: u32,
    stack_invariants: bool,
    sequence_invariants: Option<Invariants>,
    trace: u64,
    /// The last frame that each host sent.
    last: [Vec<u8>; 2],
}

impl SimulatedPair {
    /// Makes a pair. Time starts at one second.
    #[must_use]
    pub fn new(config: &PairConfig) -> Self {
        let mut rng = Rng::new(config.seed);
        let now = Instant::from_nanos(1_000_000_000);
        let mut host = |number| {
            let secret = core::array::from_fn(|_| rng.next_u64());
            SimulatedHost::new(number, &config.limits, &StackConfig { secret, ..config.stack })
        };
        let hosts = [host(0), host(1)];
        let links = config.links.map(SimulatedLink::new);
        let mut pair = Self {
            hosts,
            links,
            rng,
            now,
            mtu: config.mtu,
            stack_invariants: config.stack_invariants,
            sequence_invariants: config.sequence_invariants.then(Invariants::default),
            trace: 0xcbf2_9ce4_8422_2325,
            last: [const { Vec::new() }; 2],
        };
        if config.paths {
            pair.resolve(0);
            pair.resolve(1);
        }
        pair
    }

    /// A pair with the default conditions and this seed.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self::new(&PairConfig::default().with_seed(seed))
    }

    /// The current time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The stack of a host.
    pub fn stack(&mut self, host: usize) -> Stack<'_> {
        self.hosts[host].stack()
    }

    /// A host.
    #[must_use]
    pub fn host(&self, host: usize) -> &SimulatedHost {
        &self.hosts[host]
    }

    /// A host, mutably.
    pub fn host_mut(&mut self, host: usize) -> &mut SimulatedHost {
        &mut self.hosts[host]
    }

    /// The conditions of the direction from a host; changes apply to packets sent from then on.
    pub fn link_mut(&mut self, from: usize) -> &mut LinkConfig {
        &mut self.links[from].config
    }

    /// Statistics of the direction from a host.
    #[must_use]
    pub fn link_stats(&self, from: usize) -> LinkStats {
        self.links[from].stats
    }

    /// The last frame that a host sent, as an on-path observer sees it; empty before the first.
    #[must_use]
    pub fn last_sent(&self, from: usize) -> &[u8] {
        &self.last[from]
    }

    /// Sets a host's paths to both addresses of the other as ready.
    pub fn resolve(&mut self, host: usize) {
        self.tell(host, PathState::Ready);
    }

    /// Changes the interface MTU of both hosts.
    pub fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu;
        for host in 0..2 {
            self.hosts[host].stack().assume_mtu(mtu);
            self.resolve(host);
        }
    }

    /// Sets the state of a host's paths to the other.
    pub fn tell(&mut self, host: usize, state: PathState) {
        let peer = &self.hosts[1 - host];
        let (addresses, mac) = (peer.addresses, peer.mac);
        for (address, own) in addresses.into_iter().zip(self.hosts[host].addresses) {
            for query in [Query::to(address), Query::to(address).from(own)] {
                let info = PathInfo { state, ..self.hosts[host].path_to(query, mac, self.mtu) };
                self.hosts[host].stack().path_set(info, self.now);
            }
        }
    }

    /// A hash over all packets sent and received with their times: equal for equal seeds.
    #[must_use]
    pub fn trace(&self) -> u64 {
        self.trace
    }

    /// Moves packets from the stacks to the links at the current time. Returns whether there were
    /// any.
    pub fn flush(&mut self) -> bool {
        let mut any = false;
        for from in 0..2 {
            while let Some(query) = self.hosts[from].stack().take_request() {
                let peer = &self.hosts[1 - from];
                if peer.addresses.contains(&query.destination) {
                    let info = self.hosts[from].path_to(query, peer.mac, self.mtu);
                    self.hosts[from].stack().path_set(info, self.now);
                }
            }
            for packet in self.hosts[from].transmit(self.now) {
                any = true;
                self.note_packet(from, &packet);
                self.last[from].clone_from(&packet);
                self.links[from].send(self.now, &mut self.rng, packet);
            }
        }
        any
    }

    fn note_packet(&mut self, place: usize, packet: &[u8]) {
        self.note(place as u64);
        self.note(self.now.as_nanos());
        packet.chunks(8).for_each(|c| self.note(c.iter().fold(0, |w, &b| w << 8 | u64::from(b))));
    }

    fn note(&mut self, word: u64) {
        self.trace = (self.trace ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(23);
    }

    /// Time of the next event.
    fn next_event(&mut self) -> Option<Instant> {
        let deadlines = self.hosts.each_mut().map(|h| h.stack().deadline());
        let arrivals = self.links.each_ref().map(SimulatedLink::next_arrival);
        deadlines.into_iter().chain(arrivals).flatten().min()
    }

    /// Advances to the next event, but not beyond `limit`, and processes it. Returns whether there
    /// was one.
    pub fn step(&mut self, limit: Instant) -> bool {
        self.flush();
        let Some(at) = self.next_event().filter(|&at| at <= limit) else {
            self.now = self.now.max(limit);
            // Completes the frames of the last transmission.
            self.flush();
            return false;
        };
        self.now = self.now.max(at);
        for to in 0..2 {
            let arrived: Vec<_> = core::iter::from_fn(|| self.links[1 - to].arrive(self.now)).collect();
            arrived.iter().for_each(|packet| self.note_packet(2 + to, packet));
            self.hosts[to].receive_together(self.now, &arrived);
            if self.hosts[to].stack().deadline().is_some_and(|at| at <= self.now) {
                self.hosts[to].stack().on_time(self.now);
            }
        }
        self.flush();
        if self.stack_invariants {
            self.hosts.iter_mut().for_each(|host| host.stack().check_invariants());
        }
        if let Some(invariants) = &mut self.sequence_invariants {
            let [one, other] = self.hosts.each_mut().map(SimulatedHost::stack);
            invariants.look([&one, &other]);
        }
        true
    }

    /// Advances the time.
    pub fn run_for(&mut self, span: Span) {
        let limit = self.now + span;
        while self.step(limit) {}
    }

    /// Advances the time until `done` returns true, by at most `span`. Returns whether it did.
    pub fn run_until(&mut self, span: Span, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let limit = self.now + span;
        loop {
            if done(self) {
                return true;
            }
            if !self.step(limit) {
                return done(self);
            }
        }
    }

    /// Frames of a host that are neither free nor reserved for receiving: those held by sockets,
    /// queues or the transmit ring.
    pub fn frames_held(&mut self, host: usize) -> usize {
        let stack = self.hosts[host].stack();
        stack.frames_in_use() - stack.filled()
    }
}
