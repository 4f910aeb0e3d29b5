//! The measured quantities and their two moments.

use crate::pace::Wait;
use crate::sender::Message;
use serde::Serialize;

/// The stack that carried the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MessageCarrier {
    /// The kernel's.
    Kernel,
    /// Tickwire's.
    Tickwire,
}

impl MessageCarrier {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Tickwire => "Tickwire",
        }
    }
}

/// A measured quantity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Quantity {
    /// How long it takes to read the register of a network card's clock.
    ClockReadout,
    /// From just before the send call to the driver's timestamp, made when it passes the message to
    /// its card.
    CallToDriver,
    /// From the same moment to the card's timestamp.
    CallToWire,
    /// From the same moment to the kernel's timestamp at the peer, when the peer's driver has
    /// delivered the message.
    CallToPeer,
    /// From the message's planned instant to the driver's timestamp.
    InstantToDriver,
    /// From the instant to the card's timestamp.
    InstantToWire,
    /// From the instant to the peer's timestamp.
    InstantToPeer,
}

/// Where a message is timestamped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    Driver,
    Wire,
    Peer,
}

impl Point {
    /// The quantities from its timestamps after this wait. The duration of a call is reported for
    /// watched waits only: after a sleep the processor's caches are cold to a varying degree, and
    /// the deviation includes that.
    pub(crate) fn quantities(self, wait: Wait) -> Vec<Quantity> {
        let (call, instant) = match self {
            Self::Driver => (Quantity::CallToDriver, Quantity::InstantToDriver),
            Self::Wire => (Quantity::CallToWire, Quantity::InstantToWire),
            Self::Peer => (Quantity::CallToPeer, Quantity::InstantToPeer),
        };
        match wait {
            Wait::Watch => vec![call, instant],
            Wait::Sleep => vec![instant],
        }
    }
}

impl Quantity {
    /// The value for one message in ns; `None` if it has no such timestamp.
    pub(crate) fn of(self, message: &Message) -> Option<i64> {
        let (from, to) = match self {
            Self::ClockReadout => return None,
            Self::CallToDriver => (message.call, message.driver),
            Self::CallToWire => (message.call, message.wire),
            Self::CallToPeer => (message.call, message.peer),
            Self::InstantToDriver => (message.due, message.driver),
            Self::InstantToWire => (message.due, message.wire),
            Self::InstantToPeer => (message.due, message.peer),
        };
        to.map(|to| to - from)
    }

    /// The heading; `wait` is given for a deviation.
    #[must_use]
    pub fn title(self, wait: Option<Wait>) -> String {
        let what = match self {
            Self::ClockReadout => "Reading a network card's clock",
            Self::CallToDriver => "From the call to the driver",
            Self::CallToWire => "From the call to the wire",
            Self::CallToPeer => "From the call to the peer's driver",
            Self::InstantToDriver => "From the instant to the driver",
            Self::InstantToWire => "From the instant to the wire",
            Self::InstantToPeer => "From the instant to the peer's driver",
        };
        match wait {
            Some(wait) => format!("{what}, {}", wait.name()),
            None => what.to_owned(),
        }
    }

    /// Whether it is the deviation from the instant, which depends on the kind of wait.
    pub(crate) const fn is_deviation(self) -> bool {
        matches!(self, Self::InstantToDriver | Self::InstantToWire | Self::InstantToPeer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_quantity_lies_between_its_two_moments() {
        let message = Message { due: 1_000, call: 1_100, driver: Some(1_400), wire: Some(2_000), peer: None };
        let quantities: Vec<Quantity> =
            [Point::Driver, Point::Wire, Point::Peer].iter().flat_map(|point| point.quantities(Wait::Watch)).collect();
        let of: Vec<Option<i64>> = quantities.iter().map(|quantity| quantity.of(&message)).collect();
        assert_eq!(of, [Some(300), Some(400), Some(900), Some(1_000), None, None]);
        assert_eq!(Point::Driver.quantities(Wait::Sleep), [Quantity::InstantToDriver]);
        assert!(quantities.iter().filter(|quantity| quantity.is_deviation()).count() == 3);
    }
}
