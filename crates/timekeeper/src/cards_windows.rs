//! Windows: no network card's clock is read, so packets are stamped by a driver that sees them
//! pass, by Winsock or by the program.

use crate::config::HardwareStamps;
use std::net::SocketAddr;
use std::sync::Arc;
use tickwire_stamping::nic::NicClock;
use tickwire_stamping::packet_observer::PacketObserver;

/// The cards: none.
#[derive(Debug)]
pub(crate) struct Cards {
    wanted: HardwareStamps,
    /// The driver that sees packets pass.
    pub(crate) observer: Option<Arc<dyn PacketObserver>>,
}

impl Cards {
    pub(crate) const fn new(wanted: HardwareStamps) -> Self {
        Self { wanted, observer: None }
    }

    /// The card by which a server is reached: none, and why.
    pub(crate) fn toward(&mut self, _: SocketAddr, _: i64) -> Result<Arc<NicClock>, String> {
        Err(match self.wanted {
            HardwareStamps::Never => "hardware_stamps = \"never\"",
            HardwareStamps::Auto | HardwareStamps::Enable => "the clocks of network cards are read on Linux only",
        }
        .into())
    }
}
