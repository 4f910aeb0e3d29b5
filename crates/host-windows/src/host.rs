//! The queries: tables, paths and neighbours.

use crate::error::Result;
use crate::neighbour::{NeighbourEntry, NeighbourState};
use crate::path::{PathDecision, ResolvedPath};
use crate::resolution::{ResolutionLimits, apply_resolution};
use crate::resolver::NeighbourResolver;
use crate::sys::{self, BestRoute, NeighbourTable};
use crate::tables::{HostChange, HostTables};
use tickwire_lane::control::Reason;
use tickwire_stack::addr::Address;
use tickwire_stack::path::{PathState, Query};

/// The host: its tables as last read, and the resolution of neighbours.
#[derive(Debug)]
pub struct WindowsHost {
    tables: HostTables,
    neighbours: NeighbourTable,
    resolver: NeighbourResolver,
}

impl WindowsHost {
    /// Reads the tables.
    ///
    /// # Errors
    /// If a table cannot be read.
    pub fn open(limits: ResolutionLimits) -> Result<Self> {
        let (tables, resolver) = (read_tables()?, NeighbourResolver::new(limits));
        Ok(Self { tables, neighbours: NeighbourTable::default(), resolver })
    }

    /// The tables as last read.
    #[must_use]
    pub const fn tables(&self) -> &HostTables {
        &self.tables
    }

    /// Reads the tables again; what has changed. To be called after an announcement
    /// ([`crate::Changes`]); once a second where there are none. It takes milliseconds.
    ///
    /// # Errors
    /// If a table cannot be read: the last ones stay.
    pub fn refresh(&mut self) -> Result<Vec<HostChange>> {
        let now = read_tables()?;
        let changes = now.changes_since(&self.tables);
        self.tables = now;
        Ok(changes)
    }

    /// Finds out how to reach a destination, without waiting. `accelerated` says for an interface
    /// and a source address whether lanes can use them, or why not.
    ///
    /// An unknown neighbour is resolved, and a stale one confirmed. [`WindowsHost::update`] shows
    /// the outcome later.
    ///
    /// # Errors
    /// If a table cannot be read, or the neighbour's resolution cannot be started.
    pub fn resolve(
        &mut self,
        query: &Query,
        accelerated: impl Fn(u32, Address) -> std::result::Result<(), Reason>,
    ) -> Result<ResolvedPath> {
        if let Some(answer) = self.tables.without_route(query) {
            return Ok(answer);
        }
        let route = match sys::best_route(query) {
            BestRoute::Found(route) => Some(route),
            BestRoute::NoRoute => None,
            BestRoute::Unknown => self.tables.best_route(query),
        };
        let (hop, path) = match self.tables.decide(query, route, accelerated) {
            PathDecision::Final(answer) => return Ok(answer),
            PathDecision::Neighbour { hop, path } => (hop, path),
        };
        let known = sys::neighbour(path.interface, hop, &mut self.neighbours)?;
        let mut answer = ResolvedPath { path, next_hop: Some(hop), reason: Reason::None };
        if known.is_none_or(|entry| entry.usable().is_none()) {
            match self.resolver.resolve(path.interface, hop, path.source) {
                // The tables are older than the host's last change.
                Err(error) if error.is_unreachable() => {
                    (answer.path.state, answer.reason) = (PathState::Unreachable, Reason::NoRoute);
                    return Ok(answer);
                }
                started => drop(started?),
            }
        } else if known.is_some_and(|entry| entry.state == NeighbourState::Stale) {
            // It can be used all the same.
            let _ = self.resolver.confirm(path.interface, hop, path.source);
        }
        self.apply(&mut answer, known);
        Ok(answer)
    }

    /// Enters the neighbour's present state into a path. Returns whether state or next hop have
    /// changed. A neighbour that the kernel has forgotten is resolved again.
    ///
    /// # Errors
    /// If the neighbour table cannot be read.
    pub fn update(&mut self, answer: &mut ResolvedPath) -> Result<bool> {
        let Some(hop) = answer.next_hop else { return Ok(false) };
        let before = (answer.path.state, answer.path.next_hop_mac);
        let known = sys::neighbour(answer.path.interface, hop, &mut self.neighbours)?;
        self.apply(answer, known);
        // One that has not been resolved, because too many others were, is tried again.
        let is_open = before.0 == PathState::Ready || self.resolver.age(answer.path.interface, hop).is_none();
        if answer.path.state == PathState::Resolving && is_open {
            // If that fails, so does the path after a time.
            let _ = self.resolver.resolve(answer.path.interface, hop, answer.path.source);
        }
        Ok(before != (answer.path.state, answer.path.next_hop_mac))
    }

    fn apply(&self, answer: &mut ResolvedPath, neighbour: Option<NeighbourEntry>) {
        let age = answer.next_hop.and_then(|hop| self.resolver.age(answer.path.interface, hop));
        apply_resolution(answer, neighbour.as_ref(), age);
    }
}

/// Reads interfaces, addresses and routes.
///
/// # Errors
/// If a table cannot be read.
pub fn read_tables() -> Result<HostTables> {
    Ok(HostTables::new(sys::interfaces()?, sys::addresses()?, sys::routes()?))
}

/// The kernel's entry of a neighbour on an interface; `None` if it has none.
///
/// # Errors
/// If the neighbour table cannot be read.
pub fn read_neighbour(interface: u32, address: Address) -> Result<Option<NeighbourEntry>> {
    sys::neighbour(interface, address, &mut NeighbourTable::default())
}

/// Whether this is Wine, where the host has gaps: no announcements, no selection of routes, no
/// resolution of neighbours.
#[must_use]
pub fn is_wine() -> bool {
    sys::is_wine()
}
