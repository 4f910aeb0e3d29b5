//! `tickwire stat`: what is on the fast path, and why the rest is not.

use crate::args::Stat;
use crate::client::{Client, unexpected};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::io::IsTerminal;
use terminal_size::{Width, terminal_size_of};
use tickwire_lane::control::{Claim as ClaimNumber, CountersOf, LaneInfo, Reason, Reply, Request};
use tickwire_lane_windows::lane_memory::SECTION_BYTES;
use tickwire_lane_windows::lane_snapshot::LaneSnapshot;
use tickwire_lane_windows::process_user::current_user;
use tickwire_lane_windows::section::SharedSection;
use tickwire_service_windows::figures::{HOST_NAMES, LANE_LOSSES};
use tickwire_show::output;
use tickwire_show::stat::{
    ClaimReading, Host, Interface, LANE_COUNTERS, Lane, REFUSALS, StatReading, claim, interface, page, reason_text,
    socket,
};

/// No service has more lanes than this, nor a lane more claims. A longer listing is broken, and is
/// cut.
const MANY: usize = 1 << 16;

/// Prints one reading.
pub(crate) fn run(arguments: &Stat) -> Result<()> {
    let reading = gather(&mut Client::connect(arguments.socket.pipe())?)?;
    let text = if arguments.json {
        serde_json::to_string(&reading).context("cannot print the reading")? + "\n"
    } else {
        let out = std::io::stdout();
        let size = terminal_size_of(&out).filter(|_| out.is_terminal());
        page(&reading, size.map(|(Width(width), _)| width.into()))
    };
    output::print(&text).map(drop)
}

/// Asks the service for everything.
fn gather(client: &mut Client) -> Result<StatReading> {
    let host = Host { interfaces: interfaces(client)?, counters: host_counters(client)? };
    // The service shows others only their own.
    let of_all_users = current_user().is_ok_and(|user| user.is_administrator);
    Ok(StatReading { host, lanes: lanes(client)?, incomplete: false, of_all_users })
}

/// What the service has counted for the machine.
pub(crate) fn host_counters(client: &mut Client) -> Result<BTreeMap<&'static str, u64>> {
    Ok(HOST_NAMES.into_iter().zip(counters(client, CountersOf::Host, 0)?).collect())
}

/// The interfaces that the service accelerates.
pub(crate) fn interfaces(client: &mut Client) -> Result<Vec<Interface>> {
    let mut interfaces = Vec::new();
    let mut after = 0;
    while interfaces.len() < MANY {
        match client.ask(&Request::ListInterfaces { after })?.0 {
            Reply::Interface { info } => {
                after = info.interface;
                interfaces.push(interface(&info));
            }
            Reply::Done => break,
            reply => return Err(unexpected(&reply)),
        }
    }
    Ok(interfaces)
}

fn counters(client: &mut Client, of: CountersOf, lane: u32) -> Result<Vec<u64>> {
    match client.ask(&Request::Counters { of, lane })?.0 {
        Reply::Counters { figures } => Ok(figures.as_slice().to_vec()),
        reply => Err(unexpected(&reply)),
    }
}

fn lanes(client: &mut Client) -> Result<Vec<Lane>> {
    let mut lanes = Vec::new();
    let mut after = 0;
    while lanes.len() < MANY {
        let (reply, mut handles) = client.ask(&Request::ListLanes { after })?;
        let (cursor, info) = match reply {
            Reply::LaneInfo { cursor, info } => (cursor, info),
            Reply::Done => break,
            reply => return Err(unexpected(&reply)),
        };
        after = cursor;
        // What cannot be mapped must not hide the other lanes.
        let copy = handles.take(0).and_then(|handle| LaneSnapshot::open(&SharedSection::from(handle)).ok());
        lanes.push(lane(client, &info, copy.as_ref()));
    }
    Ok(lanes)
}

fn lane(client: &mut Client, info: &LaneInfo, copy: Option<&LaneSnapshot>) -> Lane {
    let is_accelerated = info.reason == Reason::None;
    let (guard, claims) = if is_accelerated { of_lane(client, info.lane) } else { Default::default() };
    Lane {
        lane: info.lane,
        program: info.program.as_str().to_owned(),
        pid: info.pid,
        uid: None,
        processes: info.processes,
        age_ms: info.age_ms,
        memory_bytes: if is_accelerated { 2 * SECTION_BYTES as u64 } else { 0 },
        accelerated: is_accelerated,
        reason: reason_text(info.reason),
        guard,
        counters: copy.map(|copy| copy.counters().iter().collect()).unwrap_or_default(),
        sockets: copy.map(|copy| copy.rows().iter().filter_map(socket).collect()).unwrap_or_default(),
        claims,
    }
}

/// The names of a lane's counters in divert, guard and rings.
fn lane_counters() -> impl Iterator<Item = &'static str> {
    LANE_COUNTERS.into_iter().chain(REFUSALS).chain(LANE_LOSSES)
}

/// The lane may end between two requests: then its counters and claims are empty.
fn of_lane(client: &mut Client, lane: u32) -> (BTreeMap<&'static str, u64>, Vec<ClaimReading>) {
    let guard = lane_counters().zip(counters(client, CountersOf::Lane, lane).unwrap_or_default()).collect();
    let mut claims = Vec::new();
    let mut after = ClaimNumber::default();
    while claims.len() < MANY {
        let Ok((Reply::Held { held }, _)) = client.ask(&Request::ListClaims { lane, after }) else { break };
        after = held.claim;
        claims.push(claim(&held));
    }
    (guard, claims)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_counter_is_in_the_manual() {
        let manual = include_str!("manual/stat.txt");
        let words: Vec<&str> = manual.split(|c: char| !(c.is_alphanumeric() || c == '_')).collect();
        for name in HOST_NAMES.into_iter().chain(lane_counters()) {
            assert!(words.contains(&name), "{name} is not explained");
        }
    }
}
