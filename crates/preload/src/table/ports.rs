//! Ephemeral ports that the service has bound for the lane and from which nothing has been
//! connected yet. They live in the caller's words of the region, so all processes of the lane draw
//! on the same ones; they are touched under the lane's lock only.

use tickwire_link::control::{Claim, EphemeralPort, EphemeralPorts};
use tickwire_stack::addr::Address;
use tickwire_stack::time::{Instant, Span};

/// Most ports that a lane holds unused: it has so many only while it opens thousands of connections
/// a second.
const MOST: usize = 4 * EphemeralPorts::MAX;
/// Words of one port: its claim (0 if the place is free), its address in two, its number.
const PORT: usize = 4;
/// Words before the first port, see below.
const SINGLES: usize = 3;
/// Words in all.
pub(crate) const WORDS: usize = SINGLES + MOST * PORT;

/// The namespace in which they are bound, 0 if none ever was.
const NAMESPACE: usize = 0;
/// As many were last wanted from the service, which gives no more than a part of them at a time.
const ASKED: usize = 1;
/// Until when an answer to that is waited for, in nanoseconds; 0 if to none.
const AWAITED: usize = 2;

/// The service is asked again after so long without an answer: the process that asked may be gone.
const PATIENCE: Span = Span::from_secs(1);

/// What to ask the service for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// So many ports.
    pub(crate) count: u32,
    /// No more than the caller needs itself: the answer is not what others wait for.
    pub(crate) only: bool,
}

/// The ports in their words.
pub(crate) struct Ports<'a> {
    words: &'a mut [u64],
}

impl<'a> Ports<'a> {
    /// Those in these [`WORDS`] words.
    pub(crate) fn new(words: &'a mut [u64]) -> Self {
        Self { words }
    }

    /// The namespace in which they are bound; `None` if none ever was.
    pub(crate) fn namespace(&self) -> Option<u64> {
        Some(self.words[NAMESPACE]).filter(|&namespace| namespace != 0)
    }

    fn places(&mut self) -> impl Iterator<Item = &mut [u64]> {
        self.words[SINGLES..].chunks_exact_mut(PORT)
    }

    /// Takes a port of an address out, if there is one.
    pub(crate) fn take(&mut self, source: Address) -> Option<EphemeralPort> {
        let [high, low] = halves(source);
        let place = self.places().find(|place| place[0] != 0 && place[1..3] == [high, low])?;
        let port = EphemeralPort { claim: Claim(place[0]), port: place[3] as u16 };
        place[0] = 0;
        Some(port)
    }

    /// What to ask the service for when there is no port, `None` if there is no room: twice as many
    /// as the last time, so that a program which connects once holds no others; one while an answer
    /// to another thread is to come.
    pub(crate) fn next_ask(&mut self, now: Instant) -> Option<Ask> {
        let room = (MOST - self.held()) as u64;
        let awaited = now.as_nanos() < self.words[AWAITED];
        if !awaited {
            self.words[AWAITED] = (now + PATIENCE).as_nanos();
            self.words[ASKED] = (self.words[ASKED] * 2).clamp(1, MOST as u64);
        }
        let count = if awaited { 1 } else { self.words[ASKED] }.min(room) as u32;
        let count = count.min(EphemeralPorts::MAX as u32);
        (count > 0).then_some(Ask { count, only: awaited })
    }

    /// How many to ask for in advance: 0 while there are enough, or an answer is to come.
    pub(crate) fn next_ask_in_advance(&mut self, now: Instant) -> u32 {
        let asked = self.words[ASKED];
        // The first time is the program's first connection, and perhaps its only one.
        let enough = asked < 2 || self.held() as u64 > asked / 2;
        if enough || now.as_nanos() < self.words[AWAITED] {
            return 0;
        }
        self.next_ask(now).map_or(0, |ask| ask.count)
    }

    /// What was asked for, and more than one, has come, or will not.
    pub(crate) fn are_answered(&mut self) {
        self.words[AWAITED] = 0;
    }

    fn held(&mut self) -> usize {
        self.places().filter(|place| place[0] != 0).count()
    }

    /// Puts ports in that the service has bound in its namespace. How many there was room for.
    pub(crate) fn put(&mut self, namespace: u64, source: Address, ports: &[EphemeralPort]) -> usize {
        self.words[NAMESPACE] = namespace;
        let [high, low] = halves(source);
        let free = self.places().filter(|place| place[0] == 0);
        let put = free.zip(ports).map(|(place, port)| {
            place.copy_from_slice(&[port.claim.0, high, low, port.port.into()]);
        });
        put.count()
    }

    /// A claim was lost: its port is not the lane's any more.
    pub(crate) fn forget(&mut self, claim: u64) {
        self.places().filter(|place| place[0] == claim).for_each(|place| place[0] = 0);
    }
}

fn halves(address: Address) -> [u64; 2] {
    let both = u128::from_be_bytes(address.0);
    [(both >> 64) as u64, both as u64]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ports(claims: core::ops::Range<u64>) -> Vec<EphemeralPort> {
        claims.map(|claim| EphemeralPort { claim: Claim(claim), port: 40_000 + claim as u16 }).collect()
    }

    #[test]
    fn ports_are_of_an_address_and_taken_once() {
        let mut words = [0; WORDS];
        let mut all = Ports::new(&mut words);
        let [here, there] = [1, 2].map(|n| Address::v4([10, 0, 0, n]));
        assert_eq!((all.namespace(), all.take(here)), (None, None));
        assert_eq!(all.put(9, here, &ports(1..3)), 2);
        assert_eq!((all.namespace(), all.take(there)), (Some(9), None));
        let mut taken: Vec<_> = (0..3).filter_map(|_| all.take(here)).collect();
        taken.sort_by_key(|port| port.claim);
        assert_eq!(taken, ports(1..3));
    }

    #[test]
    fn more_are_asked_for_each_time_and_no_more_than_there_is_room_for() {
        let mut words = [0; WORDS];
        let mut all = Ports::new(&mut words);
        let (now, here) = (Instant::from_nanos(1), Address::v4([10, 0, 0, 1]));
        let count = |all: &mut Ports<'_>| {
            let ask = all.next_ask(now);
            let only = Ask { count: 1, only: true };
            assert!(ask.is_none() || all.next_ask(now) == Some(only), "others are to come");
            all.are_answered();
            ask.map_or(0, |ask| ask.count)
        };
        assert_eq!([(); 8].map(|()| count(&mut all)), [1, 2, 4, 8, 16, 32, 32, 32]);
        assert_eq!(all.put(9, here, &ports(1..127)), 126);
        assert_eq!((count(&mut all), all.put(9, here, &ports(127..137)), count(&mut all)), (2, 2, 0));
        all.forget(5);
        assert_eq!(count(&mut all), 1);
        let left: Vec<_> = (0..MOST).filter_map(|_| all.take(here)).map(|port| port.claim.0).collect();
        assert!(left.len() == MOST - 1 && !left.contains(&5));
    }

    #[test]
    fn the_service_is_asked_in_advance_for_a_program_that_connects_again_and_again() {
        let mut words = [0; WORDS];
        let mut all = Ports::new(&mut words);
        let (now, here) = (Instant::from_nanos(1), Address::v4([10, 0, 0, 1]));
        let ask = |count| Some(Ask { count, only: false });
        assert_eq!(all.next_ask(now), ask(1));
        all.are_answered();
        assert_eq!(all.next_ask_in_advance(now), 0, "it may be the only one");
        assert_eq!(all.next_ask(now), ask(2));
        all.are_answered();
        assert_eq!(all.put(9, here, &ports(1..2)), 1);
        assert_eq!(all.next_ask_in_advance(now), 4, "half of the last ones are taken");
        assert_eq!(all.next_ask_in_advance(now), 0, "an answer is to come");
        assert_eq!(all.next_ask_in_advance(now + PATIENCE), 8, "it never came");
        all.are_answered();
        assert_eq!(all.put(9, here, &ports(2..10)), 8);
        assert_eq!(all.next_ask_in_advance(now), 0, "there are enough");
    }
}
