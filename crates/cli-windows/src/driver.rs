//! The drivers that users may choose, and opening a network card by one. A new one is another
//! [`Driver`], beside its code in `tickwire-card-windows`.

use crate::sys;
use anyhow::{Result, bail};
use clap::ValueEnum;
use tickwire_card_windows::card::CardClock;
use tickwire_card_windows::open::{CardDriver, OpenedCard, open as open_card};
use tickwire_card_windows::windivert::library::{LIBRARY, WinDivertLibrary};
use tickwire_card_windows::xdp::error::XdpError;
use tickwire_card_windows::xdp::kernel_driver::KernelDriver;
use tickwire_card_windows::xdp::version;
use tickwire_host_windows::HostInterface;
use tickwire_lane_windows::clock;
use tickwire_show::finding::Finding;

/// The library of the lab's card.
const LAB_LIBRARY: &str = "tickwire_lab_card.dll";

/// What gives a card's packets to the service. The preferred one is the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Driver {
    /// WinDivert 2.2, whose files are beside tickwire.exe
    #[value(name = "windivert")]
    WinDivert,
    /// XDP for Windows 1.1 or later; its authors support it on Windows Server 2019 and 2022 only
    Xdp,
    /// The card of the test lab, under Wine only
    Lab,
    /// No driver: programs stay on Windows' own sockets, and their library polls those
    None,
}

impl Driver {
    /// Its name, as on the command line.
    pub(crate) const fn name(self) -> &'static str {
        self.card().name()
    }

    const fn card(self) -> CardDriver {
        match self {
            Self::WinDivert => CardDriver::WinDivert,
            Self::Xdp => CardDriver::Xdp,
            Self::Lab => CardDriver::Lab,
            Self::None => CardDriver::None,
        }
    }

    /// What it is used by, if that is there: a library, or the driver's file. (Whether the driver
    /// itself can be opened is seen only when a card is.)
    fn part(self) -> Result<String> {
        match self {
            Self::WinDivert => {
                WinDivertLibrary::beside_program()?;
                Ok(LIBRARY.into())
            }
            Self::Xdp => match KernelDriver::check() {
                // It is there; the service has the right.
                Ok(()) | Err(XdpError::NoRight) => Ok(xdp_version()),
                Err(error) => Err(error.into()),
            },
            Self::Lab if sys::has_library(LAB_LIBRARY) => Ok(LAB_LIBRARY.into()),
            Self::Lab => bail!("there is no {LAB_LIBRARY}: use another driver outside of the test lab"),
            Self::None => Ok("none".to_owned()),
        }
    }

    /// The first that is there. The error is that of the preferred one.
    fn first() -> Result<Self> {
        match Self::WinDivert.part() {
            Ok(_) => Ok(Self::WinDivert),
            Err(error) => [Self::Xdp, Self::Lab].into_iter().find(|other| other.part().is_ok()).ok_or(error),
        }
    }
}

/// The version of XDP's driver, for display.
fn xdp_version() -> String {
    match version::installed() {
        Some([major, minor, patch, _]) => format!("xdp.sys {major}.{minor}.{patch}"),
        None => "xdp.sys of an unknown version".into(),
    }
}

/// Opens a card by this driver, or by the first that is there. Returns which one it is.
pub(crate) fn open(driver: Option<Driver>, interface: &HostInterface) -> Result<(OpenedCard, Driver)> {
    let driver = driver.map_or_else(Driver::first, Ok)?;
    driver.part()?;
    let clock = CardClock { now: clock::now, at_count: clock::at_count };
    Ok((open_card(driver.card(), &interface.alias, clock)?, driver))
}

/// For `tickwire doctor`.
pub(crate) fn check() -> Finding {
    match Driver::first().and_then(|driver| Ok((driver, driver.part()?))) {
        Ok((driver @ Driver::Xdp, part)) => found_xdp(&format!("{} ({part})", driver.name()), sys::is_server()),
        Ok((driver, part)) => Finding::good("driver", format!("{} ({part})", driver.name())),
        Err(error) => Finding::missing("driver", "none can be used", error.to_string()),
    }
}

/// XDP is there.
fn found_xdp(found: &str, is_server: bool) -> Finding {
    if is_server {
        return Finding::good("driver", found);
    }
    Finding::improve(
        "driver",
        format!("{found}, which its authors support on Windows Server 2019 and 2022 only"),
        "put WinDivert.dll and WinDivert64.sys of WinDivert 2.2 beside the program if XDP gives trouble",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_have_the_names_of_the_command_line() {
        for driver in Driver::value_variants() {
            assert_eq!(driver.to_possible_value().unwrap().get_name(), driver.name());
        }
    }

    #[test]
    fn without_a_driver_it_is_said_what_to_put_where() {
        // (The tests run outside of the lab, and no driver's library is beside them.)
        assert!(check().to_string().contains("WinDivert64.sys of WinDivert 2.2 beside the program"), "{}", check());
        assert!(Driver::Xdp.part().unwrap_err().to_string().contains("XDP for Windows is not installed"));
        assert!(Driver::Lab.part().unwrap_err().to_string().contains("outside of the test lab"));
    }

    #[test]
    fn it_is_said_where_xdp_is_not_supported_by_its_authors() {
        assert!(found_xdp("xdp (xdp.sys 1.3.0)", false).to_string().contains("on Windows Server 2019 and 2022 only"));
        assert!(!found_xdp("xdp (xdp.sys 1.3.0)", true).to_string().contains("only"));
        assert_eq!(xdp_version(), "xdp.sys of an unknown version");
    }
}
