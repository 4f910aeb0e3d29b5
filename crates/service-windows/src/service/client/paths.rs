//! Paths to destinations: they are looked at again, and programs are told what has changed.

use super::Client;
use crate::service::accelerated_host::interval;
use crate::users::{Resource, UserShare};
use std::time::{Duration, Instant};
use tickwire_host_windows::ResolvedPath;
use tickwire_lane::control::{Push, Reason, Reply};
use tickwire_stack::path::{PathState, Query};

/// At most so many paths of a program are looked after. It gets no others.
const MOST_PATHS: usize = 4096;

/// A program's paths are looked at again no more often than this, on average: each is a call of
/// Windows, and other programs wait meanwhile.
const PACE: Duration = Duration::from_micros(500);

/// A path that is to be looked at so soon is looked at with those that are due, unless it is being
/// resolved. Where Windows looks up no single neighbour, one reading of its table does for all.
const EARLY: Duration = Duration::from_millis(50);

/// A path that the program has asked for.
pub(super) struct KeptPath {
    /// It counts for the user.
    _share: UserShare,
    found: ResolvedPath,
    since: Instant,
    /// When it is to be looked at again.
    pub(super) at: Instant,
}

impl Client<'_> {
    /// Looks at paths again, and tells the program what has changed.
    pub(super) fn push_paths(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let now = Instant::now();
        let generation = self.shared.core().generation();
        let is_anew = std::mem::replace(&mut self.generation, generation) != generation;
        let least = PACE * self.paths.len() as u32;
        let early = if self.paths.iter().any(|path| path.at <= now) { EARLY } else { Duration::ZERO };
        let is_due = |path: &KeptPath| match path.found.path.state {
            PathState::Resolving => path.at <= now,
            _ => path.at <= now + early,
        };
        for path in self.paths.iter_mut().filter(|path| is_anew || is_due(path)) {
            let KeptPath { found, since, at, .. } = path;
            let has_changed = if is_anew {
                let new = self.shared.core().resolve(&found.path.query);
                let old = std::mem::replace(found, new);
                *since = now;
                !is_same(&old, found)
            } else {
                self.shared.core().update(found)
            };
            let soon = interval(found, now.saturating_duration_since(*since));
            let is_resolving = found.path.state == PathState::Resolving;
            *at = now + if is_resolving { soon } else { soon.max(least) };
            if has_changed {
                let push = Push::PathChanged { path: found.path, reason: found.reason };
                if let Err(error) = self.channel.send(&push, 0, &[])
                    && error.is_end()
                {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Answers `Request::Resolve`.
    pub(super) fn resolve(&mut self, query: &Query) -> Result<Reply, Reason> {
        self.lane()?;
        self.shared.core().packets_come()?;
        self.paths.retain(|path| path.found.path.query != *query);
        if self.paths.len() >= MOST_PATHS {
            return Err(Reason::LaneFull);
        }
        let share = self.shared.users.take(&self.client.user.id, Resource::Path)?;
        let found = self.shared.core().resolve(query);
        tracing::debug!(destination = %query.destination, state = ?found.path.state, reason = ?found.reason, "a path");
        let reply = Reply::Path { path: found.path, reason: found.reason };
        let since = Instant::now();
        let at = since + interval(&found, Duration::ZERO);
        self.paths.push(KeptPath { _share: share, found, since, at });
        Ok(reply)
    }
}

/// Whether two paths are the same to a stack.
fn is_same(one: &ResolvedPath, other: &ResolvedPath) -> bool {
    let key = |found: &ResolvedPath| {
        let path = &found.path;
        (path.state, path.source, path.interface, path.mtu, path.next_hop_mac, found.reason)
    };
    key(one) == key(other)
}
