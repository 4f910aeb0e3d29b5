//! How many requests per second a time server answers.
//!
//! Without arguments it loads our own server over loopback, client and server each on a processor
//! of its own. It does so in basic mode, in basic mode with a rate limit that is not reached, and
//! in interleaved mode. With the address and process ID of a server on this host (`requests
//! 127.0.0.1:123 PID`) it loads that one; the processor time is then that of the process. The
//! client keeps so many requests in flight that the server never waits.

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::socket::{setsockopt, sockopt};
use nix::time::{ClockId, clock_gettime};
use nix::unistd::Pid;
use std::error::Error;
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use tickclock::{Count, CounterKind, Nanos, Parameters, Root, Scale, Status, Writer, counter};
use tickwire_ntp::{NtpPacket, Stamp};
use tickwire_timekeeper::TimeServer;
use tickwire_timekeeper::serve::Serve;

const LASTS: Duration = Duration::from_secs(5);
/// Requests in flight, and the receive buffer for as many replies, in bytes.
const WINDOW: u64 = 512;
const ROOM: usize = 4 << 20;
/// After so long without a reply, requests in flight count as lost.
const LOST: Duration = Duration::from_millis(200);

pub(crate) type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

pub(crate) fn main() -> Result<()> {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    if let [address, pid] = &arguments[..] {
        let server = address.parse()?;
        let pid: i32 = pid.parse()?;
        let before = process_time(pid)?;
        let answers = load(server, false)?;
        show(address, answers, process_time(pid)? - before);
        return Ok(());
    }
    for (what, interleaved, rate) in
        [("basic mode", false, 0.0), ("basic mode, limited", false, 1e6), ("interleaved mode", true, 0.0)]
    {
        ours(what, interleaved, rate)?;
    }
    Ok(())
}

fn show(what: &str, answers: u64, busy: f64) {
    let wall = LASTS.as_secs_f64();
    println!(
        "{what}: {:.0} answers per second, server busy {:.0} %: {:.0} per second of processor time",
        answers as f64 / wall,
        busy / wall * 100.0,
        answers as f64 / busy
    );
}

/// Loads our own server.
fn ours(what: &str, interleaved: bool, rate: f64) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let page = directory.path().join("clock");
    let kind = if counter::exists(CounterKind::Tsc) { CounterKind::Tsc } else { CounterKind::MonotonicRaw };
    let writer = Writer::create(&page, kind)?;
    let scale = tickwire_timekeeper::hardware::nominal(kind).or(Scale::from_period(1.0)).ok_or("no period")?;
    writer.publish(&Parameters {
        status: Status::SYNCHRONISED,
        at: counter::read(kind),
        time: Nanos(1_790_000_000_000_000_000),
        local: scale,
        difference: scale,
        bound: 100_000,
        error: 100,
        fresh_until: Count(u64::MAX / 2),
        root: Root { stratum: 1, reference: 1, delay: 100_000 },
        ..Parameters::UNKNOWN
    });
    let serve = Serve { listen: vec!["127.0.0.1:0".parse()?], rate, burst: u32::MAX, ..Serve::default() };
    let mut server = TimeServer::start(&serve, &page)?;
    let address = server.addresses().next().ok_or("no address")?;
    let (stop, stopper) = nix::unistd::pipe()?;
    let ready = Barrier::new(2);
    std::thread::scope(|scope| {
        let serving = scope.spawn(|| -> Result<f64> {
            pin(1)?;
            ready.wait();
            server.run(stop.as_fd())?;
            let busy = Duration::from(clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)?);
            println!("{}", server.tally());
            Ok(busy.as_secs_f64())
        });
        ready.wait();
        let answers = load(address, interleaved);
        drop(stopper);
        let busy = serving.join().map_err(|_| "the server has panicked")??;
        show(what, answers?, busy);
        Ok(())
    })
}

/// Sends requests for a while; returns how many were answered.
fn load(server: SocketAddr, interleaved: bool) -> Result<u64> {
    pin(0)?;
    let socket = UdpSocket::bind((if server.is_ipv4() { "127.0.0.1" } else { "::1" }, 0))?;
    socket.connect(server)?;
    socket.set_nonblocking(true)?;
    setsockopt(&socket, sockopt::RcvBuf, &ROOM)?;
    let begin = Instant::now();
    let (mut sent, mut answers, mut bytes) = (0u64, 0u64, [0; 100]);
    let mut before = Stamp(0);
    let mut heard = begin;
    while begin.elapsed() < LASTS {
        while sent - answers < WINDOW {
            sent += 1;
            let mut request = NtpPacket::request(Stamp(sent << 1));
            if interleaved {
                request.interleave(Stamp(sent << 1 | 1), before);
            }
            // A request without buffer space is lost, as on a wire.
            let _ = socket.send(&request.to_bytes());
        }
        while let Ok(length) = socket.recv(&mut bytes) {
            before = NtpPacket::parse(&bytes[..length])?.0.receive_timestamp;
            answers += 1;
            heard = Instant::now();
        }
        if heard.elapsed() > LOST {
            sent = answers;
            heard = Instant::now();
        }
    }
    Ok(answers)
}

/// Pins the thread to one processor, if there are as many.
fn pin(processor: usize) -> nix::Result<()> {
    let mut set = CpuSet::new();
    set.set(processor % std::thread::available_parallelism().map_or(1, usize::from))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// Processor time of a process, in seconds.
fn process_time(pid: i32) -> Result<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let after = stat.rsplit_once(')').ok_or("no process")?.1;
    let ticks: Vec<f64> = after.split_whitespace().skip(11).take(2).filter_map(|ticks| ticks.parse().ok()).collect();
    let second = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.ok_or("no clock ticks")?;
    Ok(ticks.iter().sum::<f64>() / second as f64)
}
