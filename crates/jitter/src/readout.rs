//! Reads a network card's clock (section IV-A of the paper): the duration of a register read,
//! between two readings of the system's clock by the card's driver.

use crate::error::AbsentMeasurement;
use std::path::{Path, PathBuf};
use tickwire_stamping::card::Card;
use tickwire_stamping::phc::{Phc, Triple};

/// Size of the Ethernet header, in bytes.
const ETHERNET: u32 = 14;
/// Where the kernel lists interfaces.
const INTERFACES: &str = "/sys/class/net";

/// A card's clock.
#[derive(Debug)]
pub(crate) struct CardClock {
    pub(crate) interface: String,
    clock: Phc,
}

impl CardClock {
    /// The durations of `readings` readings, in ns.
    ///
    /// # Errors
    /// The clock cannot be read in a way that shows its duration.
    pub(crate) fn measure(&self, readings: usize) -> nix::Result<Vec<i64>> {
        measure(readings, || self.clock.read_register())
    }
}

fn measure(readings: usize, mut read: impl FnMut() -> nix::Result<Vec<Triple>>) -> nix::Result<Vec<i64>> {
    let mut took = Vec::with_capacity(readings);
    // Bounded, even if the clock is set all the time.
    for _ in 0..readings {
        // The duration is negative if the system's clock was set during it.
        took.extend(read()?.iter().map(|one| one.after - one.before).filter(|&took| took >= 0));
        if took.len() >= readings {
            break;
        }
    }
    took.truncate(readings);
    Ok(took)
}

/// The clocks of the named interface, or of all network cards of this machine. Interfaces without a
/// clock are returned with the reason.
pub(crate) fn clocks(only: Option<&str>) -> (Vec<CardClock>, Vec<AbsentMeasurement>) {
    let (mut found, mut absent) = (Vec::new(), Vec::new());
    let interfaces = only.map_or_else(|| hardware(Path::new(INTERFACES)), |one| vec![one.to_owned()]);
    if interfaces.is_empty() {
        absent.push(AbsentMeasurement::new("clock of a network card", "this machine has no network card"));
    }
    for interface in interfaces {
        match open(&interface) {
            Ok(clock) => found.push(CardClock { interface, clock }),
            Err(why) => absent.push(AbsentMeasurement::new(&format!("clock of {interface}"), &why)),
        }
    }
    (found, absent)
}

fn open(interface: &str) -> Result<Phc, String> {
    let abilities = Card::named(interface).and_then(|card| card.abilities()).map_err(|error| error.to_string())?;
    let Some(number) = abilities.clock else {
        return Err(format!("its driver ({}) offers no PTP hardware clock", driver(interface)));
    };
    Phc::open(number).map_err(|error| format!("/dev/ptp{number}: {error}"))
}

/// The interfaces with a hardware device.
fn hardware(interfaces: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(interfaces).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter(|entry| entry.path().join("device").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// The longest frame that an interface carries, in bytes; `None` if there is no such interface.
pub(crate) fn longest_frame(interface: &str) -> Option<u32> {
    // The name must not be a path.
    let place = Path::new(INTERFACES).join(interface).join("mtu");
    let mtu: u32 = std::fs::read_to_string(place).ok().filter(|_| !interface.contains('/'))?.trim().parse().ok()?;
    Some(mtu.saturating_add(ETHERNET))
}

/// The name of an interface's driver, if it has one.
pub(crate) fn driver(interface: &str) -> String {
    let link: PathBuf = Path::new(INTERFACES).join(interface).join("device/driver");
    let name = std::fs::read_link(link).ok().and_then(|link| Some(link.file_name()?.to_string_lossy().into_owned()));
    name.unwrap_or_else(|| "none of hardware".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::errno::Errno;

    #[test]
    fn what_readings_took_is_counted_until_there_are_enough() {
        let triple = |before, after| Triple { before, card: 7, after };
        let mut turns = 0;
        let took = measure(5, || {
            turns += 1;
            // The system's clock is set within one of them.
            Ok(vec![triple(100, 1_300), triple(2_000, 1_000), triple(5_000, 8_000)])
        });
        assert_eq!((took.unwrap(), turns), (vec![1_200, 3_000, 1_200, 3_000, 1_200], 3));
        assert_eq!(measure(5, || Ok(vec![triple(1, 0)])), Ok(vec![]), "it ends all the same");
        assert_eq!(measure(5, || Err(Errno::ENODEV)), Err(Errno::ENODEV));
    }

    #[test]
    fn an_interface_without_a_clock_is_named_with_the_reason() {
        let (found, absent) = clocks(Some("lo"));
        assert!(found.is_empty());
        assert_eq!(
            absent,
            [AbsentMeasurement::new("clock of lo", "its driver (none of hardware) offers no PTP hardware clock")]
        );
        let (found, absent) = clocks(Some("nosuch0"));
        assert!(found.is_empty() && absent[0].why.contains("ENODEV"), "{absent:?}");
    }

    #[test]
    fn every_card_of_this_machine_has_a_clock_or_a_reason() {
        let (found, absent) = clocks(None);
        let cards = hardware(Path::new(INTERFACES));
        assert_eq!(found.len() + absent.len(), cards.len().max(1), "{found:?} {absent:?}");
        for clock in &found {
            assert!(clock.measure(100).is_ok_and(|took| took.iter().all(|&ns| ns >= 0)), "{clock:?}");
        }
    }

    #[test]
    fn only_what_has_a_device_is_a_card() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(directory.path().join("eth0/device")).unwrap();
        std::fs::create_dir_all(directory.path().join("veth1")).unwrap();
        assert_eq!(hardware(directory.path()), ["eth0"]);
        assert!(hardware(&directory.path().join("none")).is_empty());
    }
}
