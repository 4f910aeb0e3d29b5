//! Sends messages at instants, with the timestamps of the driver and of the card.
//!
//! All times are of CLOCK_REALTIME, the clock of the kernel's timestamps. The program itself reads
//! CLOCK_MONOTONIC, which differs from it by a constant unless the clock is set. The constant is
//! measured before and after, and if it has changed the run is discarded.

use crate::pace::{PERIOD, Wait};
use nix::errno::Errno;
use nix::sys::socket::{setsockopt, sockopt};
use nix::time::ClockId;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};
use thiserror::Error;
use tickclock::CounterKind;
use tickwire_stamping::cross_timestamp::{CrossTimestamp, now};
use tickwire_stamping::hardware::{CardReading, Track};
use tickwire_stamping::nic::NicClock;
use tickwire_stamping::socket_stamps;

/// Valid frame lengths in bytes: those of Ethernet without the checksum, which no tool shows.
pub const FRAMES: RangeInclusive<u32> = 60..=1514;
/// Messages of the warm-up: routes are resolved, memory is faulted in, the kernel enables
/// timestamping.
pub(crate) const WARM_UP: u32 = 200;
/// Headers of Ethernet, and of UDP.
const HEADERS: u32 = 14 + 8;
/// Size of a message's number, which each message carries.
pub(crate) const NUMBER: usize = size_of::<u64>();
/// Time from the start of a run to its first instant, in ns.
const LEAD: i64 = 10_000_000;
/// How long to wait for the last timestamps after a run.
const STRAGGLERS: Duration = Duration::from_millis(300);
/// A run that exceeds twice its planned duration by this much ends early.
const GRACE: Duration = Duration::from_secs(2);
/// The largest change of the clocks' difference that may come from the error of the readings, in
/// ns.
const STEP: i64 = 2_000;

/// The times of one message, in ns of CLOCK_REALTIME.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Message {
    /// Its planned instant.
    pub due: i64,
    /// Just before the send call.
    pub call: i64,
    /// The driver's timestamp, if it was requested and arrived.
    pub driver: Option<i64>,
    /// The card's timestamp.
    pub wire: Option<i64>,
    /// The kernel's timestamp at the peer.
    pub peer: Option<i64>,
}

/// Why a run failed.
#[derive(Debug, Error)]
pub enum SendError {
    /// The frame is too short for the headers and a number.
    #[error("a frame of {0} bytes has no room for a message over IPv6: the least is {least}", least = HEADERS + 40 + NUMBER as u32)]
    Frame(u32),
    /// The socket cannot be created.
    #[error("cannot make a socket: {0}")]
    Socket(io::Error),
    /// The interface cannot be used.
    #[error("cannot send by {0}: {1}")]
    Interface(String, Errno),
    /// The kernel does not support timestamps.
    #[error("the kernel does not stamp what leaves: {0}")]
    Stamps(Errno),
    /// The system refused a message.
    #[error("cannot send to {0}: {1}")]
    Send(SocketAddr, io::Error),
    /// The system clock was set during the run, so its times are not comparable.
    #[error("the system clock was set meanwhile")]
    ClockSet,
}

/// The bytes of a message in a frame of this length; `None` if the frame is too short.
pub(crate) fn payload(frame: u32, to: IpAddr) -> Option<usize> {
    let ip = if to.is_ipv4() { 20 } else { 40 };
    let payload = frame.checked_sub(HEADERS + ip)? as usize;
    (payload >= NUMBER).then_some(payload)
}

/// The planned duration of a run of `messages` messages, including the warm-up.
pub(crate) fn length(messages: u32) -> Duration {
    PERIOD * (WARM_UP + messages)
}

/// The longest duration of a run of `messages` messages.
pub(crate) fn longest(messages: u32) -> Duration {
    length(messages) * 2 + GRACE + STRAGGLERS
}

/// A socket for one run.
#[derive(Debug)]
pub struct Sender {
    socket: UdpSocket,
    to: SocketAddr,
    payload: usize,
    stamped: bool,
    nic: Option<NicClock>,
}

/// The timestamps of one message: the driver's in ns of CLOCK_REALTIME, the card's in ns of its own
/// clock.
#[derive(Clone, Copy, Default)]
struct Stamps {
    driver: Option<i64>,
    card: Option<i64>,
}

impl Sender {
    /// Creates a plain socket for messages to this address in frames of `frame` bytes ([`FRAMES`]).
    ///
    /// # Errors
    /// The frame is too short, or the socket cannot be created.
    pub fn open(to: SocketAddr, frame: u32) -> Result<Self, SendError> {
        let payload = payload(frame, to.ip()).ok_or(SendError::Frame(frame))?;
        let any = if to.is_ipv4() { IpAddr::V4(Ipv4Addr::UNSPECIFIED) } else { IpAddr::V6(Ipv6Addr::UNSPECIFIED) };
        let socket = UdpSocket::bind((any, 0)).map_err(SendError::Socket)?;
        Ok(Self { socket, to, payload, stamped: false, nic: None })
    }

    /// Binds the socket to this interface.
    ///
    /// # Errors
    /// There is no such interface, or binding to it is not permitted.
    pub fn by(&self, interface: &str) -> Result<(), SendError> {
        let set = setsockopt(&self.socket, sockopt::BindToDevice, &OsString::from(interface));
        set.map_err(|error| SendError::Interface(interface.to_owned(), error))
    }

    /// Requests the driver's timestamps, and those of a card. Such a socket is a kernel socket,
    /// even under `tickwire run`.
    ///
    /// # Errors
    /// The kernel does not support them.
    pub fn stamp(&mut self, nic: Option<NicClock>) -> Result<(), SendError> {
        let asked =
            if nic.is_some() { socket_stamps::ask_card(&self.socket) } else { socket_stamps::ask(&self.socket) };
        asked.map_err(SendError::Stamps)?;
        (self.stamped, self.nic) = (true, nic);
        Ok(())
    }

    /// Sends the warm-up and `messages` messages, each at its instant, and returns all of them with
    /// their times. The number of a message is its index. A message whose instant has passed
    /// because the one before took too long is sent at once. A run that lags far behind ends with
    /// fewer messages. The socket is returned too, because a program's lane lives only as long as
    /// its sockets.
    ///
    /// # Errors
    /// The system refuses a message, or its clock was set meanwhile.
    pub fn transmit(self, wait: Wait, messages: u32) -> Result<(Vec<Message>, UdpSocket), SendError> {
        let all = u64::from(WARM_UP + messages);
        let mut bytes = vec![0; self.payload];
        let mut sent = Vec::with_capacity(all as usize);
        let mut stamps = vec![Stamps::default(); all as usize];
        let mut readings = Vec::new();
        let offset = offset();
        let start = now(ClockId::CLOCK_MONOTONIC) + LEAD;
        let end = start + ns(length(messages) * 2 + GRACE);
        for number in 0..all {
            readings.extend(self.reading());
            bytes[..NUMBER].copy_from_slice(&number.to_le_bytes());
            let due = start + number as i64 * ns(PERIOD);
            let call = wait.until(due);
            self.socket.send_to(&bytes, self.to).map_err(|error| SendError::Send(self.to, error))?;
            sent.push(Message { due: due + offset, call: call + offset, driver: None, wire: None, peer: None });
            self.departures(&mut stamps);
            if call > end {
                break;
            }
        }
        self.stragglers(&mut stamps[..sent.len()]);
        readings.extend(self.reading());
        if (self::offset() - offset).abs() > STEP {
            return Err(SendError::ClockSet);
        }
        for (message, stamps) in sent.iter_mut().zip(stamps) {
            message.driver = stamps.driver;
            message.wire = stamps.card.and_then(|stamp| realtime(&readings, stamp));
        }
        Ok((sent, self.socket))
    }

    fn reading(&self) -> Option<CardReading> {
        self.nic.as_ref().and_then(|nic| nic.read().ok())
    }

    /// Drains the timestamps of the error queue.
    fn departures(&self, stamps: &mut [Stamps]) {
        if !self.stamped {
            return;
        }
        while let Some(departure) = socket_stamps::departure(&self.socket) {
            let Some(of) = departure.number.and_then(|number| stamps.get_mut(number as usize)) else { continue };
            *of = Stamps { driver: of.driver.or(departure.stamp), card: of.card.or(departure.card) };
        }
    }

    /// Waits briefly for outstanding timestamps.
    fn stragglers(&self, stamps: &mut [Stamps]) {
        let until = Instant::now() + STRAGGLERS;
        let missing = |one: &Stamps| one.driver.is_none() || self.nic.is_some() && one.card.is_none();
        while self.stamped && stamps.iter().any(missing) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(2));
            self.departures(stamps);
        }
    }
}

/// CLOCK_REALTIME minus CLOCK_MONOTONIC, in ns.
fn offset() -> i64 {
    let cross_timestamp = CrossTimestamp::take(CounterKind::MonotonicRaw, 1.0);
    cross_timestamp.realtime - cross_timestamp.monotonic
}

/// Converts a card's timestamp to CLOCK_REALTIME, by the readings of its clock before and after it.
fn realtime(readings: &[CardReading], stamp: i64) -> Option<i64> {
    let after = readings.partition_point(|reading| reading.card <= stamp);
    let (before, after) = (readings.get(after.checked_sub(1)?)?, readings.get(after)?);
    Track::default().realtime(before, after, [stamp; 2]).ok().map(|[at, _]| at)
}

/// Converts to ns. The cast cannot overflow, because the spans are at most some hours.
fn ns(span: Duration) -> i64 {
    span.as_nanos() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    #[test]
    fn a_frame_holds_its_headers_and_the_message() {
        // The paper's 166 bytes: Ethernet 14, IPv4 20, UDP 8.
        assert_eq!(payload(166, HERE), Some(124));
        assert_eq!(payload(166, IpAddr::V6(Ipv6Addr::LOCALHOST)), Some(104));
        assert_eq!(payload(*FRAMES.start(), HERE), Some(18));
        assert_eq!(payload(69, IpAddr::V6(Ipv6Addr::LOCALHOST)), None);
        assert_eq!(payload(10, HERE), None);
        let error = Sender::open("[::1]:9".parse().unwrap(), 60).unwrap_err().to_string();
        assert_eq!(error, "a frame of 60 bytes has no room for a message over IPv6: the least is 70");
    }

    #[test]
    fn every_message_leaves_at_or_after_its_instant_and_the_driver_stamps_it_after_the_call() {
        let listener = UdpSocket::bind((HERE, 0)).unwrap();
        for wait in Wait::ALL {
            let mut sender = Sender::open(listener.local_addr().unwrap(), 166).unwrap();
            sender.by("lo").unwrap();
            sender.stamp(None).unwrap();
            let (messages, _socket) = sender.transmit(wait, 20).unwrap();
            assert_eq!(messages.len(), WARM_UP as usize + 20);
            for (number, message) in messages.iter().enumerate() {
                assert!(message.call >= message.due, "{number}: {message:?}");
                let driver = message.driver.unwrap_or_else(|| panic!("{number} has no stamp"));
                // The two clocks agree to a fraction of a microsecond.
                assert!((-1_000..1_000_000_000).contains(&(driver - message.call)), "{number}: {message:?}");
                assert_eq!((message.wire, message.peer), (None, None));
            }
            assert!(messages.windows(2).all(|two| two[1].due - two[0].due == ns(PERIOD)));
        }
    }

    #[test]
    fn a_cards_stamp_is_placed_between_the_readings_around_it() {
        let second = 1_000_000_000;
        let readings: Vec<CardReading> = (0..4)
            .map(|n| CardReading { realtime: second + n * 500_000, card: 77 + n * 500_000, doubt: 500 })
            .collect();
        assert_eq!(realtime(&readings, 77 + 600_000), Some(second + 600_000));
        assert_eq!(realtime(&readings, 77), Some(second));
        assert_eq!(realtime(&readings, 0), None, "before all readings");
        assert_eq!(realtime(&readings, 77 + 1_500_001), None, "behind them");
        assert_eq!(realtime(&[], 5), None);
        let mut set = readings;
        set[2].card += second;
        assert_eq!(realtime(&set, 77 + 700_000), None, "the card's clock was set");
    }
}
