//! The host, as far as a network card and its lanes are concerned.

use std::time::Duration;
use tickwire_card_windows::card::NicDescription;
use tickwire_host_windows::{HostTables, IpHelperError, ResolutionLimits, ResolvedPath, WindowsHost};
use tickwire_lane::control::{Accelerated, AttachMode, Name, Reason};
use tickwire_stack::addr::Address;
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_steer::tables::{AddressKey, EgressNic, NicIndex, SourceKey, Tables};

/// How often a path is looked at: at most, and at least.
const SOON: Duration = Duration::from_millis(2);
const LATER: Duration = Duration::from_secs(1);

/// The host.
#[derive(Debug)]
pub struct AcceleratedHost {
    host: WindowsHost,
    /// The network card that is accelerated.
    nic: NicDescription,
}

impl AcceleratedHost {
    /// Reads what Windows knows.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn open(nic: NicDescription) -> Result<Self, IpHelperError> {
        Ok(Self { host: WindowsHost::open(ResolutionLimits::default())?, nic })
    }

    /// What divert and guard are to know of the host.
    #[must_use]
    pub fn tables(&self) -> Tables {
        let NicDescription { index: nic, mac, mtu } = self.nic;
        let mut tables = Tables::default();
        tables.nics.insert(nic, EgressNic { mtu });
        for address in addresses(self.host.tables(), nic) {
            tables.addresses.insert(AddressKey { nic, address }, mac);
            tables.sources.insert(SourceKey { address, mac }, nic);
        }
        tables
    }

    /// Reads addresses and routes again. Returns whether they have changed.
    ///
    /// # Errors
    /// If they cannot be read: what was known stays.
    pub(super) fn refresh(&mut self) -> Result<bool, IpHelperError> {
        self.host.refresh().map(|changes| !changes.is_empty())
    }

    /// Whether an address is one of the card.
    pub(super) fn is_ours(&self, address: Address) -> bool {
        addresses(self.host.tables(), self.nic.index).any(|own| own == address)
    }

    /// The card's addresses.
    pub(super) fn own_addresses(&self) -> Vec<Address> {
        addresses(self.host.tables(), self.nic.index).collect()
    }

    /// The card, as tools show it. `driver`: the name of what gives its packets.
    pub(super) fn describe(&self, driver: &str) -> Accelerated {
        let NicDescription { index, mac, mtu } = self.nic;
        let name = self.host.tables().interface(index).map_or("", |interface| &interface.alias);
        Accelerated {
            interface: index,
            name: Name::new(name),
            driver: Name::new(driver),
            mac,
            mtu,
            mode: AttachMode::Driver,
            reason: Reason::None,
        }
    }

    /// The longest packet of the card.
    pub(super) fn mtu(&self) -> u32 {
        self.nic.mtu
    }

    /// The path to a destination.
    pub(super) fn resolve(&mut self, query: &Query) -> ResolvedPath {
        let nic = self.nic.index;
        let is_ours: Vec<Address> = addresses(self.host.tables(), nic).collect();
        let accelerated = |interface, source: Address| match interface {
            _ if interface != nic => Err(Reason::Interface),
            _ if is_ours.contains(&source) => Ok(()),
            _ => Err(Reason::Address),
        };
        self.host.resolve(query, accelerated).unwrap_or_else(|error| {
            tracing::debug!(%error, destination = %query.destination, "a path cannot be found");
            let path = PathInfo { query: *query, state: PathState::Unreachable, ..PathInfo::default() };
            ResolvedPath { path, next_hop: None, reason: Reason::ServiceError }
        })
    }

    /// Looks at a path again. Returns whether it has changed.
    pub(super) fn update(&mut self, path: &mut ResolvedPath) -> bool {
        self.host.update(path).unwrap_or(false)
    }
}

/// When a path is to be looked at again that was asked for so long ago: soon while its neighbour is
/// being resolved, but ever later.
pub(super) fn interval(path: &ResolvedPath, age: Duration) -> Duration {
    if path.path.state == PathState::Resolving { (age / 4).clamp(SOON, LATER) } else { LATER }
}

fn addresses(tables: &HostTables, nic: NicIndex) -> impl Iterator<Item = Address> {
    tables.addresses_of(nic).iter().map(|own| own.address)
}
