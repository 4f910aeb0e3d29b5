//! Queries the service, and reads the lanes' memory.

use super::on_kernel;
use super::processes::{self, FileId};
use super::search::{Deadline, Search};
use super::unserved;
use crate::client::{Client, unexpected};
use anyhow::Result;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, Metadata};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::Instant;
use tickwire_lane::control::{CountersOf, LaneInfo, Reason, Reply, Request};
use tickwire_lane::record_ring::RING_BYTES;
use tickwire_lane_linux::region::View;
use tickwire_show::stat::{
    ClaimReading, Host, Interface, LANE_COUNTERS, Lane, REFUSALS, StatReading, claim, interface, reason_text, socket,
};

/// No service makes more lanes than this. A longer listing is broken, and is cut.
const MANY: usize = 1 << 20;

/// The names of the counters of [`CountersOf::Host`], in their order: those of
/// `tickwire_lane_linux::bpf::HostCounter`, frames that NICs have refused, and addresses of the
/// host that did not fit.
pub(super) const HOST_COUNTERS: [&str; 8] = [
    "passed",
    "diverted",
    "group_copies",
    "vlan",
    "stray_fragments",
    "capture_lost",
    "lost_redirect",
    "addresses_left_out",
];

/// Packets dropped because a lane's receive ring was full: the program was too slow.
const LOST: [&str; 1] = ["lost_ring_full"];

/// Memory of a lane in bytes: the allocated blocks of its region, and its receive ring.
fn memory(region: &Metadata) -> u64 {
    /// The unit of `st_blocks`.
    const BLOCK: u64 = 512;
    region.blocks() * BLOCK + u64::from(RING_BYTES)
}

/// Reads everything. Programs that the service does not know are searched for if a search is due.
pub(crate) fn gather(client: &mut Client, search: &mut Search) -> Result<StatReading> {
    let proc = Path::new("/proc");
    // Before the service is asked, so that its list includes every program that gets a lane in
    // between.
    let candidates = search.is_due().then(|| {
        let (began, deadline) = (Instant::now(), Deadline::of_a_search());
        let candidates = processes::with_library(proc, deadline);
        (candidates, !deadline.has_passed(), began.elapsed())
    });
    let host = host(client)?;
    let (mut lanes, regions) = lanes(client)?;
    if let Some((candidates, complete, took)) = candidates {
        let began = Instant::now();
        let mut found = unserved::programs(proc, candidates, &lanes, &regions, Deadline::of_a_search());
        found.complete &= complete;
        on_kernel::fill_in(proc, &mut lanes, Deadline::of_a_search());
        search.keep(found, took + began.elapsed());
    }
    let found = search.latest(&lanes);
    lanes.extend(found.programs);
    Ok(StatReading { host, lanes, incomplete: !found.complete, of_all_users: nix::unistd::geteuid().is_root() })
}

/// The interfaces that the service accelerates, or means to.
pub(super) fn interfaces(client: &mut Client) -> Result<Vec<Interface>> {
    let mut interfaces = Vec::new();
    let mut after = 0;
    while let Reply::Interface { info } = listed(client, &Request::ListInterfaces { after })? {
        after = info.interface;
        interfaces.push(interface(&info));
    }
    Ok(interfaces)
}

fn host(client: &mut Client) -> Result<Host> {
    let interfaces = interfaces(client)?;
    let figures = counters(client, CountersOf::Host, 0)?;
    Ok(Host { interfaces, counters: HOST_COUNTERS.into_iter().zip(figures).collect() })
}

fn listed(client: &mut Client, request: &Request) -> Result<Reply> {
    match client.ask(request)?.0 {
        reply @ (Reply::Interface { .. } | Reply::Held { .. } | Reply::Done) => Ok(reply),
        reply => Err(unexpected(&reply)),
    }
}

fn counters(client: &mut Client, of: CountersOf, lane: u32) -> Result<Vec<u64>> {
    match client.ask(&Request::Counters { of, lane })?.0 {
        Reply::Counters { figures } => Ok(figures.as_slice().to_vec()),
        reply => Err(unexpected(&reply)),
    }
}

/// The programs that the service knows, and the files of their lanes' regions.
fn lanes(client: &mut Client) -> Result<(Vec<Lane>, BTreeSet<FileId>)> {
    let mut lanes = Vec::new();
    let mut regions = BTreeSet::new();
    let mut after = 0;
    while lanes.len() < MANY {
        let (reply, mut descriptors) = client.ask(&Request::ListLanes { after })?;
        let (cursor, info) = match reply {
            Reply::LaneInfo { cursor, info } => (cursor, info),
            Reply::Done => break,
            reply => return Err(unexpected(&reply)),
        };
        after = cursor;
        // The program controls the lane's memory, so the content is untrusted. A region that cannot
        // be mapped must not hide the other lanes.
        let region = descriptors.take(0).map(File::from);
        let data = region.as_ref().and_then(|file| file.metadata().ok());
        regions.extend(data.as_ref().map(processes::id));
        let view = region.and_then(|file| View::map(file.as_fd(), &info.limits).ok());
        lanes.push(Lane { memory_bytes: data.as_ref().map_or(0, memory), ..lane(client, &info, view.as_ref())? });
    }
    Ok((lanes, regions))
}

fn lane(client: &mut Client, info: &LaneInfo, view: Option<&View>) -> Result<Lane> {
    let accelerated = info.reason == Reason::None;
    let (guard, claims) = if accelerated { of_lane(client, info.lane)? } else { Default::default() };
    Ok(Lane {
        lane: info.lane,
        program: info.program.as_str().to_owned(),
        pid: info.pid,
        uid: Some(info.uid),
        processes: info.processes,
        age_ms: info.age_ms,
        memory_bytes: 0,
        accelerated,
        reason: reason_text(info.reason),
        guard,
        counters: view.map(|v| v.counters().iter().collect()).unwrap_or_default(),
        sockets: view.map(|v| v.rows().iter().filter_map(socket).collect()).unwrap_or_default(),
        claims,
    })
}

/// The names of a lane's counters in divert, in the guard and at the kernel's end of the rings.
pub(crate) fn guard_counters() -> impl Iterator<Item = &'static str> {
    LANE_COUNTERS.into_iter().chain(REFUSALS).chain(LOST)
}

/// The lane may end between two requests: then its counters and claims are empty.
fn of_lane(client: &mut Client, lane: u32) -> Result<(BTreeMap<&'static str, u64>, Vec<ClaimReading>)> {
    let guard = guard_counters().zip(counters(client, CountersOf::Lane, lane).unwrap_or_default()).collect();
    let mut claims = Vec::new();
    let mut after = tickwire_lane::control::Claim::default();
    while let Ok(Reply::Held { held }) = listed(client, &Request::ListClaims { lane, after }) {
        after = held.claim;
        claims.push(claim(&held));
        if claims.len() >= MANY {
            break;
        }
    }
    Ok((guard, claims))
}
