//! Events of the host, and what follows from them for interfaces, claims and paths.

use crate::nics::Effect;
use crate::path_subscriptions::differs;
use crate::registry::LaneId;
use crate::service::Service;
use std::collections::BTreeMap;
use tickwire_host::{Event, InterfaceAddress, Neighbour, Query, Reachability};
use tickwire_lane::control::Reason;
use tickwire_stack::addr::Address;

/// At most so many batches of events are handled before the loop continues.
const TURN: usize = 64;

/// At most so many paths are resolved again before the loop continues: some milliseconds.
const SLICE: usize = 64;

impl Service {
    /// Reads all interfaces and addresses, at the start and after events were lost.
    pub(crate) fn take_inventory(&mut self) -> tickwire_host::Result<()> {
        let links = self.host.links()?;
        for index in self.nics.known() {
            if links.iter().all(|link| link.index != index) {
                self.link_effect(Event::LinkGone(gone(index)));
            }
        }
        for link in links {
            self.link_effect(Event::Link(link));
        }
        let addresses = self.host.addresses()?;
        for old in self.nics.interface_addresses() {
            if !addresses.iter().any(|a| a.interface == old.interface && a.address == old.address) {
                self.handle(Event::AddressGone(old));
            }
        }
        for address in addresses {
            self.handle(Event::Address(address));
        }
        self.paths_stale = true;
        self.fit_wakeups();
        Ok(())
    }

    /// Lets divert wake sleeping lanes in the quicker way, if every interface can redirect.
    pub(crate) fn fit_wakeups(&mut self) {
        let can = self.nics.all_redirect(self.xdp_info.as_mut());
        if let Err(error) = self.programs.set_wake_frames(can) {
            tracing::warn!(%error, "sleeping programs may be woken late");
        }
    }

    /// Handles the events that are queued.
    pub(crate) fn host_events(&mut self) {
        for _ in 0..TURN {
            match self.monitor.take() {
                Ok(Some(events)) => events.into_iter().for_each(|event| self.handle(event)),
                Ok(None) => return,
                Err(error) => {
                    tracing::error!(%error, "events of the host are lost");
                    self.handle(Event::Lost);
                    return;
                }
            }
        }
    }

    /// Reads everything again, because events were lost. Not too often: a program that changes its
    /// lane's device all the time can cause that.
    pub(crate) fn catch_up_with_host(&mut self) {
        self.inventory_stale = false;
        tracing::warn!("too many events at once: taking everything anew");
        if let Err(error) = self.take_inventory() {
            tracing::error!(%error, "the host cannot be asked");
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Link(_) | Event::LinkGone(_) => self.link_effect(event),
            Event::Address(address) => {
                if self.take_up(&address) {
                    self.paths_stale = true;
                    if !address.usable {
                        self.address_left(address.address);
                    }
                }
            }
            Event::AddressGone(address) => {
                if self.nics.address_gone(&address, &mut self.programs) {
                    self.address_left(address.address);
                }
            }
            Event::Neighbour(neighbour) => self.neighbour_changed(&neighbour),
            Event::NeighbourGone(neighbour) => {
                // The kernel forgets neighbours that it does not use itself; a lane does use this
                // one.
                if self.watched_by_some_lane(&neighbour) {
                    let _ = self.host.probe(neighbour.interface, neighbour.address);
                }
            }
            Event::Routes => self.paths_stale = true,
            Event::Lost => self.inventory_stale = true,
        }
    }

    fn link_effect(&mut self, event: Event) {
        let effect = match event {
            Event::Link(link) => {
                let effect = self.nics.link_changed(&link, &self.config, &mut self.programs);
                if effect == Effect::Came {
                    self.addresses_of(link.index);
                }
                effect
            }
            Event::LinkGone(link) => self.nics.link_gone(link.index, &mut self.programs),
            _ => Effect::None,
        };
        match effect {
            Effect::None => return,
            Effect::Paths => self.fit_lanes_to_mtu(),
            Effect::Came => {
                self.fit_lanes_to_mtu();
                self.refresh_filters();
                self.lose_bound_to_devices();
            }
            Effect::Went => {
                self.fit_lanes_to_mtu();
                self.refresh_filters();
                let left = self.nics.addresses();
                self.lose_claims(
                    |held| {
                        let address = held.bound.local.address;
                        !address.is_unspecified() && !address.is_multicast() && !left.contains(&address)
                    },
                    Reason::Address,
                );
            }
        }
        self.paths_stale = true;
    }

    /// Applies the addresses that an interface had before it was accelerated.
    fn addresses_of(&mut self, index: u32) {
        match self.host.addresses() {
            Ok(addresses) => {
                for address in addresses.iter().filter(|a| a.interface == index) {
                    self.leave_to_kernel_at(address.address);
                    self.nics.address_changed(address, &mut self.programs);
                }
            }
            Err(error) => tracing::error!(%error, "the addresses of an interface cannot be read"),
        }
    }

    /// Applies an address. Returns whether that changed anything.
    fn take_up(&mut self, address: &InterfaceAddress) -> bool {
        // Addresses whose lifetime is refreshed every few seconds are not new.
        if address.usable && self.nics.contains(address.interface) && !self.nics.has_address(address.address) {
            self.leave_to_kernel_at(address.address);
        }
        self.nics.address_changed(address, &mut self.programs)
    }

    fn address_left(&mut self, address: Address) {
        self.paths_stale = true;
        if !self.nics.has_address(address) {
            self.lose_claims(|held| held.bound.local.address == address, Reason::Address);
        }
    }

    fn watched_by_some_lane(&self, neighbour: &Neighbour) -> bool {
        self.lanes.values().any(|lane| lane.watches.uses(neighbour.interface, neighbour.address))
    }

    fn neighbour_changed(&mut self, neighbour: &Neighbour) {
        if !self.nics.contains(neighbour.interface) {
            return;
        }
        let mut used = false;
        let mut told: Vec<(LaneId, Vec<Query>)> = Vec::new();
        for (&id, lane) in &mut self.lanes {
            used |= lane.watches.uses(neighbour.interface, neighbour.address);
            let changed = lane.watches.neighbour_changed(neighbour);
            let queries: Vec<Query> = changed.into_iter().filter_map(|at| lane.watches.at(at)).collect();
            let answers = queries.iter().filter_map(|query| Some((query, lane.watches.get(query)?)));
            answers.for_each(|(query, answer)| self.programs.note_path(query, &answer.path));
            if !queries.is_empty() {
                told.push((id, queries));
            }
        }
        // The kernel sees none of a lane's packets, so it would let the neighbour go stale: it is
        // probed instead (RFC 4861 §7.3.2).
        if used && neighbour.state == Reachability::Stale {
            let _ = self.host.probe(neighbour.interface, neighbour.address);
        }
        for (lane, queries) in told {
            self.push_paths(lane, &queries);
        }
    }

    /// Queues every watched path to be resolved again.
    pub(crate) fn refresh_paths(&mut self) {
        self.paths_stale = false;
        let mut lanes_of: BTreeMap<Query, Vec<LaneId>> = BTreeMap::new();
        for (&id, lane) in &self.lanes {
            for query in lane.watches.queries() {
                lanes_of.entry(query).or_default().push(id);
            }
        }
        self.refreshing = lanes_of.into_iter().collect();
    }

    /// Resolves some of these again, and notifies the lanes of changes. A route that flaps must not
    /// keep the loop from its other duties.
    pub(crate) fn refresh_some(&mut self) {
        let mut told: BTreeMap<LaneId, Vec<Query>> = BTreeMap::new();
        for (query, lanes) in self.refreshing.drain(..self.refreshing.len().min(SLICE)) {
            let nics = &self.nics;
            let answer = match self.host.resolve(&query, |index, source| nics.path(index, source)) {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!(%error, "a path could not be asked for anew");
                    continue;
                }
            };
            self.programs.note_path(&query, &answer.path);
            for id in lanes {
                // The lane may be gone, or may no longer watch this path.
                let Some(lane) = self.lanes.get_mut(&id) else { continue };
                let Some(before) = lane.watches.get(&query) else { continue };
                if differs(before, &answer) {
                    told.entry(id).or_default().push(query);
                }
                lane.watches.set(query, answer);
            }
        }
        for (lane, queries) in told {
            self.push_paths(lane, &queries);
        }
    }
}

/// A link of which only the index is still known.
fn gone(index: u32) -> tickwire_host::Link {
    tickwire_host::Link {
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
