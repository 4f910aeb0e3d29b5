//! A network card: the kernel's path to an address, with timestamps of the card's driver, and of
//! the card itself if it makes them. The card's setting is not changed.

use crate::Wait;
use crate::error::AbsentMeasurement;
use crate::readout::driver;
use crate::sender::{Message, SendError, Sender};
use std::net::SocketAddr;
use tickwire_stamping::card::Card;
use tickwire_stamping::nic::NicClock;

/// A card, and the address to send to.
#[derive(Debug)]
pub(crate) struct CardPath {
    interface: String,
    to: SocketAddr,
    frame: u32,
    /// The card's clock, if it timestamps transmitted packets.
    clock: Option<u32>,
}

impl CardPath {
    /// Creates the path. Returns the reason too if the card makes no timestamps.
    pub(crate) fn new(interface: &str, to: SocketAddr, frame: u32) -> (Self, Option<AbsentMeasurement>) {
        let (clock, absent) = match stamping_clock(interface) {
            Ok(clock) => (Some(clock), None),
            Err(why) => (None, Some(AbsentMeasurement::new(&format!("stamps of {interface} on the wire"), &why))),
        };
        (Self { interface: interface.to_owned(), to, frame, clock }, absent)
    }

    /// Whether the card timestamps transmitted packets.
    pub(crate) const fn stamps(&self) -> bool {
        self.clock.is_some()
    }

    /// One run, with its warm-up.
    ///
    /// # Errors
    /// See [`Sender`].
    pub(crate) fn run(&self, wait: Wait, messages: u32) -> Result<Vec<Message>, SendError> {
        let mut sender = Sender::open(self.to, self.frame)?;
        sender.by(&self.interface)?;
        // The link speed does not matter for transmit timestamps.
        sender.stamp(self.clock.and_then(|number| NicClock::open(number, None).ok()))?;
        sender.transmit(wait, messages).map(|(messages, _)| messages)
    }
}

/// The number of the clock of the card's transmit timestamps.
fn stamping_clock(interface: &str) -> Result<u32, String> {
    let card = Card::named(interface).map_err(|error| error.to_string())?;
    let abilities = card.abilities().map_err(|error| error.to_string())?;
    let (Some(number), true) = (abilities.clock, abilities.transmit) else {
        return Err(format!("its driver ({}) offers no stamps of what leaves", driver(interface)));
    };
    // The setting belongs to the program that synchronises a clock by this card. The study only
    // measures and does not change it.
    if !card.setting().is_ok_and(|setting| setting.stamps_departures()) {
        return Err(format!(
            "the card is not set to stamp what leaves: `hwstamp_ctl -i {interface} -t 1` (linuxptp) does so"
        ));
    }
    NicClock::open(number, None).map(|_| number).map_err(|error| format!("/dev/ptp{number}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interface_that_does_not_stamp_is_named_and_its_driver_measured_all_the_same() {
        let (path, absent) = CardPath::new("lo", "127.0.0.1:9".parse().unwrap(), 166);
        assert!(!path.stamps());
        let absent = absent.unwrap();
        assert_eq!(absent.name, "stamps of lo on the wire");
        assert_eq!(absent.why, "its driver (none of hardware) offers no stamps of what leaves");
        let messages = path.run(Wait::Sleep, 10).unwrap();
        assert!(messages.iter().all(|message| message.driver.is_some() && message.wire.is_none()));
    }

    #[test]
    fn an_interface_that_is_not_there_is_an_error() {
        let (path, absent) = CardPath::new("nosuch0", "127.0.0.1:9".parse().unwrap(), 166);
        assert!(absent.is_some());
        let error = path.run(Wait::Sleep, 10).unwrap_err().to_string();
        assert!(error.starts_with("cannot send by nosuch0: ENODEV"), "{error}");
    }
}
