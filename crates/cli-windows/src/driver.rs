//! The drivers that users may choose, and opening a network card by one. A new one is another
//! [`Driver`], beside its code in `tickwire-card-windows`.

use crate::sys;
use anyhow::{Result, bail};
use clap::ValueEnum;
use tickwire_card_windows::card::CardClock;
use tickwire_card_windows::open::{CardDriver, OpenedCard, open as open_card};
use tickwire_card_windows::windivert::library::{LIBRARY, WinDivertLibrary};
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
    /// The card of the test lab, under Wine only
    Lab,
}

impl Driver {
    /// Its name, as on the command line.
    pub(crate) const fn name(self) -> &'static str {
        self.card().name()
    }

    const fn card(self) -> CardDriver {
        match self {
            Self::WinDivert => CardDriver::WinDivert,
            Self::Lab => CardDriver::Lab,
        }
    }

    /// The library by which it is used, if that is there. (Whether the driver itself can be loaded
    /// is seen only when a card is opened.)
    fn library(self) -> Result<&'static str> {
        match self {
            Self::WinDivert => {
                WinDivertLibrary::beside_program()?;
                Ok(LIBRARY)
            }
            Self::Lab if sys::has_library(LAB_LIBRARY) => Ok(LAB_LIBRARY),
            Self::Lab => bail!("there is no {LAB_LIBRARY}: use another driver outside of the test lab"),
        }
    }

    /// The first that is there. The error is that of the preferred one.
    fn first() -> Result<Self> {
        let lab = || Self::Lab.library().is_ok().then_some(Self::Lab);
        match Self::WinDivert.library() {
            Ok(_) => Ok(Self::WinDivert),
            Err(error) => lab().ok_or(error),
        }
    }
}

/// Opens a card by this driver, or by the first that is there. Returns which one it is.
pub(crate) fn open(driver: Option<Driver>, interface: &HostInterface) -> Result<(OpenedCard, Driver)> {
    let driver = driver.map_or_else(Driver::first, Ok)?;
    driver.library()?;
    let clock = CardClock { now: clock::now, at_count: clock::at_count };
    Ok((open_card(driver.card(), &interface.alias, clock)?, driver))
}

/// For `tickwire doctor`.
pub(crate) fn check() -> Finding {
    match Driver::first().and_then(|driver| Ok((driver, driver.library()?))) {
        Ok((driver, library)) => Finding::good("driver", format!("{} ({library})", driver.name())),
        Err(error) => Finding::missing("driver", "none can be used", error.to_string()),
    }
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
        assert!(Driver::Lab.library().unwrap_err().to_string().contains("outside of the test lab"));
    }
}
