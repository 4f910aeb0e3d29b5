//! Paths that change: by the host's events for neighbours at once, and by all others because they
//! are resolved again.

use super::subscriptions::differs;
use super::{Changed, Paths};
use crate::programs::Programs;
use std::collections::BTreeMap;
use tickwire_host::{Neighbour, NetworkEvent, Query, Reachability};
use tickwire_registry::LaneId;

/// At most so many paths are resolved again before the loop continues: some milliseconds.
const SLICE: usize = 64;

impl Paths {
    /// The next events of the host; `None` if there are none for now.
    pub(crate) fn next_events(&mut self) -> tickwire_host::Result<Option<Vec<NetworkEvent>>> {
        self.monitor.take()
    }

    /// Lets divert wake sleeping lanes in the quicker way, if every interface can redirect.
    pub(crate) fn fit_wakeups(&mut self, programs: &mut Programs) {
        let can = self.nics.all_redirect();
        if let Err(error) = programs.set_wake_frames(can) {
            tracing::warn!(%error, "sleeping programs may be woken late");
        }
    }

    /// The kernel has forgotten a neighbour. It forgets those that it does not use itself, and a
    /// lane may use this one.
    pub(crate) fn neighbour_gone(&mut self, neighbour: &Neighbour) {
        if self.watched.values().any(|watched| watched.uses(neighbour.interface, neighbour.address)) {
            let _ = self.host.probe(neighbour.interface, neighbour.address);
        }
    }

    /// A neighbour has changed. Returns the paths that changed with it.
    pub(crate) fn neighbour_changed(&mut self, neighbour: &Neighbour, programs: &mut Programs) -> Changed {
        if !self.nics.contains(neighbour.interface) {
            return Changed::new();
        }
        let mut used = false;
        let mut told = Changed::new();
        for (&lane, watched) in &mut self.watched {
            used |= watched.uses(neighbour.interface, neighbour.address);
            let changed = watched.neighbour_changed(neighbour);
            let queries: Vec<Query> = changed.into_iter().filter_map(|at| watched.at(at)).collect();
            let answers = queries.iter().filter_map(|query| Some((query, watched.get(query)?)));
            answers.for_each(|(query, answer)| programs.note_path(query, &answer.path));
            if !queries.is_empty() {
                told.push((lane, queries));
            }
        }
        // The kernel sees none of a lane's packets, so it would let the neighbour go stale: it is
        // probed instead (RFC 4861 §7.3.2).
        if used && neighbour.state == Reachability::Stale {
            let _ = self.host.probe(neighbour.interface, neighbour.address);
        }
        told
    }

    /// Queues every watched path to be resolved again.
    pub(crate) fn begin_refresh(&mut self) {
        self.are_stale = false;
        let mut lanes_of: BTreeMap<Query, Vec<LaneId>> = BTreeMap::new();
        for (&lane, watched) in &self.watched {
            for query in watched.queries() {
                lanes_of.entry(query).or_default().push(lane);
            }
        }
        self.refreshing = lanes_of.into_iter().collect();
    }

    /// Whether paths are queued to be resolved again.
    pub(crate) fn is_refreshing(&self) -> bool {
        !self.refreshing.is_empty()
    }

    /// Resolves some of these again, and returns those that changed. A route that flaps must not
    /// keep the loop from its other duties.
    pub(crate) fn refresh_some(&mut self, programs: &mut Programs) -> Changed {
        let mut told: BTreeMap<LaneId, Vec<Query>> = BTreeMap::new();
        let some: Vec<_> = self.refreshing.drain(..self.refreshing.len().min(SLICE)).collect();
        for (query, lanes) in some {
            let answer = match self.resolve(&query) {
                Ok(answer) => answer,
                Err(error) => {
                    tracing::debug!(%error, "a path could not be asked for anew");
                    continue;
                }
            };
            programs.note_path(&query, &answer.path);
            for lane in lanes {
                // The lane may be gone, or may no longer watch this path.
                let Some(watched) = self.watched.get_mut(&lane) else { continue };
                let Some(before) = watched.get(&query) else { continue };
                if differs(before, &answer) {
                    told.entry(lane).or_default().push(query);
                }
                watched.set(query, answer);
            }
        }
        told.into_iter().collect()
    }
}
