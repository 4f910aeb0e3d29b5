//! Events of the host, and what follows from them for interfaces, claims and paths.

use super::Service;
use crate::paths::Effect;
use tickwire_host::{InterfaceAddress, NetworkEvent};
use tickwire_lane::control::{Push, Reason};
use tickwire_stack::addr::Address;

/// At most so many batches of events are handled before the loop continues.
const TURN: usize = 64;

impl Service {
    /// Reads all interfaces and addresses, at the start and after events were lost.
    pub(crate) fn take_inventory(&mut self) -> tickwire_host::Result<()> {
        let links = self.paths.host.links()?;
        for index in self.paths.nics.known() {
            if links.iter().all(|link| link.index != index) {
                self.link_effect(NetworkEvent::LinkGone(gone(index)));
            }
        }
        for link in links {
            self.link_effect(NetworkEvent::Link(link));
        }
        let addresses = self.paths.host.addresses()?;
        for old in self.paths.nics.interface_addresses() {
            if !addresses.iter().any(|a| a.interface == old.interface && a.address == old.address) {
                self.handle_event(NetworkEvent::AddressGone(old));
            }
        }
        for address in addresses {
            self.handle_event(NetworkEvent::Address(address));
        }
        self.paths.are_stale = true;
        self.paths.fit_wakeups(&mut self.ledger.programs);
        Ok(())
    }

    /// Handles the events that are queued.
    pub(crate) fn host_events(&mut self) {
        for _ in 0..TURN {
            match self.paths.next_events() {
                Ok(Some(events)) => events.into_iter().for_each(|event| self.handle_event(event)),
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "events of the host are lost");
                    self.handle_event(NetworkEvent::Lost);
                    return;
                }
            }
        }
    }

    /// Reads everything again, because events were lost. Not too often: a program that changes its
    /// lane's device all the time can cause that.
    pub(crate) fn catch_up_with_host(&mut self) {
        self.paths.inventory_is_stale = false;
        tracing::warn!("too many events at once: taking everything anew");
        if let Err(error) = self.take_inventory() {
            tracing::error!(%error, "the host cannot be asked");
        }
    }

    fn handle_event(&mut self, event: NetworkEvent) {
        match event {
            NetworkEvent::Link(_) | NetworkEvent::LinkGone(_) => self.link_effect(event),
            NetworkEvent::Address(address) => {
                if self.take_up(&address) {
                    self.paths.are_stale = true;
                    if !address.usable {
                        self.address_left(address.address);
                    }
                }
            }
            NetworkEvent::AddressGone(address) => {
                if self.paths.nics.address_gone(&address, &mut self.ledger.programs) {
                    self.address_left(address.address);
                }
            }
            NetworkEvent::Neighbour(neighbour) => {
                let changed = self.paths.neighbour_changed(&neighbour, &mut self.ledger.programs);
                self.push_paths(changed);
            }
            NetworkEvent::NeighbourGone(neighbour) => self.paths.neighbour_gone(&neighbour),
            NetworkEvent::Routes => self.paths.are_stale = true,
            NetworkEvent::Lost => self.paths.inventory_is_stale = true,
        }
        self.tell_of_lost_claims();
    }

    fn link_effect(&mut self, event: NetworkEvent) {
        let effect = match event {
            NetworkEvent::Link(link) => {
                let effect = self.paths.nics.link_changed(&link, &self.config, &mut self.ledger.programs);
                if effect == Effect::Came {
                    self.addresses_of(link.index);
                }
                effect
            }
            NetworkEvent::LinkGone(link) => self.paths.nics.link_gone(link.index, &mut self.ledger.programs),
            _ => Effect::None,
        };
        match effect {
            Effect::None => return,
            Effect::Paths => self.fit_lanes_to_mtu(),
            Effect::Came => {
                self.fit_lanes_to_mtu();
                self.claims.refresh_filters(&self.paths.nics);
                self.claims.lose_bound_to_devices(&self.paths.nics, &mut self.ledger);
            }
            Effect::Went => {
                self.fit_lanes_to_mtu();
                self.claims.refresh_filters(&self.paths.nics);
                let left = self.paths.nics.addresses();
                self.claims.lose_where(
                    |held| {
                        let address = held.bound.local.address;
                        !address.is_unspecified() && !address.is_multicast() && !left.contains(&address)
                    },
                    Reason::Address,
                    &mut self.ledger,
                );
            }
        }
        self.tell_of_lost_claims();
        self.paths.are_stale = true;
    }

    /// Applies the addresses that an interface had before it was accelerated.
    fn addresses_of(&mut self, index: u32) {
        match self.paths.host.addresses() {
            Ok(addresses) => {
                for address in addresses.iter().filter(|a| a.interface == index) {
                    self.claims.leave_to_kernel_at(address.address, &mut self.ledger);
                    self.paths.nics.address_changed(address, &mut self.ledger.programs);
                }
            }
            Err(error) => tracing::error!(%error, "the addresses of an interface cannot be read"),
        }
    }

    /// Applies an address. Returns whether that changed anything.
    fn take_up(&mut self, address: &InterfaceAddress) -> bool {
        let nics = &mut self.paths.nics;
        // Addresses whose lifetime is refreshed every few seconds are not new.
        if address.usable && nics.contains(address.interface) && !nics.has_address(address.address) {
            self.claims.leave_to_kernel_at(address.address, &mut self.ledger);
        }
        nics.address_changed(address, &mut self.ledger.programs)
    }

    fn address_left(&mut self, address: Address) {
        self.paths.are_stale = true;
        if !self.paths.nics.has_address(address) {
            self.claims.lose_where(|held| held.bound.local.address == address, Reason::Address, &mut self.ledger);
        }
    }

    /// Notifies every lane's program of the smallest MTU of the interfaces, if that has changed.
    fn fit_lanes_to_mtu(&mut self) {
        let least = self.paths.nics.least_mtu();
        for lane in self.lanes.fit_to_mtu(least) {
            self.push_to_lane(lane, || Push::Mtu { mtu: least });
        }
    }
}

/// A link of which only the index is still known.
fn gone(index: u32) -> tickwire_host::NetworkInterface {
    tickwire_host::NetworkInterface {
        index,
        name: String::new(),
        mac: None,
        mtu: 0,
        max_mtu: 0,
        up: false,
        running: false,
        loopback: false,
        kind: String::new(),
        master: 0,
        port_of: String::new(),
        parent: None,
    }
}
