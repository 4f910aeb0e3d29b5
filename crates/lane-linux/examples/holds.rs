//! What a service and the lanes that it made hold, for tests that look for leaks. Needs root.
//!
//! `holds SOCKET PROCESS`: every lane of the service at that socket is locked, and its stack looked
//! through ([`Stack::check_invariants`]); the entries in the BPF maps of the service, which runs as
//! that process, are counted.
//!
//! One line of JSON: `{"audited": [1, 2], "entries": {"flows": 0, ...}}`.
//! A violated invariant ends this with a panic that names it.

use anyhow::{Context, Result, bail};
use aya::Pod;
use aya::maps::{HashMap, Map, MapData};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::time::Duration;
use tickwire_lane::control::{Reason, Reply, Request};
use tickwire_lane_linux::bpf::{self, map};
use tickwire_lane_linux::control::Channel;
use tickwire_lane_linux::region::Region;
use tickwire_stack::Stack;

const TIMEOUT: Duration = Duration::from_secs(5);

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [socket, process] = &arguments[..] else { bail!("usage: holds SOCKET PROCESS") };
    let audited = audit(Path::new(socket))?;
    let entries: Vec<String> = entries(process)?.iter().map(|(name, count)| format!("{name:?}: {count}")).collect();
    println!("{{\"audited\": {audited:?}, \"entries\": {{{}}}}}", entries.join(", "));
    Ok(())
}

/// Audits all lanes. Returns their numbers.
fn audit(socket: &Path) -> Result<Vec<u32>> {
    let channel = Channel::connect(socket).context("no service")?;
    let (mut audited, mut after) = (Vec::new(), 0);
    for number in 1.. {
        channel.send(&Request::ListLanes { after }, number, &[])?;
        let mut answer = channel.receive(TIMEOUT)?;
        let (cursor, info) = match answer.decode::<Reply>()?.1 {
            Reply::LaneInfo { cursor, info } => (cursor, info),
            _ => break,
        };
        after = cursor;
        if info.reason != Reason::None {
            continue;
        }
        let given = answer.descriptors.take(0).context("a lane without a region")?;
        // Given to be read only; root may open it anew.
        let file = format!("/proc/self/fd/{}", given.as_raw_fd());
        let file = std::fs::File::options().read(true).write(true).open(file).context("a lane's region")?;
        let region = Region::map(file.as_fd(), info.lane, &info.limits)?;
        let guard = region.lock().lock();
        // A program that was killed inside has lost its lane; there is nothing to look through
        // then.
        if guard.is_ok() {
            // SAFETY: the lock is held until after the last use, by this thread, the only one here;
            // the region outlives the value.
            Stack::new(unsafe { region.memory() }).check_invariants();
            audited.push(info.lane);
        }
    }
    Ok(audited)
}

/// How many entries the maps have whose entries come and go.
fn entries(process: &str) -> Result<BTreeMap<&'static str, usize>> {
    let mut entries = BTreeMap::new();
    for file in std::fs::read_dir(format!("/proc/{process}/fdinfo")).context("no such process")? {
        let Ok(text) = std::fs::read_to_string(file?.path()) else { continue };
        let id = text.lines().find_map(|line| line.strip_prefix("map_id:")?.trim().parse().ok());
        let Some(data) = id.and_then(|id| MapData::from_id(id).ok()) else { continue };
        let Some(name) = data.info()?.name_as_str().map(str::to_owned) else { continue };
        let (name, count) = match name.as_str() {
            map::FLOWS => (map::FLOWS, count::<bpf::FlowMapKey, bpf::FlowValue>(data)?),
            map::PORTS => (map::PORTS, count::<bpf::PortMapKey, bpf::PortValue>(data)?),
            map::GROUPS => (map::GROUPS, count::<bpf::GroupMapKey, bpf::GroupValue>(data)?),
            map::ADDRESSES => (map::ADDRESSES, count::<bpf::AddressMapKey, bpf::AddressValue>(data)?),
            map::SOURCES => (map::SOURCES, count::<bpf::SourceMapKey, u32>(data)?),
            map::OWNED => (map::OWNED, count::<bpf::OwnedMapKey, bpf::OwnedValue>(data)?),
            _ => continue,
        };
        entries.insert(name, count);
    }
    Ok(entries)
}

fn count<K: Pod, V: Pod>(data: MapData) -> Result<usize> {
    let map: HashMap<_, K, V> = Map::HashMap(data).try_into()?;
    Ok(map.keys().filter(Result::is_ok).count())
}
