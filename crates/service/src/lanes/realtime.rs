//! Real-time priorities for programs of groups that have them (`[groups]` in the settings).
//!
//! A stack in the program competes for the processor with all other programs, where the kernel's
//! stack works in interrupts. The service raises the limit of the process, which is then notified;
//! the program's threads set the priority themselves.

use crate::clients::{Connection, Peer};
use crate::config::GroupConfig;
use nix::sys::socket::{getsockopt, sockopt};
use nix::unistd::Group;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use tickwire_lane_linux::{sys_limits, sys_socket};

/// Priorities by the id of the group.
#[derive(Debug, Default)]
pub(crate) struct Priorities(Vec<(u32, u32)>);

impl Priorities {
    /// Those of the settings. Groups that the host does not have are logged.
    pub(crate) fn new(groups: &BTreeMap<String, GroupConfig>) -> Self {
        let granted = groups.iter().filter_map(|(name, group)| Some((name, group.realtime?)));
        let known = granted.filter_map(|(name, priority)| match Group::from_name(name) {
            Ok(Some(group)) => Some((group.gid.as_raw(), priority)),
            _ => {
                tracing::warn!(group = name, "groups.{name} has no effect: there is no such group");
                None
            }
        });
        Self(known.collect())
    }

    /// Raises the limit of the process at a connection to the priority of its groups. Returns that
    /// priority, which the process may set from now on; `None` if it may set none.
    pub(crate) fn grant(&self, connection: &Connection) -> Option<u32> {
        if self.0.is_empty() {
            return None;
        }
        let priority = self.of(&groups_of(connection.as_fd()))?;
        let Peer { pid, uid } = connection.peer;
        // Another process may have its id by now. A priority of a user's groups may go to any
        // process of that user.
        if !is_of_user(pid, uid) {
            tracing::warn!(pid, uid, "a real-time priority is not granted: the process is not to be found");
            return None;
        }
        // Root mostly needs no limit.
        if let Err(error) = sys_limits::allow_real_time(pid, priority)
            && uid != 0
        {
            tracing::warn!(pid, priority, %error, "a real-time priority cannot be granted");
            return None;
        }
        tracing::info!(pid, priority, "real-time priority granted");
        Some(priority)
    }

    /// The highest priority of a process's groups.
    fn of(&self, groups: &[u32]) -> Option<u32> {
        self.0.iter().filter(|(group, _)| groups.contains(group)).map(|&(_, priority)| priority).max()
    }
}

/// Whether there is a process with this id, of this user. 0 is no process of this PID namespace.
fn is_of_user(pid: u32, uid: u32) -> bool {
    pid != 0 && std::fs::metadata(format!("/proc/{pid}")).is_ok_and(|process| process.uid() == uid)
}

/// The groups of the process at the other end, as they were when it connected.
fn groups_of(socket: BorrowedFd<'_>) -> Vec<u32> {
    let mut groups = sys_socket::peer_groups(socket).unwrap_or_default();
    groups.extend(getsockopt(&socket, sockopt::PeerCredentials).map(|credentials| credentials.gid()));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_priority_of_a_process_s_groups_counts() {
        let group = |realtime| GroupConfig { realtime };
        let groups = [("root", group(Some(20))), ("no such group", group(Some(99))), ("daemon", group(None))];
        let priorities = Priorities::new(&groups.map(|(name, group)| (name.to_owned(), group)).into());
        assert_eq!(priorities.0, [(0, 20)]);
        let priorities = Priorities(vec![(0, 20), (7, 50), (8, 10)]);
        assert_eq!(
            [&[7, 8, 0][..], &[8], &[9], &[]].map(|groups| priorities.of(groups)),
            [Some(50), Some(10), None, None]
        );
    }
}
