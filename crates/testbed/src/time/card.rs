//! A network card's clock (PTP hardware clock) as reference. It is as good as its synchronisation,
//! which is usually by ptp4l on the card's own network.

use super::reference::{Pair, Reference, known};
use crate::error::TestbedError;
use tickclock::{Clock, Reading, Status};
use tickwire_stamping::card::Card as Interface;
use tickwire_stamping::cross_timestamp::CrossTimestamp;
use tickwire_stamping::hardware;
use tickwire_stamping::phc::Phc;

/// A card's clock farther from the Tickwire clock than this, in ns, counts as not synchronised.
const SYNCHRONISED: i64 = 500_000_000;

/// The time scale of a card's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Epoch {
    /// The time scale of PTP.
    Tai,
    Utc,
}

/// A card's clock.
#[derive(Debug)]
pub(super) struct CardClock {
    phc: Phc,
    epoch: Epoch,
    /// The counter's period in ns.
    period: f64,
}

/// Opens the clock of an interface, or `/dev/ptpN`; also returns its device's name.
///
/// # Errors
/// [`TestbedError::Refused`]: there is no clock, or it may not be read.
pub(super) fn open(name: &str) -> Result<(Phc, String), TestbedError> {
    let refused = |why: &dyn std::fmt::Display| TestbedError::Refused(format!("{name}: {why}"));
    let number = match name.strip_prefix("/dev/ptp") {
        Some(number) => {
            number.parse().map_err(|_| refused(&"not a PTP hardware clock's name: these are /dev/ptp0 and so on"))?
        }
        None => {
            let abilities = Interface::named(name).and_then(|interface| interface.abilities());
            let abilities = abilities.map_err(|error| refused(&format_args!("no such interface ({error})")))?;
            abilities
                .clock
                .ok_or_else(|| refused(&"this interface has no PTP hardware clock, or its driver does not tell"))?
        }
    };
    let device = format!("/dev/ptp{number}");
    let phc = Phc::open(number).map_err(|error| {
        let absent = error.kind() == std::io::ErrorKind::NotFound;
        let why =
            if absent { "there is no such PTP hardware clock" } else { "this PTP hardware clock cannot be opened" };
        refused(&format_args!("{why} ({error})"))
    })?;
    Ok((phc, device))
}

impl CardClock {
    /// This clock, for comparison with the Tickwire clock, which must know the time by now.
    ///
    /// # Errors
    /// [`TestbedError::Refused`]: one of the two clocks does not provide the time.
    pub(super) fn new(phc: Phc, device: &str, clock: &Clock) -> Result<Self, TestbedError> {
        let refused = |why: String| Err(TestbedError::Refused(why));
        let reading = clock.now();
        if known(&reading).is_none() {
            return refused(
                "the Tickwire clock does not know the time yet: wait for it by `tickwire clock wait`".to_owned(),
            );
        }
        let card = match phc.read() {
            Ok(triples) => hardware::CardReading::quickest(&triples).map(|one| one.card),
            Err(error) => return refused(format!("{device} cannot be read ({error})")),
        };
        let Some(epoch) = card.and_then(|card| epoch(card, &reading)) else {
            return refused(format!(
                "{device} is not near UTC or TAI as the Tickwire clock knows them: it must be synchronised (ptp4l, or phc2sys){}",
                if reading.status.contains(Status::TAI_KNOWN) {
                    ""
                } else {
                    ", and the Tickwire clock does not know TAI - UTC"
                }
            ));
        };
        Ok(Self { phc, epoch, period: clock.parameters().local.period() })
    }

    /// Its description.
    pub(super) fn words(&self, device: &str) -> String {
        let epoch = match self.epoch {
            Epoch::Tai => "TAI",
            Epoch::Utc => "UTC",
        };
        format!(
            "{device}, a PTP hardware clock that tells {epoch}: as good as its synchronisation (which cannot be seen from here)"
        )
    }
}

/// The time scale of the card's clock, if it is near one.
fn epoch(card: i64, reading: &Reading) -> Option<Epoch> {
    let near = |time: i64| card.abs_diff(time) < SYNCHRONISED.unsigned_abs();
    if near(reading.utc().0) {
        Some(Epoch::Utc)
    } else {
        (reading.status.contains(Status::TAI_KNOWN) && near(reading.tai.0)).then_some(Epoch::Tai)
    }
}

impl Reference for CardClock {
    /// The card is read together with the kernel's clock, and that between two readings of the
    /// counter. So both clocks refer to one instant, and the read latency of a card, a microsecond
    /// over the bus, is not in the difference.
    fn compare(&mut self, clock: &Clock) -> Option<Pair> {
        let kind = clock.counter_kind();
        let before = CrossTimestamp::take(kind, self.period);
        let triples = self.phc.read().ok()?;
        let after = CrossTimestamp::take(kind, self.period);
        let card = hardware::CardReading::quickest(&triples)?;
        let count = CrossTimestamp::count_at(&before, &after, card.realtime)?;
        let width = before.width.max(after.width) as f64 * self.period / 2.0;
        compared(&clock.at(count), self.epoch, card.card, card.doubt + width as i64)
    }
}

/// A comparison with the card's clock at the instant of the reading, with an uncertainty of
/// `doubt`.
fn compared(reading: &Reading, epoch: Epoch, card: i64, doubt: i64) -> Option<Pair> {
    let utc = known(reading)?;
    let time = match epoch {
        Epoch::Tai => reading.tai,
        Epoch::Utc => utc,
    };
    let difference = card.saturating_sub(time.0);
    let inside = difference.unsigned_abs() <= reading.bound.saturating_add(doubt.unsigned_abs());
    Some(Pair { difference, bound: reading.bound, inside, repeated: 0 })
}

#[cfg(test)]
mod tests {
    use super::super::reference::tests::reading;
    use super::*;

    const NOW: i64 = 1_790_000_000_000_000_000;
    const TAI: i64 = NOW + 37_000_000_000;

    #[test]
    fn what_is_not_there_is_named_with_the_reason() {
        for (name, why) in [
            ("/dev/ptp4000000000", "there is no such PTP hardware clock"),
            ("/dev/ptpx", "not a PTP hardware clock's name"),
            ("no-such-dev0", "no such interface"),
            ("lo", "has no PTP hardware clock"),
        ] {
            let Err(TestbedError::Refused(said)) = open(name) else { panic!("{name} is there") };
            assert!(said.starts_with(&format!("{name}: ")) && said.contains(why), "{said}");
        }
    }

    #[test]
    fn tai_and_utc_are_distinguished_and_an_unsynchronised_clock_is_neither() {
        let clock = reading(NOW, Status::SYNCHRONISED | Status::TAI_KNOWN);
        assert_eq!(epoch(NOW + 1_000_000, &clock), Some(Epoch::Utc));
        assert_eq!(epoch(TAI - 1_000_000, &clock), Some(Epoch::Tai));
        assert_eq!(epoch(NOW + 18_000_000_000, &clock), None, "GPS time, which no driver has");
        assert_eq!(epoch(12_345, &clock), None, "since it was switched on");
        assert_eq!(epoch(TAI, &reading(NOW, Status::SYNCHRONISED)), None, "without a known TAI it cannot be compared");
    }

    #[test]
    fn a_card_that_tells_tai_is_compared_with_tai() {
        let clock = reading(NOW, Status::SYNCHRONISED | Status::TAI_KNOWN);
        let pair = Pair { difference: 520, bound: 500, inside: true, repeated: 0 };
        assert_eq!(compared(&clock, Epoch::Tai, TAI + 520, 20), Some(pair), "it may be off by how it was read");
        assert_eq!(compared(&clock, Epoch::Utc, NOW + 521, 20), Some(Pair { difference: 521, inside: false, ..pair }));
        assert_eq!(compared(&clock, Epoch::Utc, NOW - 520, 20), Some(Pair { difference: -520, ..pair }));
        assert_eq!(compared(&reading(NOW, Status::WARMING_UP), Epoch::Utc, NOW, 0), None);
    }
}
