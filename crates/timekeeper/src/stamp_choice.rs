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
pub(crate) enum Stamps {
    Card,
    Kernel,
    /// None: the exchange is dropped.
    Neither,
}

/// Which timestamps are in use.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StampChoice {
    /// Whether the card's; `None` before the first exchange.
    card: Option<bool>,
    /// Exchanges in a row of the other kind.
    otherwise: u32,
}

impl StampChoice {
    /// Decides on an exchange. `card`: whether the card has timestamped its packets; `None` if no
    /// card does.
    pub(crate) fn take(&mut self, card: Option<bool>) -> Stamps {
        let Some(has) = card else {
            // The route or the card's setting has changed, which is not transient.
            *self = Self { card: Some(false), otherwise: 0 };
            return Stamps::Kernel;
        };
        let before = *self.card.get_or_insert(has);
        self.otherwise = if has == before { 0 } else { self.otherwise + 1 };
        if self.otherwise >= if before { LACKING } else { HAVING } {
            *self = Self { card: Some(has), otherwise: 0 };
        }
        match (self.card == Some(true), has) {
            (true, true) => Stamps::Card,
            (true, false) => Stamps::Neither,
            (false, _) => Stamps::Kernel,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_exchange_decides() {
        assert_eq!(StampChoice::default().take(Some(true)), Stamps::Card);
        assert_eq!(StampChoice::default().take(Some(false)), Stamps::Kernel);
        assert_eq!(StampChoice::default().take(None), Stamps::Kernel);
    }

    #[test]
    fn a_card_that_loses_some_does_not_make_the_clock_change_between_two_kinds() {
        let mut choice = StampChoice::default();
        for number in 0..1000 {
            let has = number % LACKING == 0;
            assert_eq!(choice.take(Some(has)), if has { Stamps::Card } else { Stamps::Neither }, "{number}");
        }
        let mut choice = StampChoice::default();
        for number in 0..1000 {
            assert_eq!(choice.take(Some(number % HAVING != 0)), Stamps::Kernel, "{number}");
        }
    }

    #[test]
    fn what_lasts_is_followed() {
        let mut choice = StampChoice::default();
        let mut run = |card: Option<bool>| (0..40).map(|_| choice.take(card)).collect::<Vec<_>>();
        assert_eq!(run(Some(true)), [Stamps::Card; 40]);
        let lacking = run(Some(false));
        assert_eq!(lacking[..7], [Stamps::Neither; 7]);
        assert_eq!(lacking[7..], [Stamps::Kernel; 33]);
        let back = run(Some(true));
        assert_eq!((&back[..15], &back[15..]), (&[Stamps::Kernel; 15][..], &[Stamps::Card; 25][..]));
        assert_eq!(run(None), [Stamps::Kernel; 40], "there is no card any more: at once");
    }
}
