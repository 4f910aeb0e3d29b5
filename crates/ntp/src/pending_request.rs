//! One pending request, and the timestamps of both ends of its exchange: by the network card, the
//! kernel or the program. Arithmetic only: the socket reports departures and arrivals.

use tickclock::Count;
use tickwire_stamping::Quality;
use tickwire_stamping::cross_timestamp::CrossTimestamp;
use tickwire_stamping::hardware::{self, CardReading, Lack, Track};
use tickwire_stamping::timestamps::{RxTimestamps, TxTimestamps};

/// Why a received message has no timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Lost {
    /// The kernel's clock was set between request and answer.
    #[error("the system clock was set during the exchange")]
    ClockSet,
    /// No request was sent.
    #[error("answers nothing that was asked")]
    Unasked,
}

/// A request that has left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PendingRequest {
    /// Its number among the requests on its socket: the kernel identifies its timestamp by it.
    number: u32,
    before: CrossTimestamp,
    /// The counter just before the system call.
    program: Count,
    /// The card's clock before sending, if a card is used.
    clock: Option<Result<CardReading, Lack>>,
    /// The kernel's transmit timestamp, in ns of the clock by which it stamps packets.
    kernel: Option<i64>,
    /// The card's transmit timestamp, in ns of its clock.
    card: Option<i64>,
    /// The socket has already waited for the card's timestamp.
    awaited: bool,
}

/// A received message, perhaps the reply.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Landing {
    pub(crate) arrival: RxTimestamps,
    /// The counter just after the system call.
    pub(crate) program: Count,
    /// Taken after the arrival.
    pub(crate) after: CrossTimestamp,
    /// Its transmission time on the wire, in ns: the card stamps the beginning of its frame.
    pub(crate) on_the_wire: i64,
}

impl PendingRequest {
    /// The request with this number was sent after these readings.
    pub(crate) const fn new(
        number: u32,
        before: CrossTimestamp,
        program: Count,
        clock: Option<Result<CardReading, Lack>>,
    ) -> Self {
        Self { number, before, program, clock, kernel: None, card: None, awaited: false }
    }

    /// Takes a report of the error queue, which may concern another request, or none. Kernel and
    /// card report one after the other.
    pub(crate) fn departed(&mut self, departure: TxTimestamps) {
        if departure.number == Some(self.number) {
            (self.kernel, self.card) = (departure.stamp.or(self.kernel), departure.card.or(self.card));
        }
    }

    /// Whether the kernel has stamped it.
    pub(crate) const fn has_left(&self) -> bool {
        self.kernel.is_some()
    }

    /// Time since it was sent, in counts.
    pub(crate) const fn age(&self, now: Count) -> i64 {
        now.since(self.program)
    }

    /// Whether to wait for the card's transmit timestamp, now that a reply with a card's timestamp
    /// is here. True at most once.
    pub(crate) const fn awaits_card(&mut self, arrival: &RxTimestamps) -> bool {
        let awaits = arrival.card.is_some() && self.clock.is_some() && self.card.is_none() && !self.awaited;
        self.awaited |= arrival.card.is_some();
        awaits
    }

    /// Whether the card's transmit timestamp has arrived.
    pub(crate) const fn has_card(&self) -> bool {
        self.card.is_some()
    }

    /// Both ends by the kernel's timestamps, or by the program's.
    ///
    /// # Errors
    /// The kernel's clock was set meanwhile.
    pub(crate) fn ends(&self, landing: &Landing) -> Result<([Count; 2], Quality), Lost> {
        match (self.kernel, landing.arrival.stamp) {
            (Some(departure), Some(arrival)) => {
                let count = |stamp| self.count(landing, stamp).ok_or(Lost::ClockSet);
                Ok(([count(departure)?, count(arrival)?], Quality::Kernel))
            }
            _ => Ok(([self.program, landing.program], Quality::Program)),
        }
    }

    /// The same by the card's timestamps, which lie inside these `outer` ones; `None` if no card is
    /// used. A count takes `period` ns; `read` reads the card's clock.
    pub(crate) fn by_card(
        &self,
        landing: &Landing,
        outer: [Count; 2],
        track: &mut Track,
        period: f64,
        read: impl FnOnce() -> Result<CardReading, Lack>,
    ) -> Option<Result<[Count; 2], Lack>> {
        let ends = |before: CardReading| {
            let stamps = [self.card.ok_or(Lack::Departure)?, landing.arrival.card.ok_or(Lack::Arrival)?];
            let after = read()?;
            let [departure, arrival] = track.realtime(&before, &after, stamps)?;
            let count = |stamp| self.count(landing, stamp).ok_or(Lack::Foreign);
            let ends = [count(departure)?, count(arrival.saturating_add(landing.on_the_wire))?];
            let counts = |ns: i64| (ns as f64 / period) as i64;
            hardware::inside(outer, ends, counts(before.doubt.max(after.doubt)), counts(hardware::SLACK))
        };
        self.clock.map(|before| before.and_then(ends))
    }

    fn count(&self, landing: &Landing, realtime: i64) -> Option<Count> {
        CrossTimestamp::count_at(&self.before, &landing.after, realtime)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;
    /// CLOCK_REALTIME when the request is made, in ns. A count is one of them, and the counter then
    /// was at 5 s.
    const BEGIN: i64 = 1_790_000_000 * SECOND;
    /// The card's clock counts TAI, and is some ms off.
    const CARD: i64 = 37 * SECOND + 3_000_000;
    /// The kernel stamps departures before they are on the wire, and arrivals after they were.
    const LEFT: i64 = BEGIN + 10_000;
    const SENT: i64 = BEGIN + 12_000;
    const CAME: i64 = BEGIN + 90_000;
    const HEARD: i64 = BEGIN + 97_000;
    const NUMBER: u32 = 4;

    fn count(realtime: i64) -> Count {
        Count((realtime - BEGIN + 5 * SECOND) as u64)
    }

    fn cross_timestamp(realtime: i64) -> CrossTimestamp {
        // The one clock or the other stamps packets; the timestamps here are in realtime.
        let monotonic = if cfg!(windows) { realtime } else { realtime - BEGIN };
        CrossTimestamp { count: count(realtime), width: 10, realtime, monotonic }
    }

    fn reading(realtime: i64) -> CardReading {
        CardReading { realtime, card: realtime + CARD, doubt: 400 }
    }

    fn flight() -> PendingRequest {
        PendingRequest::new(NUMBER, cross_timestamp(BEGIN), count(BEGIN + 1_000), Some(Ok(reading(BEGIN - 5_000))))
    }

    /// A timestamp in ns; 0: none.
    fn stamp(ns: i64) -> Option<i64> {
        Some(ns).filter(|&ns| ns != 0)
    }

    /// A report of the error queue, on a message or on none.
    fn told(flight: &mut PendingRequest, number: Option<u32>, kernel: i64, card: i64) {
        flight.departed(TxTimestamps { number, stamp: stamp(kernel), card: stamp(card) });
    }

    fn by_kernel(flight: &mut PendingRequest) {
        told(flight, Some(NUMBER), LEFT, 0);
    }

    fn by_card(flight: &mut PendingRequest) {
        told(flight, Some(NUMBER), 0, SENT + CARD);
    }

    /// A reply with these timestamps.
    fn landing(kernel: i64, card: i64) -> Landing {
        Landing {
            arrival: RxTimestamps { stamp: stamp(kernel), card: stamp(card) },
            program: count(HEARD + 5_000),
            after: cross_timestamp(HEARD + 6_000),
            on_the_wire: 0,
        }
    }

    fn landed() -> Landing {
        landing(HEARD, CAME + CARD)
    }

    type Ends = ([Count; 2], Quality);

    fn ends(flight: &PendingRequest, landing: &Landing) -> (Ends, Option<Result<[Count; 2], Lack>>) {
        let (outer, quality) = flight.ends(landing).unwrap();
        let read = || Ok(reading(HEARD + 9_000));
        let card = flight.by_card(landing, outer, &mut Track::default(), 1.0, read);
        ((outer, quality), card)
    }

    const KERNEL: [i64; 2] = [LEFT, HEARD];
    /// The card's, widened by the uncertainty of the readings of its clock.
    const HARDWARE: [i64; 2] = [SENT - 400, CAME + 400];

    #[test]
    fn kernel_and_card_tell_when_it_left_in_either_order_or_at_once() {
        let tell: [&dyn Fn(&mut PendingRequest); 3] = [
            &|flight| {
                by_kernel(flight);
                by_card(flight);
            },
            &|flight| {
                by_card(flight);
                by_kernel(flight);
            },
            &|flight| told(flight, Some(NUMBER), LEFT, SENT + CARD),
        ];
        for (way, tell) in tell.iter().enumerate() {
            let mut flight = flight();
            tell(&mut flight);
            let (kernel, card) = ends(&flight, &landed());
            assert_eq!(kernel, (KERNEL.map(count), Quality::Kernel), "{way}");
            assert_eq!(card, Some(Ok(HARDWARE.map(count))), "{way}");
        }
    }

    #[test]
    fn what_is_missing_is_named_and_the_kernels_are_there_all_the_same() {
        let mut unsent = flight();
        by_kernel(&mut unsent);
        assert_eq!(ends(&unsent, &landed()), ((KERNEL.map(count), Quality::Kernel), Some(Err(Lack::Departure))));
        let mut sent = unsent;
        by_card(&mut sent);
        assert_eq!(ends(&sent, &landing(HEARD, 0)).1, Some(Err(Lack::Arrival)));
        // The kernel has stamped one end only, or none: then the program's are the outer ones, and
        // the card's lie inside.
        let mut of_card = flight();
        by_card(&mut of_card);
        let program = [BEGIN + 1_000, HEARD + 5_000].map(count);
        for (flight, landing) in
            [(&of_card, landed()), (&sent, landing(0, CAME + CARD)), (&of_card, landing(0, CAME + CARD))]
        {
            let (outer, card) = ends(flight, &landing);
            assert_eq!((outer, card), ((program, Quality::Program), Some(Ok(HARDWARE.map(count)))));
        }
        let nobody = PendingRequest { clock: None, ..sent };
        assert_eq!(ends(&nobody, &landed()).1, None, "no card was asked");
        let unread = PendingRequest { clock: Some(Err(Lack::Unread)), ..sent };
        assert_eq!(ends(&unread, &landed()).1, Some(Err(Lack::Unread)));
        let gone = sent.by_card(&landed(), KERNEL.map(count), &mut Track::default(), 1.0, || Err(Lack::Unread));
        assert_eq!(gone, Some(Err(Lack::Unread)));
    }

    #[test]
    fn what_is_told_of_another_request_is_not_this_ones() {
        let mut flight = flight();
        for number in [NUMBER - 1, NUMBER + 1, 0, u32::MAX] {
            told(&mut flight, Some(number), LEFT - 50_000, SENT + CARD - 50_000);
        }
        // As when the network reports a closed port.
        told(&mut flight, None, LEFT, SENT + CARD);
        told(&mut flight, None, 0, 0);
        assert_eq!(
            ends(&flight, &landed()),
            (([BEGIN + 1_000, HEARD + 5_000].map(count), Quality::Program), Some(Err(Lack::Departure)))
        );
        by_card(&mut flight);
        by_kernel(&mut flight);
        // A late report on the previous request.
        told(&mut flight, Some(NUMBER - 1), 1, 1);
        assert_eq!(ends(&flight, &landed()).1, Some(Ok(HARDWARE.map(count))));
    }

    #[test]
    fn the_cards_stamp_is_waited_for_once_and_only_where_there_is_one_to_come() {
        let (with, without) = (landed().arrival, landing(HEARD, 0).arrival);
        let mut flight = flight();
        assert!(!flight.awaits_card(&without), "the answer has none either");
        assert!(flight.awaits_card(&with) && !flight.has_card());
        assert!(!flight.awaits_card(&with), "once");
        let mut there = super::tests::flight();
        by_card(&mut there);
        assert!(there.has_card() && !there.awaits_card(&with));
        let mut nobody = PendingRequest { clock: None, ..super::tests::flight() };
        assert!(!nobody.awaits_card(&with), "no card was asked");
    }

    #[test]
    fn stamps_that_contradict_the_kernels_are_not_used() {
        let mut flight = flight();
        by_kernel(&mut flight);
        told(&mut flight, Some(NUMBER), 0, LEFT - 2_000 + CARD);
        assert_eq!(ends(&flight, &landed()).1, Some(Err(Lack::Contradiction)), "on the wire before it was sent");
        by_card(&mut flight);
        assert_eq!(ends(&flight, &landing(HEARD, HEARD + 3_000 + CARD)).1, Some(Err(Lack::Contradiction)));
        assert_eq!(ends(&flight, &landing(HEARD, CAME)).1, Some(Err(Lack::Foreign)), "of another clock");
        assert_eq!(ends(&flight, &landing(HEARD, i64::MAX)).1, Some(Err(Lack::Foreign)));
        let set = flight.by_card(&landed(), KERNEL.map(count), &mut Track::default(), 1.0, || {
            Ok(CardReading { card: HEARD + SECOND, ..reading(HEARD + 9_000) })
        });
        assert_eq!(set, Some(Err(Lack::Set)));
    }

    #[test]
    fn a_card_stamps_the_beginning_of_what_comes() {
        let mut flight = flight();
        by_kernel(&mut flight);
        by_card(&mut flight);
        let landing = Landing { on_the_wire: 750, ..landed() };
        assert_eq!(ends(&flight, &landing).1, Some(Ok([HARDWARE[0], HARDWARE[1] + 750].map(count))));
    }

    #[cfg(unix)]
    #[test]
    fn a_clock_that_was_set_during_the_exchange_is_seen() {
        let mut flight = flight();
        by_kernel(&mut flight);
        let after = CrossTimestamp { realtime: HEARD + 6_000 + SECOND, ..landed().after };
        assert_eq!(flight.ends(&Landing { after, ..landed() }), Err(Lost::ClockSet));
    }
}
