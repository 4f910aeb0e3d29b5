//! Network cards that timestamp packets: which one leads to a server, whether its timestamps can be
//! used, and if not, why. A changed card setting is restored at the end.

use crate::config::HardwareStamps;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use tickwire_host::{RouteKind, RouteNetlink, RouteQuery};
use tickwire_stamping::card::{Abilities, Card, TimestampSetting};
use tickwire_stamping::nic::NicClock;
use tracing::{info, warn};

/// Interval between two looks at an interface, in ns: its setting, its link's speed, or the device
/// below it may have changed.
const LOOK_AGAIN: i64 = 10_000_000_000;

/// A card, or why there is none.
type NicOrReason = Result<Arc<NicClock>, String>;

/// The cards of the network namespace in which this was made.
#[derive(Debug)]
pub(crate) struct Cards {
    wanted: HardwareStamps,
    host: Option<RouteNetlink>,
    /// By interface index.
    interfaces: BTreeMap<u32, Interface>,
}

/// An interface as it was found.
#[derive(Debug)]
struct Interface {
    name: String,
    looked: i64,
    found: NicOrReason,
    changed: Option<Changed>,
}

/// A setting that was changed.
#[derive(Debug)]
struct Changed {
    card: Card,
    before: TimestampSetting,
    ours: TimestampSetting,
}

impl Drop for Changed {
    fn drop(&mut self) {
        // Unless another program has changed it since.
        if self.card.setting() == Ok(self.ours) {
            match self.card.set(self.before) {
                Ok(_) => info!(interface = self.card.name(), "its time stamps are set as they were"),
                Err(error) => {
                    warn!(interface = self.card.name(), %error, "its time stamps cannot be set as they were")
                }
            }
        }
    }
}

impl Cards {
    pub(crate) fn new(wanted: HardwareStamps) -> Self {
        let host = (wanted != HardwareStamps::Never).then(|| RouteNetlink::open().ok()).flatten();
        Self { wanted, host, interfaces: BTreeMap::new() }
    }

    /// The card by which a server is reached now.
    pub(crate) fn toward(&mut self, server: SocketAddr, now: i64) -> NicOrReason {
        if self.wanted == HardwareStamps::Never {
            return Err("hardware_stamps = \"never\"".into());
        }
        let host = self.host.as_mut().ok_or("the kernel does not tell its routes")?;
        let interface = match server {
            SocketAddr::V6(address) => address.scope_id(),
            SocketAddr::V4(_) => 0,
        };
        let destination = match server.ip().to_canonical() {
            IpAddr::V4(address) => address.into(),
            IpAddr::V6(address) => address.into(),
        };
        let query = RouteQuery { interface, ..RouteQuery::to(destination) };
        let route = host.route(&query).map_err(|error| error.to_string())?;
        match route.kind {
            RouteKind::Local => return Err("the server is on this host".into()),
            RouteKind::Unreachable => return Err("there is no route to the server".into()),
            RouteKind::Unicast | RouteKind::Broadcast | RouteKind::Multicast => {}
        }
        let known = self.interfaces.get(&route.interface);
        if known.is_none_or(|known| now - known.looked >= LOOK_AGAIN) {
            self.look(route.interface, now);
        }
        self.interfaces
            .get(&route.interface)
            .map_or_else(|| Err("the interface is gone".into()), |one| one.found.clone())
    }

    fn look(&mut self, index: u32, now: i64) {
        let link = self.host.as_mut().and_then(|host| host.link_by_index(index).ok().flatten());
        let Some(link) = link else {
            self.interfaces.remove(&index);
            return;
        };
        let before = self.interfaces.remove(&index);
        // An index may be reused by another interface; the saved setting goes with the old one.
        let mut interface = before.filter(|before| before.name == link.name).unwrap_or_else(|| Interface {
            name: link.name.clone(),
            looked: now,
            found: Err(String::new()),
            changed: None,
        });
        interface.looked = now;
        let found = interface.find(self.wanted);
        match (&interface.found, &found) {
            (Err(_), Ok(nic)) => {
                info!(interface = link.name, link_mbits = nic.mbits(), "the network card's time stamps are used");
            }
            (Ok(_), Err(why)) => {
                info!(interface = link.name, why, "the network card's time stamps are not used any more")
            }
            // Logged once, and only if they were requested.
            (Err(before), Err(why)) if self.wanted == HardwareStamps::Enable && before != why => {
                warn!(interface = link.name, why, "there are no hardware time stamps");
            }
            _ => {}
        }
        interface.found = found;
        self.interfaces.insert(index, interface);
    }
}

impl Interface {
    fn find(&mut self, wanted: HardwareStamps) -> NicOrReason {
        let name = &self.name;
        let card = Card::named(name).map_err(|error| format!("{name}: {error}"))?;
        let abilities = card.abilities().map_err(|error| format!("{name}: {error}"))?;
        let Some(clock) = abilities.clock else { return Err(format!("{name} has no clock that stamps packets")) };
        let setting = card.setting().map_err(|error| format!("{name} does not tell what it stamps: {error}"))?;
        let mbits = card.speed();
        if !setting.stamps_ntp() {
            // If another program has changed our setting, its setting is now the one to restore.
            self.changed = None;
            self.changed = Some(Changed::make(card, setting, &abilities, wanted)?);
        }
        match &self.found {
            Ok(nic) if nic.is(clock, mbits) => Ok(Arc::clone(nic)),
            _ => NicClock::open(clock, mbits).map(Arc::new).map_err(|error| format!("/dev/ptp{clock}: {error}")),
        }
    }
}

impl Changed {
    /// Sets a card to timestamp what NTP needs.
    fn make(
        card: Card,
        before: TimestampSetting,
        abilities: &Abilities,
        wanted: HardwareStamps,
    ) -> Result<Self, String> {
        let name = card.name();
        let Some(setting) = before.with_ntp(abilities) else {
            return Err(format!("{name} cannot stamp the packets of NTP, both ways"));
        };
        if wanted != HardwareStamps::Enable {
            return Err(format!("{name} is not set to stamp the packets of NTP (hardware_stamps = \"enable\")"));
        }
        let ours = card.set(setting).map_err(|error| format!("{name} cannot be set to stamp packets: {error}"))?;
        if !ours.stamps_ntp() {
            let refused = format!("{name} was set to stamp packets, and does not");
            drop(Self { card, before, ours });
            return Err(refused);
        }
        info!(interface = name, "set to stamp packets; it is set back at the end");
        Ok(Self { card, before, ours })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_on_this_host_is_behind_no_card() {
        let mut cards = Cards::new(HardwareStamps::Auto);
        for address in ["127.0.0.1:123", "[::1]:123", "[::ffff:127.0.0.1]:123"] {
            assert_eq!(cards.toward(address.parse().unwrap(), 0).unwrap_err(), "the server is on this host");
        }
        let never = Cards::new(HardwareStamps::Never).toward("192.0.2.1:123".parse().unwrap(), 0);
        assert_eq!(never.unwrap_err(), "hardware_stamps = \"never\"");
    }
}
