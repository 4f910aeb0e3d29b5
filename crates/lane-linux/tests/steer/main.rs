//! The model of divert and guard (`tickwire-steer`) against the BPF programs: on the same frames
//! both come to the same verdicts, counters and tables. The kernel runs the programs on single
//! frames (`BPF_PROG_TEST_RUN`). Needs root; without it the test says so and passes.
//!
//! `TICKWIRE_STEER_SEED=N` tries the frames of another seed, too. What such a run cannot have is a
//! VLAN tag beside a frame, and a checksum that is left to a device: `lane` has those.

// Modules that are shared with the benchmark; this test does not use all of them.
#![allow(unreachable_pub, dead_code)]

mod frames;
mod host;
mod maps;
#[path = "../../examples/floor/test_run.rs"]
mod test_run;
#[path = "../../examples/floor/topology.rs"]
mod topology;
mod world;

use anyhow::Result;
use frames::{Frame, Way};
use host::{Counters, Host, Learnt, Program, Ran, Record, Sockets};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tickwire_lane_linux::sys_tap::BULK_DEVICE;
use tickwire_sim::Rng;
use tickwire_steer::tables::{LaneNumber, NicIndex, Tables};
use tickwire_steer::{
    DivertVerdict, FrameArrival, FrameDeparture, GuardVerdict, Merged, TrainDeparture, divert, divert_groups,
    divert_unicast, guard, guard_train,
};
use topology::Namespace;
use world::{LANES, NICS, percent, pick};

const SEED: u64 = 20_261_129;
/// Frames of one seed.
const FRAMES: u32 = 150_000;
/// Frames with the same tables.
const ROUND: u32 = 200;
/// What is noted of a fragment lasts for a second. A round that takes longer may differ for that
/// alone: it does not count.
const LONGEST_ROUND: Duration = Duration::from_millis(900);

/// What the programs return: XDP's, and tc's.
const XDP_DROP: u32 = 1;
const XDP_PASS: u32 = 2;
const XDP_REDIRECT: u32 = 4;
const TC_ACT_UNSPEC: u32 = u32::MAX;
const TC_ACT_SHOT: u32 = 2;
const TC_ACT_REDIRECT: u32 = 7;

/// One frame for one program.
#[derive(Debug)]
struct Case {
    program: Program,
    /// The network card by which it arrives.
    nic: NicIndex,
    /// The lane that sends it.
    lane: LaneNumber,
    merged: Option<Merged>,
    frame: Vec<u8>,
}

/// What the model says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judged {
    Diverted(DivertVerdict),
    Sent(GuardVerdict),
}

fn case(rng: &mut Rng, tables: &Tables) -> Case {
    let program = pick(rng, &Program::ALL);
    let is_guard = matches!(program, Program::Guard | Program::GuardTc | Program::GuardBulk);
    let way = if is_guard { Way::Out } else { Way::In };
    // Mostly short ones; some of about the MTU, and longer ones.
    let mtu = u64::from(pick(rng, &NICS).2);
    let data = match rng.below(20) {
        0 => mtu - 40,
        1 => mtu + 100,
        2 if program == Program::GuardBulk => 3000,
        _ => 64,
    };
    let Frame { bytes: frame, nic, lane, is_plain } = frames::frame(rng, tables, way, data);
    let packets = 1 + rng.below(9) as u32;
    let merged = match program {
        // In a frame with faults the headers of each packet cannot be counted.
        Program::GuardBulk if percent(rng, 70) => {
            let segment = pick(rng, &[1, 100, 255, 256, 300, 1000, 1240, 1246, 1260, 1440, 1446, 1460]);
            Some(Merged { segment, packets: (!is_plain || percent(rng, 20)).then_some(packets) })
        }
        Program::DivertTc | Program::DivertGroups if is_plain && percent(rng, 10) => {
            let segment = 1 + rng.below(40) as u32;
            Some(Merged { segment, packets: percent(rng, 50).then_some(packets) })
        }
        _ => None,
    };
    Case { program, nic: NICS[nic].0, lane, merged, frame }
}

/// Whether the kernel runs the program on such a frame: on a socket buffer it needs the whole IP
/// header.
fn can_run(case: &Case) -> bool {
    let least = match case.frame[12..14] {
        [8, 0] => 14 + 20,
        [0x86, 0xdd] => 14 + 40,
        _ => 14 + 1,
    };
    case.frame.len() >= if case.program.is_xdp() { 14 } else { least }
}

/// What the model says of a case.
fn judge(tables: &mut Tables, case: &Case, now_ns: u64) -> Judged {
    let &Case { nic, lane, merged, .. } = case;
    let frame = &case.frame[..];
    let arrival = FrameArrival { nic, now_ns, tag: None, merged, kernel: &Sockets };
    let departure = FrameDeparture { now_ns, tag: None };
    match case.program {
        Program::Divert | Program::DivertGeneric => Judged::Diverted(divert_unicast(tables, frame, &arrival)),
        Program::DivertTc => Judged::Diverted(divert(tables, frame, &arrival)),
        Program::DivertGroups => Judged::Diverted(divert_groups(tables, frame, &arrival)),
        Program::Guard | Program::GuardTc => Judged::Sent(guard(tables, lane, frame, &departure)),
        Program::GuardBulk => {
            let train = TrainDeparture { departure, segments: merged, is_checksum_left: false };
            Judged::Sent(guard_train(tables, lane, frame, &train))
        }
    }
}

/// Where the verdict and the records of a program differ from what the model says.
fn difference(case: &Case, judged: &Judged, ran: &Ran) -> Option<String> {
    let is_xdp = case.program.is_xdp();
    let (pass, drop, redirect) =
        if is_xdp { (XDP_PASS, XDP_DROP, XDP_REDIRECT) } else { (TC_ACT_UNSPEC, TC_ACT_SHOT, TC_ACT_REDIRECT) };
    let mut verdicts = vec![drop];
    let mut lanes = Vec::new();
    let mut sent = None;
    match judged {
        Judged::Diverted(DivertVerdict::Kernel { copies }) => {
            verdicts = vec![pass];
            lanes.clone_from(copies);
        }
        // It may go on to wake a thread.
        Judged::Diverted(DivertVerdict::Lane(lane)) => {
            verdicts.push(redirect);
            lanes.push(*lane);
        }
        Judged::Sent(GuardVerdict::Out { nic, path }) => {
            // XDP redirects by the first network card alone: see `Host::new`.
            verdicts = vec![if is_xdp && *nic != NICS[0].0 { drop } else { redirect }];
            let mut frame = case.frame.clone();
            if let Some(hop) = path {
                frame[..6].copy_from_slice(&hop.destination.0);
                frame[6..12].copy_from_slice(&hop.source.0);
            }
            if is_xdp {
                frame.resize(frame.len().max(guard::LEAST_FRAME), 0);
            }
            sent = Some(frame);
        }
        Judged::Sent(GuardVerdict::Refused(_)) => {}
    }
    lanes.sort_unstable();
    let records: Vec<Record> =
        lanes.into_iter().map(|lane| Record { lane, nic: case.nic, frame: case.frame.clone() }).collect();
    if !verdicts.contains(&ran.verdict) {
        return Some(format!("the program returned {}, not one of {verdicts:?}", ran.verdict));
    }
    if ran.records != records {
        let lanes = |records: &[Record]| records.iter().map(|record| record.lane).collect::<Vec<_>>();
        return Some(format!("records for {:?}, not {:?}", lanes(&ran.records), lanes(&records)));
    }
    sent.filter(|sent| *sent != ran.frame).map(|sent| format!("sent as {}, not {}", hex(&ran.frame), hex(&sent)))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is alive and writable.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The model's counters in the form of the programs'.
fn counters(tables: &Tables) -> Counters {
    let lane = |lane: &LaneNumber| tables.lane_counters.get(lane).copied().unwrap_or_default();
    (tables.counters, LANES.iter().map(lane).collect())
}

/// How often each verdict was seen, so that the test shows what it has tried.
type Tally = BTreeMap<String, u32>;

fn tally(seen: &mut Tally, case: &Case, judged: &Judged, before: &Tables, after: &Tables) {
    let kind = match judged {
        Judged::Diverted(DivertVerdict::Lane(_)) => "lane".into(),
        Judged::Diverted(DivertVerdict::Kernel { copies }) if copies.is_empty() => "kernel".into(),
        Judged::Diverted(DivertVerdict::Kernel { .. }) => "copies".into(),
        Judged::Sent(GuardVerdict::Out { path: None, .. }) => "out".into(),
        Judged::Sent(GuardVerdict::Out { .. }) => "out by the host's path".into(),
        Judged::Sent(GuardVerdict::Refused(refusal)) => format!("refused for {refusal:?}"),
    };
    *seen.entry(format!("{:?}: {kind}", case.program)).or_default() += 1;
    let has_ended = after.flows.len() < before.flows.len();
    for (what, is_so) in [
        ("stray fragment", after.counters.stray_fragments > before.counters.stray_fragments),
        ("tagged", after.counters.vlan > before.counters.vlan),
        ("flow ended", has_ended),
        ("handshake followed", !has_ended && after.flows != before.flows),
        ("handshake on a port that a lane joins", after.handshakes != before.handshakes),
    ] {
        *seen.entry(what.into()).or_default() += u32::from(is_so);
    }
}

/// Tries frames of one seed until enough have counted.
fn compare(host: &mut Host, seed: u64, seen: &mut Tally) -> Result<u32> {
    let mut compared = 0;
    for round in 0.. {
        if compared >= FRAMES {
            break;
        }
        let mut rng = Rng::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round);
        let began = Instant::now();
        let mut tables = world::tables(&mut rng, now_ns());
        host.fill(&tables)?;
        let entered = tables.clone();
        let mut last = counters(&tables);
        let mut number = 0;
        while number < ROUND {
            let case = case(&mut rng, &tables);
            if !can_run(&case) {
                continue;
            }
            let device = match case.program {
                Program::GuardBulk => case.lane | BULK_DEVICE,
                Program::Guard | Program::GuardTc => case.lane,
                _ => case.nic,
            };
            let mut ran = host.run(case.program, device, &case.frame, case.merged)?;
            ran.records.sort_unstable();
            let before = tables.clone();
            let judged = judge(&mut tables, &case, now_ns());
            let (counted, expected) = (host.counters()?, counters(&tables));
            if began.elapsed() > LONGEST_ROUND {
                break;
            }
            let difference = difference(&case, &judged, &ran).or_else(|| {
                (counted != expected).then(|| format!("counted {counted:?}\nnot     {expected:?}\nbefore  {last:?}"))
            });
            if let Some(difference) = difference {
                panic!(
                    "seed {seed}, round {round}, frame {number}: {:?} by network card {} or of lane {}, merged {:?}\n\
                     {}\nthe model says {judged:?}; {difference}\ntables before it: {before:#?}",
                    case.program,
                    case.nic,
                    case.lane,
                    case.merged,
                    hex(&case.frame)
                );
            }
            tally(seen, &case, &judged, &before, &tables);
            last = counted;
            number += 1;
        }
        if began.elapsed() > LONGEST_ROUND {
            continue;
        }
        let (learnt, expected) = (host.learnt()?, Learnt::of(&tables));
        assert_eq!(learnt, expected, "seed {seed}, round {round}: what is learnt, from {entered:#?}");
        compared += number;
    }
    Ok(compared)
}

#[test]
fn the_programs_and_the_model_come_to_the_same_verdicts() {
    // SAFETY: no memory is passed.
    if unsafe { libc::geteuid() } != 0 {
        eprintln!("skipped: BPF needs root");
        return;
    }
    let (here, far) = (Namespace::new().unwrap(), Namespace::new().unwrap());
    let other = std::env::var("TICKWIRE_STEER_SEED").ok();
    let other = other.map(|seed| seed.parse().expect("TICKWIRE_STEER_SEED is a number"));
    here.run(|| {
        let mut host = Host::new(&here, &far).unwrap();
        for seed in [SEED].into_iter().chain(other) {
            let mut seen = Tally::new();
            let compared = compare(&mut host, seed, &mut seen).unwrap();
            println!("seed {seed}: {compared} frames, {seen:#?}");
            assert!(compared >= FRAMES);
            let of = |what: &str| seen.iter().filter(|(name, _)| name.contains(what)).map(|(_, n)| n).sum::<u32>();
            for (what, least) in [
                (": lane", 2000),
                (": copies", 1000),
                (": out", 2000),
                ("host's path", 30),
                ("Malformed", 500),
                ("Protocol", 500),
                ("Source", 500),
                ("Port", 500),
                ("Fragment", 500),
                ("Length", 200),
                ("stray", 500),
                ("tagged", 200),
                ("flow ended", 30),
                ("handshake followed", 100),
                ("lane joins", 50),
            ] {
                assert!(of(what) >= least, "{what}: {}", of(what));
            }
        }
    });
}
