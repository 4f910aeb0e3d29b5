//! Opens a card by the name of its driver and of its interface.

use crate::card::{CardClock, NicDescription, PacketCard};
use crate::lab::LabCard;
use crate::windivert::diverted_card::DivertedCard;
use crate::windivert::error::WinDivertError;
use crate::windivert::handle::WinDivertDriver;
use crate::windivert::library::WinDivertLibrary;
use crate::without_driver::CardWithoutDriver;
use crate::xdp::error::XdpError;
use crate::xdp::kernel_driver::KernelDriver;
use crate::xdp::xdp_card::XdpCard;
use std::io;
use std::str::FromStr;
use tickwire_host_windows::{HostInterface, IpHelperError, read_tables};
use tickwire_stack::addr::Family;

/// A driver of network cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CardDriver {
    /// WinDivert 2.2.
    WinDivert,
    /// XDP for Windows, 1.1 or later.
    Xdp,
    /// The card of the test lab, under Wine.
    Lab,
    /// None: there are no packets.
    None,
}

impl CardDriver {
    /// Its name, which [`FromStr`] reads.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WinDivert => "windivert",
            Self::Xdp => "xdp",
            Self::Lab => "lab",
            Self::None => "none",
        }
    }
}

impl FromStr for CardDriver {
    type Err = OpenCardError;

    fn from_str(name: &str) -> Result<Self, OpenCardError> {
        match name {
            "windivert" => Ok(Self::WinDivert),
            "xdp" => Ok(Self::Xdp),
            "lab" => Ok(Self::Lab),
            "none" => Ok(Self::None),
            _ => Err(OpenCardError::NoDriver { name: name.into() }),
        }
    }
}

/// Why a card cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenCardError {
    /// There is no such driver.
    #[error("no driver is called {name}: use windivert or xdp, or none for no driver (or lab, in the test lab)")]
    NoDriver {
        /// The name.
        name: String,
    },
    /// There is no such interface.
    #[error("no interface has the name or index {name}: use one of {}", known.join(", "))]
    NoInterface {
        /// The name.
        name: String,
        /// Those that can be used.
        known: Vec<String>,
    },
    /// The interface is not one of Ethernet.
    #[error("the interface {name} is not one of Ethernet or wireless LAN: use another one")]
    NotEthernet {
        /// Its name.
        name: String,
    },
    /// Windows does not list its interfaces.
    #[error(transparent)]
    IpHelper(#[from] IpHelperError),
    /// WinDivert cannot be used.
    #[error(transparent)]
    WinDivert(#[from] WinDivertError),
    /// XDP cannot be used.
    #[error(transparent)]
    Xdp(#[from] XdpError),
    /// The lab's card cannot be opened.
    #[error("the card of the test lab cannot be opened: {0}")]
    Lab(#[source] io::Error),
    /// Windows refuses something else.
    #[error("the card cannot be opened: {0}")]
    Windows(#[from] io::Error),
}

/// An open card, and its interface.
pub struct OpenedCard {
    /// The card.
    pub card: Box<dyn PacketCard>,
    /// Its interface.
    pub nic: NicDescription,
}

/// Opens a card on an interface, by the name that Windows shows or its index. (The lab's card goes
/// by the name on Linux.)
///
/// # Errors
/// [`OpenCardError`].
pub fn open(driver: CardDriver, interface: &str, clock: CardClock) -> Result<OpenedCard, OpenCardError> {
    match driver {
        CardDriver::Lab => {
            let card = LabCard::open(interface, clock.now).map_err(OpenCardError::Lab)?;
            let nic = NicDescription { index: card.nic(), mac: card.mac(), mtu: card.mtu() };
            Ok(OpenedCard { card: Box::new(card), nic })
        }
        CardDriver::WinDivert => {
            let nic = find(read_tables()?.interfaces(), interface)?;
            let driver = WinDivertDriver::new(WinDivertLibrary::beside_program()?)?;
            let card = DivertedCard::open(driver, nic, clock)?;
            Ok(OpenedCard { card: Box::new(card), nic })
        }
        CardDriver::Xdp => {
            let nic = find(read_tables()?.interfaces(), interface)?;
            KernelDriver::check()?;
            let card = XdpCard::open(KernelDriver::new()?, nic, clock)?;
            Ok(OpenedCard { card: Box::new(card), nic })
        }
        CardDriver::None => {
            let nic = find(read_tables()?.interfaces(), interface)?;
            Ok(OpenedCard { card: Box::new(CardWithoutDriver::new(nic)), nic })
        }
    }
}

fn find(interfaces: &[HostInterface], name: &str) -> Result<NicDescription, OpenCardError> {
    // A name goes before an index: it may be a number.
    let by_name = interfaces.iter().find(|interface| interface.alias == name);
    let by_index = || interfaces.iter().find(|interface| name.parse() == Ok(interface.index));
    let found = by_name.or_else(by_index).ok_or_else(|| {
        let usable = interfaces.iter().filter(|interface| interface.ethernet().is_some());
        let known = usable.map(|interface| format!("\"{}\" ({})", interface.alias, interface.index)).collect();
        OpenCardError::NoInterface { name: name.into(), known }
    })?;
    let mac = found.ethernet().ok_or_else(|| OpenCardError::NotEthernet { name: found.alias.clone() })?;
    let mtu = |family| found.settings(family).map(|settings| settings.mtu);
    let mtu = mtu(Family::V4).max(mtu(Family::V6)).unwrap_or(1500);
    Ok(NicDescription { index: found.index, mac, mtu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_host_windows::{FamilySettings, InterfaceKind};
    use tickwire_stack::addr::Mac;

    fn interface(index: u32, alias: &str, kind: InterfaceKind, mac: Option<Mac>) -> HostInterface {
        let settings = |mtu| Some(FamilySettings { mtu, metric: 1, weak_host_send: false });
        let (alias, description) = (alias.into(), String::new());
        let (v4, v6) = (settings(1400), settings(1500));
        HostInterface { index, luid: 0, alias, description, kind, mac, is_up: true, v4, v6 }
    }

    #[test]
    fn an_interface_is_found_by_its_name_or_index() {
        let mac = Mac([2, 0, 0, 0, 0, 1]);
        let all = [
            interface(1, "Loopback", InterfaceKind::Loopback, None),
            interface(5, "Ethernet 2", InterfaceKind::Ethernet, Some(mac)),
            interface(7, "5", InterfaceKind::Wireless, Some(mac)),
        ];
        let index = |name| find(&all, name).map(|nic| nic.index);
        assert_eq!(index("Ethernet 2").unwrap(), 5);
        assert_eq!(index("7").unwrap(), 7);
        assert_eq!(index("5").unwrap(), 7, "its name");
        assert_eq!(find(&all, "Ethernet 2").unwrap(), NicDescription { index: 5, mac, mtu: 1500 });
        let missing = index("Ethernet 3").unwrap_err().to_string();
        assert!(missing.contains("use one of \"Ethernet 2\" (5), \"5\" (7)"), "{missing}");
        assert!(index("Loopback").unwrap_err().to_string().contains("not one of Ethernet"));
    }

    #[test]
    fn a_driver_has_a_name() {
        for driver in [CardDriver::WinDivert, CardDriver::Xdp, CardDriver::Lab, CardDriver::None] {
            assert_eq!(driver.name().parse::<CardDriver>().unwrap(), driver);
        }
        assert!("pcap".parse::<CardDriver>().unwrap_err().to_string().contains("use windivert"));
    }
}
