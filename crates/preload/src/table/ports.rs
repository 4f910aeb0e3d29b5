//! Ephemeral ports that the service has bound for the lane and from which nothing is connected.
//! They are stored in the caller's words of the region, so all processes of the lane share them.
//! They are accessed only under the lane's lock.
//!
//! A port whose connection has ended comes back here and *rests*: the peer may still be in
//! TIME-WAIT for that connection. It is taken again when it has rested for [`REST`], or when so
//! many rest that the longest-rested one has to do.

use tickwire_lane::control::{Claim, EphemeralPort, EphemeralPorts};
use tickwire_stack::addr::Address;
use tickwire_stack::time::{Instant, Span};

/// From this many resting ports on, one that has not rested for [`REST`] is taken: the program
/// opens more connections than ports could rest for.
const ENOUGH_RESTING: usize = 1024;
/// While fewer rest, ended connections are searched for ports to put back, before further ports are
/// requested.
const SPARE_RESTING: usize = ENOUGH_RESTING * 5 / 4;
/// The maximum number of resting ports.
const MOST_RESTING: usize = ENOUGH_RESTING * 3 / 2;
/// The maximum number of ports that a lane holds unused: it reaches this only while it opens
/// thousands of connections a second.
const MOST: usize = MOST_RESTING + 8 * EphemeralPorts::MAX;
/// How long a port rests: the TIME-WAIT of Linux.
const REST: Span = Span::from_secs(60);
/// A port that has rested for this long is returned to the service.
const SURPLUS: Span = Span::from_secs(120);
/// Words of one port: its claim, its address in two, its number with the time since when it rests.
const PORT: usize = 4;
/// Words before the first port, see below.
const SINGLES: usize = 6;
/// Words in all.
pub(crate) const WORDS: usize = SINGLES + MOST * PORT;

/// The namespace in which they are bound, 0 if there never was one.
const NAMESPACE: usize = 0;
/// How many ports were last wanted from the service, which gives only a part of them at a time.
const ASKED: usize = 1;
/// Until when an answer to that is awaited, in nanoseconds; 0 if none is.
const AWAITED: usize = 2;
/// The position of the port that is taken first; the others follow it in the ring.
const HEAD: usize = 3;
/// How many there are.
const COUNT: usize = 4;
/// How many of them rest.
const RESTING: usize = 5;

/// The service is asked again after this time without an answer: the requesting process may be
/// gone.
const TIMEOUT: Span = Span::from_secs(1);

/// A request for ports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// How many ports.
    pub(crate) count: u32,
    /// No more than the caller needs itself: other requests do not wait for this answer.
    pub(crate) only: bool,
}

/// A port in its words.
#[derive(Clone, Copy)]
struct Entry {
    source: Address,
    port: EphemeralPort,
    /// Since when it rests, in milliseconds; 0 if no connection ever used it.
    rests_since: u64,
}

impl Entry {
    fn of_words(words: &[u64]) -> Self {
        let source = Address((u128::from(words[1]) << 64 | u128::from(words[2])).to_be_bytes());
        let port = EphemeralPort { claim: Claim(words[0]), port: words[3] as u16 };
        Self { source, port, rests_since: words[3] >> 16 }
    }

    fn to_words(self) -> [u64; PORT] {
        let address = u128::from_be_bytes(self.source.0);
        let last = u64::from(self.port.port) | self.rests_since << 16;
        [self.port.claim.0, (address >> 64) as u64, address as u64, last]
    }

    fn rests(&self) -> bool {
        self.rests_since != 0
    }

    /// Whether it has rested for this time, or never had to.
    fn has_rested(&self, time: Span, now: Instant) -> bool {
        !self.rests() || milliseconds(now).saturating_sub(self.rests_since) >= time.as_nanos() / 1_000_000
    }
}

fn milliseconds(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000
}

/// The ports in their words.
pub(crate) struct Ports<'a> {
    words: &'a mut [u64],
}

impl<'a> Ports<'a> {
    /// The ports in these [`WORDS`] words.
    pub(crate) fn new(words: &'a mut [u64]) -> Self {
        Self { words }
    }

    /// The namespace in which they are bound; `None` if there never was one.
    pub(crate) fn namespace(&self) -> Option<u64> {
        Some(self.words[NAMESPACE]).filter(|&namespace| namespace != 0)
    }

    fn held(&self) -> usize {
        (self.words[COUNT] as usize).min(MOST)
    }

    fn room(&self) -> usize {
        MOST - self.held()
    }

    /// The words of the port that is taken after `number` others.
    fn place(&mut self, number: usize) -> &mut [u64] {
        let place = (self.words[HEAD] as usize % MOST + number) % MOST;
        &mut self.words[SINGLES + place * PORT..][..PORT]
    }

    fn entry(&mut self, number: usize) -> Entry {
        Entry::of_words(self.place(number))
    }

    fn set_entry(&mut self, number: usize, entry: Entry) {
        self.place(number).copy_from_slice(&entry.to_words());
    }

    fn find(&mut self, wanted: impl Fn(&Entry) -> bool) -> Option<usize> {
        (0..self.held()).find(|&number| wanted(&self.entry(number)))
    }

    /// Removes a port; those before it move up.
    fn remove(&mut self, number: usize) -> Entry {
        let entry = self.entry(number);
        for before in (0..number).rev() {
            let moved = self.entry(before);
            self.set_entry(before + 1, moved);
        }
        self.words[HEAD] = (self.words[HEAD] as usize % MOST + 1) as u64;
        self.words[COUNT] = (self.held() as u64).saturating_sub(1);
        if entry.rests() {
            self.words[RESTING] = self.words[RESTING].saturating_sub(1);
        }
        entry
    }

    fn rest_enough(&self) -> bool {
        self.words[RESTING] as usize >= ENOUGH_RESTING
    }

    /// Whether ports of connections that have ended should come back.
    pub(crate) fn wants_back(&self) -> bool {
        (self.words[RESTING] as usize) < SPARE_RESTING
    }

    /// Takes a port of an address, if there is one: one that was never used, or the one that has
    /// rested longest.
    pub(crate) fn take(&mut self, source: Address, now: Instant) -> Option<EphemeralPort> {
        let number = self.find(|entry| entry.source == source)?;
        let usable = self.entry(number).has_rested(REST, now) || self.rest_enough();
        usable.then(|| self.remove(number).port)
    }

    /// The same, however short it has rested: the service has no other.
    pub(crate) fn take_early(&mut self, source: Address) -> Option<EphemeralPort> {
        let number = self.find(|entry| entry.source == source)?;
        Some(self.remove(number).port)
    }

    /// What to ask the service for when there is no port, `None` if there is no room. Twice as many
    /// as the last time, so that a program which connects once holds no others; only one while an
    /// answer to another thread is pending.
    pub(crate) fn next_ask(&mut self, now: Instant) -> Option<Ask> {
        let awaited = now.as_nanos() < self.words[AWAITED];
        if !awaited {
            self.words[AWAITED] = (now + TIMEOUT).as_nanos();
            self.words[ASKED] = (self.words[ASKED] * 2).clamp(1, 8 * EphemeralPorts::MAX as u64);
        }
        let count = if awaited { 1 } else { self.words[ASKED] as usize };
        let count = count.min(EphemeralPorts::MAX).min(self.room()) as u32;
        (count > 0).then_some(Ask { count, only: awaited })
    }

    /// How many to request in advance: 0 while there are enough, or an answer is pending.
    pub(crate) fn next_ask_in_advance(&mut self, now: Instant) -> u32 {
        let asked = self.words[ASKED] as usize;
        let held = self.held();
        let ready =
            (0..held).take_while(|&number| self.entry(number).has_rested(REST, now)).take(asked / 2 + 1).count();
        // The first time is the program's first connection, and perhaps its only one.
        let enough = asked < 2 || ready > asked / 2 || self.rest_enough();
        if enough || now.as_nanos() < self.words[AWAITED] {
            return 0;
        }
        self.next_ask(now).map_or(0, |ask| ask.count)
    }

    /// The answer to a request for more than one port has arrived, or will not.
    pub(crate) fn are_answered(&mut self) {
        self.words[AWAITED] = 0;
    }

    /// Adds ports that the service has bound in its namespace, to be taken before all others.
    /// Returns how many there was room for.
    pub(crate) fn put(&mut self, namespace: u64, source: Address, ports: &[EphemeralPort]) -> usize {
        self.words[NAMESPACE] = namespace;
        let count = self.room().min(ports.len());
        for &port in &ports[..count] {
            self.words[HEAD] = ((self.words[HEAD] as usize % MOST + MOST - 1) % MOST) as u64;
            self.words[COUNT] = self.held() as u64 + 1;
            self.set_entry(0, Entry { source, port, rests_since: 0 });
        }
        count
    }

    /// Puts a port back whose connection has ended; it rests from now on. Returns whether there was
    /// room.
    pub(crate) fn put_back(&mut self, source: Address, port: EphemeralPort, now: Instant) -> bool {
        let number = self.held();
        if self.room() == 0 || self.words[RESTING] as usize >= MOST_RESTING {
            return false;
        }
        self.words[COUNT] = number as u64 + 1;
        self.words[RESTING] += 1;
        self.set_entry(number, Entry { source, port, rests_since: milliseconds(now).max(1) });
        true
    }

    /// Removes a port that has rested for so long that the program seems not to need it.
    pub(crate) fn take_surplus(&mut self, now: Instant) -> Option<Claim> {
        let number = self.find(Entry::rests)?;
        let surplus = self.entry(number).has_rested(SURPLUS, now);
        surplus.then(|| self.remove(number).port.claim)
    }

    /// Whether any port rests.
    pub(crate) fn any_rests(&self) -> bool {
        self.words[RESTING] != 0
    }

    /// A claim was lost: its port is not the lane's any more.
    pub(crate) fn forget(&mut self, claim: u64) {
        while let Some(number) = self.find(|entry| entry.port.claim.0 == claim) {
            self.remove(number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(claims: core::ops::Range<u64>) -> Vec<EphemeralPort> {
        claims.map(|claim| EphemeralPort { claim: Claim(claim), port: 40_000 + claim as u16 }).collect()
    }

    const HERE: Address = Address::v4([10, 0, 0, 1]);
    const NOW: Instant = Instant::from_nanos(1);

    fn claims(all: &mut Ports<'_>, now: Instant) -> Vec<u64> {
        std::iter::from_fn(|| all.take(HERE, now)).map(|port| port.claim.0).collect()
    }

    #[test]
    fn ports_are_of_an_address_and_taken_once() {
        let mut words = [0; WORDS];
        let mut all = Ports::new(&mut words);
        let [here, there] = [1, 2].map(|n| Address::v4([10, 0, 0, n]));
        assert_eq!((all.namespace(), all.take(here, NOW)), (None, None));
        assert_eq!(all.put(9, here, &ports(1..3)), 2);
        assert_eq!((all.namespace(), all.take(there, NOW)), (Some(9), None));
        let mut taken: Vec<_> = std::iter::from_fn(|| all.take(here, NOW)).collect();
        taken.sort_by_key(|port| port.claim);
        assert_eq!(taken, ports(1..3));
    }

    #[test]
    fn more_are_asked_for_each_time_and_no_more_than_there_is_room_for() {
        let mut words = [0; WORDS];
        let mut all = Ports::new(&mut words);
        let count = |all: &mut Ports<'_>| {
            let ask = all.next_ask(NOW);
            let only = Ask { count: 1, only: true };
            assert!(ask.is_none() || all.next_ask(NOW) == Some(only), "others are to come");
            all.are_answered();
            ask.map_or(0, |ask| ask.count)
        };
        assert_eq!([(); 8].map(|()| count(&mut all)), [1, 2, 4, 8, 16, 16, 16, 16]);
        let most = MOST as u64;
        assert_eq!(all.put(9, HERE, &ports(1..most - 1)), MOST - 2);
        assert_eq!((count(&mut all), all.put(9, HERE, &ports(most..most + 10)), count(&mut all)), (2, 2, 0));
        all.forget(5);
        assert_eq!(count(&mut all), 1);
        let left = claims(&mut all, NOW);
        assert!(left.len() == MOST - 1 && !left.contains(&5));
    }

    #[test]
    fn a_port_rests_before_it_is_taken_again_and_goes_back_when_it_is_not_taken() {
        let mut words = [0; WORDS];
        let mut all = Ports::new(&mut words);
        all.put(9, HERE, &ports(1..3));
        let used = [(); 2].map(|()| all.take(HERE, NOW).unwrap());
        let [then, early] = [Span::from_secs(2), Span::from_secs(61)].map(|time| NOW + time);
        assert!(all.put_back(HERE, used[0], NOW) && all.put_back(HERE, used[1], then));
        all.put(9, HERE, &ports(7..8));
        assert_eq!(claims(&mut all, NOW + Span::from_secs(59)), [7], "a fresh one does not rest");
        assert_eq!(claims(&mut all, early), [used[0].claim.0]);
        assert_eq!(all.take_early(HERE), Some(used[1]), "there is no other");
        assert!(all.put_back(HERE, used[1], then));
        let late = then + SURPLUS;
        assert_eq!((all.take_surplus(early), all.any_rests()), (None, true));
        assert_eq!((all.take_surplus(late), all.any_rests()), (Some(used[1].claim), false));
        assert_eq!(all.take_surplus(late), None);
    }

    #[test]
    fn a_program_that_opens_many_connections_goes_round_among_resting_ports() {
        let mut words = [0; WORDS];
        let mut all = Ports::new(&mut words);
        let [enough, most] = [ENOUGH_RESTING, MOST_RESTING].map(|count| count as u64);
        for port in ports(1..enough + 1) {
            assert_eq!(all.take(HERE, NOW), None, "too few rest");
            assert!(all.put_back(HERE, port, NOW));
        }
        assert_eq!((all.next_ask(NOW).map(|ask| ask.count), all.next_ask_in_advance(NOW)), (Some(1), 0));
        for port in ports(enough + 1..most + 1) {
            assert!(all.put_back(HERE, port, NOW));
        }
        assert!(!all.put_back(HERE, ports(5000..5001)[0], NOW), "there are enough");
        for n in 0..3 * most {
            let port = all.take(HERE, NOW).unwrap();
            assert_eq!(port.claim.0, n % most + 1, "the one that has rested longest");
            assert!(all.put_back(HERE, port, NOW));
        }
        assert_eq!(claims(&mut all, NOW), (1..most - enough + 2).collect::<Vec<_>>(), "the others rest");
    }

    #[test]
    fn one_that_is_taken_from_among_others_leaves_them_in_order() {
        let mut words = [0; WORDS];
        let mut all = Ports::new(&mut words);
        let there = Address::v4([10, 0, 0, 2]);
        // Across the wraparound of the ring.
        all.words[HEAD] = MOST as u64 - 2;
        let resting: Vec<_> = ports(1..6);
        for (n, &port) in resting.iter().enumerate() {
            assert!(all.put_back(if n == 3 { there } else { HERE }, port, NOW));
        }
        let late = NOW + REST + Span::from_secs(1);
        assert_eq!(all.take(there, late), Some(resting[3]));
        all.forget(2);
        assert_eq!(claims(&mut all, late), [1, 3, 5]);
    }

    #[test]
    fn words_that_make_no_sense_harm_nothing() {
        let mut words = [u64::MAX; WORDS];
        let mut all = Ports::new(&mut words);
        let port = ports(1..2)[0];
        assert_eq!((all.take(HERE, NOW), all.put_back(HERE, port, NOW), all.put(1, HERE, &[port])), (None, false, 0));
        all.forget(u64::MAX);
        assert_eq!(all.put(1, HERE, &[port]), 1);
    }

    #[test]
    fn the_service_is_asked_in_advance_for_a_program_that_connects_again_and_again() {
        let mut words = [0; WORDS];
        let mut all = Ports::new(&mut words);
        let (now, here) = (NOW, HERE);
        let ask = |count| Some(Ask { count, only: false });
        assert_eq!(all.next_ask(now), ask(1));
        all.are_answered();
        assert_eq!(all.next_ask_in_advance(now), 0, "it may be the only one");
        assert_eq!(all.next_ask(now), ask(2));
        all.are_answered();
        assert_eq!(all.put(9, here, &ports(1..2)), 1);
        assert_eq!(all.next_ask_in_advance(now), 4, "half of the last ones are taken");
        assert_eq!(all.next_ask_in_advance(now), 0, "an answer is to come");
        assert_eq!(all.next_ask_in_advance(now + TIMEOUT), 8, "it never came");
        all.are_answered();
        assert_eq!(all.put(9, here, &ports(2..10)), 8);
        assert_eq!(all.next_ask_in_advance(now), 0, "there are enough");
    }
}
