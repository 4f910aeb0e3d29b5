//! Programs of `tickwire run` that the service does not know.
//!
//! A program asks the service for a lane when it opens a socket. If all its sockets were opened
//! while no service ran, it may never ask afterwards. Examples are a server that was started first,
//! and a client that reconnected while the service was away. The service does not know such a
//! program, so it is searched for among the processes of this network namespace.

use super::kernels::{self, KernelSocket};
use super::processes::{FileId, Process};
use super::search::{Deadline, SearchResult};
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;
use tickwire_show::stat::{Lane, SocketReading, state_name};

/// Of a program that has never had a lane.
const WITHOUT: &str = "its sockets were opened while no service gave it a lane: none ran, or none that its user may use (`tickwire run` says which), and restarting the program helps once one does; or they were opened past the C library, as Go does";

/// Of one with a lane of a service that has ended, or of another service. In the first case it may
/// not have contacted the new service yet, or has no socket of that lane left.
const ELSEWHERE: &str =
    "its lane is older than the service, or of another one: restart the program to accelerate it by this";

/// The candidates that hold Internet sockets and that the service, which lists these lanes with
/// these regions, does not know. They were found before the service was asked, so its list includes
/// every program that has got a lane meanwhile.
pub(super) fn programs(
    proc: &Path,
    candidates: Vec<Process>,
    listed: &[Lane],
    regions: &BTreeSet<FileId>,
    deadline: Deadline,
) -> SearchResult {
    let programs = found(proc, candidates, listed, regions, deadline);
    SearchResult { programs, complete: !deadline.has_passed() }
}

fn found(
    proc: &Path,
    candidates: Vec<Process>,
    listed: &[Lane],
    regions: &BTreeSet<FileId>,
    deadline: Deadline,
) -> Vec<Lane> {
    let pids: HashSet<u32> = listed.iter().map(|lane| lane.pid).collect();
    // A lane names one of its processes, but all of them map its region.
    let is_known = |process: &Process| pids.contains(&process.pid) || !process.regions.is_disjoint(regions);
    let (known, unknown): (Vec<Process>, Vec<Process>) = candidates.into_iter().partition(is_known);
    if unknown.is_empty() {
        return Vec::new();
    }
    let mut unknown: Vec<_> = unknown.into_iter().map(|process| (process.sockets(deadline), process)).collect();
    // Check this after reading the sockets: if one of them belongs to a new lane, the process also
    // maps that lane's region by now.
    unknown.retain(|(sockets, process)| !sockets.is_empty() && process.is_as_it_was(deadline));
    let wanted = unknown.iter().flat_map(|(sockets, _)| sockets.iter().map(|(_, inode)| *inode)).collect();
    let kernels = kernels::sockets(proc, &wanted, deadline);
    if kernels.is_empty() {
        return Vec::new();
    }
    // The owner of each socket; none if a process that the service knows shares it.
    let mut owners: HashMap<u64, Option<usize>> =
        known.iter().flat_map(|process| process.sockets(deadline)).map(|(_, inode)| (inode, None)).collect();
    let mut found: Vec<Lane> = Vec::new();
    for (sockets, process) in unknown {
        let mut own = Vec::new();
        let mut others = None;
        for (fd, inode) in sockets {
            let Some(kernel) = kernels.get(&inode) else { continue };
            match owners.entry(inode) {
                Entry::Vacant(free) => {
                    free.insert(Some(found.len()));
                    own.push((fd, kernel));
                }
                Entry::Occupied(taken) => others = others.or(*taken.get()),
            }
        }
        if !own.is_empty() {
            found.push(program(&process, &own));
        } else if let Some(parent) = others.and_then(|parent| found.get_mut(parent)) {
            parent.processes += 1;
        }
    }
    found
}

fn program(process: &Process, sockets: &[(u32, &KernelSocket)]) -> Lane {
    let reason = if process.regions.is_empty() { WITHOUT } else { ELSEWHERE };
    Lane {
        program: process.program.clone(),
        pid: process.pid,
        uid: Some(process.uid),
        processes: 1,
        reason: Some(reason),
        sockets: sockets.iter().map(|(fd, kernel)| socket(process.pid, *fd, kernel, reason)).collect(),
        ..Lane::default()
    }
}

fn socket(pid: u32, fd: u32, kernel: &KernelSocket, reason: &str) -> SocketReading {
    SocketReading {
        protocol: kernel.protocol,
        accelerated: false,
        reason: Some(reason.to_owned()),
        polled: None,
        pid,
        fd,
        local: kernel.local.to_string(),
        remote: (kernel.remote.port != 0).then(|| kernel.remote.to_string()),
        state: state_name(kernel.state),
        rx_queue: Some(kernel.rx_queue),
        tx_queue: Some(kernel.tx_queue),
        rx_packets: None,
        rx_bytes: None,
        tx_packets: None,
        tx_bytes: None,
        drops: None,
        tcp: None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{LIBRARY_LINE, Proc, line, region};
    use super::super::processes::with_library;
    use super::*;
    use nix::sys::stat::makedev;

    /// The programs found if the service knows these processes and regions.
    fn found(proc: &Proc, pids: &[u32], regions: &[u64]) -> Vec<Lane> {
        let listed: Vec<_> = pids.iter().map(|pid| Lane { pid: *pid, ..Lane::default() }).collect();
        let regions = regions.iter().map(|inode| (makedev(0, 1), *inode)).collect();
        let deadline = Deadline::of_a_search();
        let found = programs(proc.path(), with_library(proc.path(), deadline), &listed, &regions, deadline);
        assert!(found.complete);
        found.programs
    }

    fn pids(found: &[Lane]) -> Vec<u32> {
        found.iter().map(|lane| lane.pid).collect()
    }

    #[test]
    fn a_program_that_the_service_does_not_know_is_shown_with_its_internet_sockets() {
        let proc = Proc::new();
        proc.process(20, "server", LIBRARY_LINE, &[("3", "socket:[5]"), ("4", "socket:[6]"), ("5", "socket:[99]")]);
        proc.process(21, "idle", LIBRARY_LINE, &[("3", "socket:[98]"), ("4", "/dev/null")]);
        proc.table("tcp", &[line(10, 5), line(1, 7)]);
        proc.table("udp", &[line(7, 6)]);
        let all = found(&proc, &[], &[]);
        assert_eq!(pids(&all), [20]);
        let server = &all[0];
        assert_eq!(
            (server.program.as_str(), server.uid, server.lane, server.accelerated),
            ("server", Some(1000), 0, false)
        );
        assert_eq!(server.reason, Some(WITHOUT));
        let sockets: Vec<_> = server.sockets.iter().map(|s| (s.fd, s.protocol, s.state, s.accelerated)).collect();
        assert_eq!(sockets, [(3, "tcp", "LISTEN", false), (4, "udp", "UNCONN", false)]);
        assert!(server.sockets[0].local.ends_with(":9000") && server.sockets[0].remote.is_none());
        assert!(found(&proc, &[20], &[]).is_empty(), "the service names it");
    }

    #[test]
    fn a_child_that_shares_its_parents_lane_is_no_program_of_its_own() {
        let proc = Proc::new();
        let maps = format!("{LIBRARY_LINE}{}", region(77));
        proc.process(20, "server", &maps, &[("3", "socket:[5]")]);
        proc.process(21, "server", &maps, &[("3", "socket:[5]"), ("4", "socket:[6]")]);
        proc.table("tcp", &[line(10, 5), line(1, 6)]);
        assert!(found(&proc, &[20], &[77]).is_empty());
        let restarted = found(&proc, &[], &[78]);
        assert_eq!(pids(&restarted), [20, 21], "the lane was of a service that has ended");
        assert_eq!(restarted[0].reason, Some(ELSEWHERE));
    }

    #[test]
    fn a_socket_is_shown_once_and_not_at_all_if_the_service_tells_of_a_process_that_has_it() {
        let proc = Proc::new();
        proc.process(20, "master", LIBRARY_LINE, &[("3", "socket:[5]"), ("9", "socket:[5]")]);
        proc.process(21, "worker", LIBRARY_LINE, &[("3", "socket:[5]")]);
        proc.process(22, "worker", LIBRARY_LINE, &[("3", "socket:[5]"), ("4", "socket:[6]")]);
        proc.table("tcp", &[line(10, 5), line(1, 6)]);
        let all = found(&proc, &[], &[]);
        assert_eq!(pids(&all), [20, 22]);
        assert_eq!((all[0].processes, all[0].sockets.len()), (2, 1));
        assert_eq!((all[1].processes, all[1].sockets[0].fd), (1, 4));
        let others = found(&proc, &[20], &[]);
        assert_eq!(pids(&others), [22], "its own connection belongs to no other program");
        assert_eq!((others[0].processes, others[0].sockets.len()), (1, 1));
    }

    #[test]
    fn a_program_that_gets_a_lane_while_it_is_looked_at_is_left_out() {
        let proc = Proc::new();
        proc.process(20, "server", LIBRARY_LINE, &[("3", "socket:[5]")]);
        proc.table("tcp", &[line(10, 5)]);
        let deadline = Deadline::of_a_search();
        let candidates = with_library(proc.path(), deadline);
        proc.write(20, "maps", &format!("{LIBRARY_LINE}{}", region(77)));
        assert!(programs(proc.path(), candidates, &[], &BTreeSet::new(), deadline).programs.is_empty());
    }

    #[test]
    fn a_search_that_ran_out_of_time_says_so() {
        let proc = Proc::new();
        proc.process(20, "server", LIBRARY_LINE, &[("3", "socket:[5]")]);
        proc.table("tcp", &[line(10, 5)]);
        let candidates = with_library(proc.path(), Deadline::of_a_search());
        let found = programs(proc.path(), candidates, &[], &BTreeSet::new(), Deadline::passed());
        assert!(!found.complete && found.programs.is_empty(), "{found:?}");
    }
}
