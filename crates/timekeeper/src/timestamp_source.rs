//! Which timestamps a server's exchanges are passed to the clock with: the network card's or the
//! kernel's, and never both in turn.
//!
//! The two differ by the delay between wire and kernel: microseconds that depend on the direction.
//! To the clock a change from one to the other is a path change, whose asymmetry it can learn only
//! while it knows the time well. So changes are rare. An exchange without the card's timestamps is
//! dropped while most have them. A switch from the kernel's to the card's needs a run of exchanges
//! that have them.

/// After so many exchanges in a row without the card's timestamps the kernel's are used: before the
/// server counts as silent (see `source::silence_timeout`).
const LACKING: u32 = 8;
/// After so many in a row with the card's timestamps those are used.
const HAVING: u32 = 16;

/// Which timestamps an exchange is used with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Card,
    Kernel,
    /// None: the exchange is dropped.
    Nobody,
}

/// Which timestamps are in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimestampSource {
    /// Whether the card's; `None` before the first exchange.
    card: Option<bool>,
    /// Exchanges in a row of the other kind.
    otherwise: u32,
}

impl TimestampSource {
    /// Decides on an exchange. `card`: whether the card has timestamped its packets; `None` if no
    /// card does.
    pub(crate) fn take(&mut self, card: Option<bool>) -> By {
        let Some(has) = card else {
            // The route or the card's setting has changed, which is not transient.
            *self = Self { card: Some(false), otherwise: 0 };
            return By::Kernel;
        };
        let before = *self.card.get_or_insert(has);
        self.otherwise = if has == before { 0 } else { self.otherwise + 1 };
        if self.otherwise >= if before { LACKING } else { HAVING } {
            *self = Self { card: Some(has), otherwise: 0 };
        }
        match (self.card == Some(true), has) {
            (true, true) => By::Card,
            (true, false) => By::Nobody,
            (false, _) => By::Kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_exchange_decides() {
        assert_eq!(TimestampSource::default().take(Some(true)), By::Card);
        assert_eq!(TimestampSource::default().take(Some(false)), By::Kernel);
        assert_eq!(TimestampSource::default().take(None), By::Kernel);
    }

    #[test]
    fn a_card_that_loses_some_does_not_make_the_clock_change_between_two_kinds() {
        let mut stamped = TimestampSource::default();
        for number in 0..1000 {
            let has = number % LACKING == 0;
            assert_eq!(stamped.take(Some(has)), if has { By::Card } else { By::Nobody }, "{number}");
        }
        let mut stamped = TimestampSource::default();
        for number in 0..1000 {
            assert_eq!(stamped.take(Some(number % HAVING != 0)), By::Kernel, "{number}");
        }
    }

    #[test]
    fn what_lasts_is_followed() {
        let mut stamped = TimestampSource::default();
        let mut run = |card: Option<bool>| (0..40).map(|_| stamped.take(card)).collect::<Vec<_>>();
        assert_eq!(run(Some(true)), [By::Card; 40]);
        let lacking = run(Some(false));
        assert_eq!(lacking[..7], [By::Nobody; 7]);
        assert_eq!(lacking[7..], [By::Kernel; 33]);
        let back = run(Some(true));
        assert_eq!((&back[..15], &back[15..]), (&[By::Kernel; 15][..], &[By::Card; 25][..]));
        assert_eq!(run(None), [By::Kernel; 40], "there is no card any more: at once");
    }
}
