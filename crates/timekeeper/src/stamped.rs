//! By whose stamps a server's exchanges are told to the clock: the network card's or the kernel's,
//! and never by both in turn.
//!
//! Between the two lies the way from the wire to the kernel, microseconds that differ by direction.
//! To the clock a change from one to the other is a change of the path, whose asymmetry it can only
//! learn while it knows the time well. So a change is made seldom: an exchange that lacks the
//! card's stamps is left out while most have them, and a card must have stamped some time before it
//! is relied on.

/// So many exchanges in a row without the card's stamps, and the kernel's are used: before a server
/// counts as silent (see `source::patience`).
const LACKING: u32 = 8;
/// So many in a row with the card's, and they are used.
const HAVING: u32 = 16;

/// What becomes of an exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    Card,
    Kernel,
    /// It is left out.
    Nobody,
}

/// Whose stamps are used.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Stamped {
    /// None before the first exchange.
    card: Option<bool>,
    /// Exchanges in a row that were otherwise.
    otherwise: u32,
}

impl Stamped {
    /// An exchange: whether its packets were stamped by a card; None if there is no card that does
    /// so.
    pub(crate) fn take(&mut self, card: Option<bool>) -> By {
        let Some(has) = card else {
            // By another way, or the card is set otherwise: that does not pass.
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
        assert_eq!(Stamped::default().take(Some(true)), By::Card);
        assert_eq!(Stamped::default().take(Some(false)), By::Kernel);
        assert_eq!(Stamped::default().take(None), By::Kernel);
    }

    #[test]
    fn a_card_that_loses_some_does_not_make_the_clock_change_between_two_kinds() {
        let mut stamped = Stamped::default();
        for number in 0..1000 {
            let has = number % LACKING == 0;
            assert_eq!(stamped.take(Some(has)), if has { By::Card } else { By::Nobody }, "{number}");
        }
        let mut stamped = Stamped::default();
        for number in 0..1000 {
            assert_eq!(stamped.take(Some(number % HAVING != 0)), By::Kernel, "{number}");
        }
    }

    #[test]
    fn what_lasts_is_followed() {
        let mut stamped = Stamped::default();
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
