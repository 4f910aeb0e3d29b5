//! The floor: what bare frames through lanes cost, without any stack, and what the attach modes
//! cost the kernel's own traffic.
//!
//! `floor [--rounds N] [--trips N] [--realtime] [ROW...]` prints one JSON object per row and round.
//! Rows: `lane:DIVERT:GUARD`, `kernel[:DIVERT]`, `smoltcp:udp`, `smoltcp:tcp`, `smoltcp:stream`;
//! with DIVERT `native`, `generic` or `tc` and GUARD `xdp` or `tc`. As root; needs two processors
//! to say anything. `--realtime` measures latencies at real-time priority, for a machine that
//! others use, too.

// Modules of a program, shared with the tests in `tests/`: what they show is for their neighbours.
#![allow(unreachable_pub, dead_code)]

mod kernel;
mod raw;
mod smoltcp;
mod topology;

use anyhow::{Context, Result, bail};
use raw::Raw;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;
use topology::{Divert, Guard, Host, Lane, PORT};

const FLOOD: Duration = Duration::from_secs(1);

/// Whether latencies are measured at real-time priority.
static REALTIME: AtomicBool = AtomicBool::new(false);

/// Pins the calling thread to a processor.
fn pin(processor: usize) {
    // SAFETY: the set is a plain array of bits, alive for the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &raw const set);
    }
}

/// Puts the calling thread, and those that it makes from now on, at real-time priority or back. Not
/// for throughput: the kernel's own threads, which do a part of the work then, would get no time.
fn realtime(on: bool) {
    let policy = if on && REALTIME.load(Relaxed) { libc::SCHED_FIFO } else { libc::SCHED_OTHER };
    // Where it is not allowed, the figures are those of an ordinary thread.
    // SAFETY: the parameters are alive for the call.
    unsafe {
        libc::sched_setscheduler(
            0,
            policy,
            &libc::sched_param { sched_priority: libc::c_int::from(policy == libc::SCHED_FIFO) },
        )
    };
}

struct Settings {
    rounds: usize,
    trips: usize,
    rows: Vec<String>,
}

fn settings() -> Result<Settings> {
    let mut settings = Settings { rounds: 1, trips: 100_000, rows: Vec::new() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse().ok()).context(format!("{word} needs a number"));
        match word.as_str() {
            "--rounds" => settings.rounds = number()?,
            "--trips" => settings.trips = number()?,
            "--realtime" => REALTIME.store(true, Relaxed),
            _ => settings.rows.push(word),
        }
    }
    if settings.rows.is_empty() {
        let all = [
            "lane:native:xdp",
            "lane:generic:tc",
            "lane:tc:tc",
            "kernel",
            "kernel:native",
            "kernel:generic",
            "kernel:tc",
            "smoltcp:udp",
            "smoltcp:tcp",
            "smoltcp:stream",
        ];
        settings.rows = all.map(String::from).into();
    }
    Ok(settings)
}

fn divert_mode(word: &str) -> Result<Divert> {
    Ok(match word {
        "native" => Divert::Native,
        "generic" => Divert::Generic,
        "tc" => Divert::Tc,
        _ => bail!("unknown attach mode {word}: native, generic or tc"),
    })
}

fn guard_mode(word: &str) -> Result<Guard> {
    Ok(match word {
        "xdp" => Guard::Xdp,
        "tc" => Guard::Tc,
        _ => bail!("unknown guard {word}: xdp or tc"),
    })
}

/// Sorts and picks p50, p99, p99.9 and the largest.
pub fn percentiles(times: &mut [u32]) -> [u32; 4] {
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    [at(0.5), at(0.99), at(0.999), at(1.0)]
}

fn lanes(hosts: &mut [Host; 2], row: &str) -> Result<[Lane; 2]> {
    let mut words = row.split(':').skip(1);
    let divert = divert_mode(words.next().unwrap_or("native"))?;
    let guard = guard_mode(words.next().unwrap_or("xdp"))?;
    let lane = |host: &mut Host| {
        host.divert(divert)?;
        let lane = host.lane(guard)?;
        host.claim(&lane, PORT)?;
        Ok::<_, anyhow::Error>(lane)
    };
    let [a, b] = hosts;
    Ok([lane(a)?, lane(b)?])
}

/// How far packets came, for the case that they did not arrive.
fn story(hosts: &mut [Host; 2], lanes: [&Lane; 2]) -> String {
    let mut story = Vec::new();
    for (host, lane) in hosts.iter_mut().zip(lanes) {
        story.push(format!("{:?}", host.lane_counters(lane).ok()));
    }
    story.join("; ")
}

/// Latency and throughput of bare frames.
fn bare(row: &str, trips: usize) -> Result<String> {
    let mut hosts = topology::cable(1500, false)?;
    let [a, b] = lanes(&mut hosts, row)?;
    let [from, to] = [0, 1].map(|n| (hosts[n].mac.0, hosts[n].address.octets()));
    let (mut raw_a, mut raw_b) = (Raw::new(a.open()?), Raw::new(b.open()?));
    let stop = AtomicBool::new(false);
    let request = raw::packet(from, to, PORT, 64);
    let answer = raw::packet(to, from, PORT, 64);
    realtime(true);
    // A thread starts where its maker is pinned, and there it could not even move away from a
    // real-time one that spins.
    pin(1);
    let times = std::thread::scope(|s| {
        s.spawn(|| {
            raw::pong(&mut raw_b, &answer, PORT, || stop.load(Relaxed));
        });
        pin(0);
        let warm = raw::ping(&mut raw_a, &request, PORT, trips / 10 + 1);
        let times = warm.and_then(|_| raw::ping(&mut raw_a, &request, PORT, trips));
        stop.store(true, Relaxed);
        times
    });
    let mut times = match times {
        Some(times) => times,
        None => bail!("a packet was lost: {}", story(&mut hosts, [&a, &b])),
    };
    let [p50, p99, p999, max] = percentiles(&mut times);

    stop.store(false, Relaxed);
    realtime(false);
    pin(1);
    let large = raw::packet(from, to, PORT, 1500 - 28);
    let (sent, received) = std::thread::scope(|s| {
        let drain = s.spawn(|| raw::drain(&mut raw_b, PORT, || stop.load(Relaxed)));
        pin(0);
        let sent = raw::flood(&mut raw_a, &large, FLOOD);
        std::thread::sleep(Duration::from_millis(50));
        stop.store(true, Relaxed);
        (sent, drain.join().expect("does not panic"))
    });
    let seconds = FLOOD.as_secs_f64();
    let gbit = received as f64 * large.len() as f64 * 8.0 / seconds / 1e9;
    Ok(format!(
        "\"p50_ns\":{p50},\"p99_ns\":{p99},\"p999_ns\":{p999},\"max_ns\":{max},\"trips\":{trips},\"sent_pps\":{:.0},\"received_pps\":{:.0},\"gbit\":{gbit:.2}",
        sent as f64 / seconds,
        received as f64 / seconds,
    ))
}

/// smoltcp on both ends, over lanes.
fn peer(what: &str, trips: usize) -> Result<String> {
    const MESSAGE: usize = 64;
    const ROOM: usize = 1 << 19;
    let mut hosts = topology::cable(1500, false)?;
    let ends = lanes(&mut hosts, "lane:native:xdp")?;
    for (host, lane) in hosts.iter_mut().zip(&ends) {
        host.claim_tcp(lane, PORT)?;
        host.claim_tcp(lane, smoltcp::CLIENT_PORT)?;
        host.claim(lane, smoltcp::CLIENT_PORT)?;
    }
    let stop = AtomicBool::new(false);
    let to = smoltcp::server(&hosts[1]);
    let sink = what == "stream";
    realtime(!sink);
    pin(1);
    std::thread::scope(|s| -> Result<String> {
        let server = s.spawn(|| -> Result<u64> {
            smoltcp::Node::new(&hosts[1], &hosts[0], Raw::new(ends[1].open()?))?
                .serve(ROOM, sink, || stop.load(Relaxed))
        });
        pin(0);
        let measured = (|| -> Result<Vec<u32>> {
            let mut client = smoltcp::Node::new(&hosts[0], &hosts[1], Raw::new(ends[0].open()?))?;
            Ok(match what {
                "udp" => client.ping_udp(to, MESSAGE, trips)?,
                "tcp" => client.ping_tcp(to, MESSAGE, trips, ROOM)?,
                "stream" => {
                    client.stream(to, FLOOD, ROOM)?;
                    Vec::new()
                }
                _ => bail!("unknown row smoltcp:{what}: udp, tcp or stream"),
            })
        })();
        stop.store(true, Relaxed);
        let bytes = server.join().expect("does not panic")?;
        let mut times = measured?;
        if sink {
            return Ok(format!("\"gbit\":{:.2}", bytes as f64 * 8.0 / FLOOD.as_secs_f64() / 1e9));
        }
        let [p50, p99, p999, max] = percentiles(&mut times);
        Ok(format!("\"p50_ns\":{p50},\"p99_ns\":{p99},\"p999_ns\":{p999},\"max_ns\":{max},\"trips\":{trips}"))
    })
}

fn main() -> Result<()> {
    let settings = settings()?;
    for round in 0..settings.rounds {
        for row in &settings.rows {
            let figures = match row.split_once(':').map_or((row.as_str(), None), |(a, b)| (a, Some(b))) {
                ("kernel", mode) => kernel::measure(mode.map(divert_mode).transpose()?, settings.trips / 4),
                ("smoltcp", what) => peer(what.unwrap_or("udp"), settings.trips),
                ("lane", _) => bare(row, settings.trips),
                _ => bail!("unknown row {row}"),
            };
            match figures {
                Ok(figures) => println!("{{\"row\":\"{row}\",\"round\":{round},{figures}}}"),
                Err(error) => println!("{{\"row\":\"{row}\",\"round\":{round},\"error\":\"{error:#}\"}}"),
            }
        }
    }
    Ok(())
}
