//! Sends streams when they are due: a thread for each, which sends one message after the other, as
//! programs do.

use crate::PROGRESS;
use crate::check;
use crate::error::NodeError;
use crate::message;
use crate::os;
use crate::protocol::{NodeReport, Order, Prepare, Progress, Sent, Start, StreamDestination};
use crate::sockets::{self, CONNECTING, Socket};
use crate::talk::{Heard, Talk, unexpected};
use crate::time::{TimeError, Timepiece};
use crate::times::Times;
use crate::units::nanos;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Timeout of a call, after which it checks whether to continue; also the longest delay
/// until the controller is heard.
const NAP: Duration = Duration::from_millis(100);
/// How long after the end a late producer continues.
const TIMEOUT_NS: i64 = 5_000_000_000;
/// A stream's thread needs little stack: its message is on the heap.
const STACK: usize = 256 << 10;

/// A producer with its sockets open.
#[derive(Debug)]
pub(crate) struct Producer {
    prepare: Prepare,
    time: Timepiece,
    sockets: Vec<Socket>,
}

impl Producer {
    /// Opens the sockets, and connects.
    pub(crate) fn open(prepare: Prepare) -> Result<Self, NodeError> {
        let time = prepare.time.open()?;
        let until = Instant::now() + CONNECTING;
        let sockets = prepare.streams.iter().map(|channel| sockets::sending(channel, prepare.address, until));
        Ok(Self { sockets: sockets.collect::<Result<_, _>>()?, prepare, time })
    }

    /// The shared clock.
    pub(crate) fn time(&self) -> &Timepiece {
        &self.time
    }

    /// Sends all messages, and reports. Ends at the controller's order.
    pub(crate) fn run(self, start: &Start, talk: &Talk) -> Result<(), NodeError> {
        let Self { prepare, time, sockets } = self;
        check::start(start, &prepare.streams, time.now_ns()?)?;
        let counts: Vec<AtomicU64> = sockets.iter().map(|_| AtomicU64::new(0)).collect();
        let quit = AtomicBool::new(false);
        let (done, ended) = channel();
        std::thread::scope(|scope| {
            // On every exit the threads end first.
            let _at_end = Quit(&quit);
            for (index, socket) in sockets.into_iter().enumerate() {
                let mut line = Line {
                    channel: &prepare.streams[index],
                    socket,
                    time: &time,
                    watch_ns: prepare.watch_ns,
                    start,
                    count: &counts[index],
                    quit: &quit,
                };
                let done = done.clone();
                std::thread::Builder::new()
                    .name(format!("stream {}", line.channel.stream.id))
                    .stack_size(STACK)
                    .spawn_scoped(scope, move || {
                        // The receiver may be gone; then no one needs the result.
                        let _ = done.send((index, line.send()));
                        line.linger();
                    })
                    .map_err(|source| NodeError::System { what: "start a thread", source })?;
            }
            attend(talk, &time, &counts, &quit, &ended)
        })
    }
}

/// Stops the streams' threads when dropped.
struct Quit<'a>(&'a AtomicBool);

impl Drop for Quit<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Obeys orders and reports progress until all streams have ended and the controller orders the
/// end.
fn attend(
    talk: &Talk,
    time: &Timepiece,
    counts: &[AtomicU64],
    quit: &AtomicBool,
    ended: &Receiver<(usize, Sent)>,
) -> Result<(), NodeError> {
    let mut streams = vec![None; counts.len()];
    let mut told = Instant::now();
    let mut bound_ns = time.bound_ns();
    while streams.iter().any(Option::is_none) {
        match talk.hear(NAP)? {
            Heard::Nothing => {}
            Heard::End => return Ok(()),
            Heard::Order(Order::Stop) => quit.store(true, Ordering::Relaxed),
            Heard::Order(other) => return Err(unexpected(&other, "`stop`")),
        }
        for (index, sent) in ended.try_iter() {
            streams[index] = Some(sent);
        }
        if told.elapsed() >= PROGRESS {
            told = Instant::now();
            bound_ns = bound_ns.max(time.bound_ns());
            let far = |count: &AtomicU64| Progress { messages: count.load(Ordering::Relaxed), ..Progress::default() };
            talk.mention(NodeReport::Progress { streams: counts.iter().map(far).collect() })?;
        }
    }
    let bound_ns = bound_ns.max(time.bound_ns());
    talk.say(NodeReport::Sent { streams: streams.into_iter().flatten().collect(), bound_ns })?;
    if quit.load(Ordering::Relaxed) {
        return Ok(());
    }
    match talk.wait()? {
        None | Some(Order::Stop) => Ok(()),
        Some(other) => Err(unexpected(&other, "`stop`")),
    }
}

/// Why a stream ended before its last message.
#[derive(Debug, Error)]
enum Ended {
    #[error("the controller stopped it")]
    Stopped,
    #[error("it was behind: of {due} messages {sent} were sent when the time for that was over")]
    Behind { sent: u64, due: u64 },
    #[error("message {number} could not be sent: {source}")]
    Send { number: u64, source: io::Error },
    #[error("no time for message {number}: {source}")]
    Time { number: u64, source: TimeError },
}

/// The send time that counts: the time of the call. If the previous call returned only after the
/// due time, the due time counts: a measuring program does not wait for its network.
const fn counts_from(due: i64, now: i64, returned: i64) -> i64 {
    if returned > due { due } else { now }
}

/// One stream's sender.
struct Line<'a> {
    channel: &'a StreamDestination,
    socket: Socket,
    time: &'a Timepiece,
    watch_ns: u64,
    start: &'a Start,
    count: &'a AtomicU64,
    quit: &'a AtomicBool,
}

impl Line<'_> {
    /// Sends all messages when they are due; overdue ones at once, back to back.
    fn send(&mut self) -> Sent {
        os::set_exact_timers();
        let mut release = Times::default();
        let fault = self.send_each(&mut release).err().map(|ended| ended.to_string());
        Sent { messages: self.count.load(Ordering::Relaxed), release: release.pairs(), fault }
    }

    fn send_each(&mut self, release: &mut Times) -> Result<(), Ended> {
        self.set_timeouts().map_err(|source| Ended::Send { number: 0, source })?;
        let stream = &self.channel.stream;
        let (first, last) = self.start.numbers(stream);
        let mut message = vec![0; stream.size as usize];
        // When the previous call returned.
        let mut returned = i64::MIN;
        for number in 0..last {
            let time = |source| Ended::Time { number, source };
            message::write(&mut message, stream.id, number as u32);
            let due = self.due(number);
            let now = self.time.wait_until(due, self.watch_ns, self.quit).map_err(time)?.ok_or(Ended::Stopped)?;
            self.may_go_on(number, last, now)?;
            message::stamp(&mut message, counts_from(due, now, returned) - self.start.at_ns);
            self.call(&message, number, last)?;
            returned = self.time.now_ns().map_err(time)?;
            self.count.store(number + 1, Ordering::Relaxed);
            if number >= first {
                release.record(now.abs_diff(due));
            }
        }
        Ok(())
    }

    /// No call blocks for ever.
    fn set_timeouts(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Stream(stream) => os::limit_stream(stream, NAP),
            Socket::Datagrams(socket) => os::limit_datagrams(socket, NAP),
            Socket::Listener(_) => Ok(()),
        }
    }

    /// When a message is due. Messages of the run are due before its end, which the clock can
    /// represent.
    fn due(&self, number: u64) -> i64 {
        let stream = &self.channel.stream;
        let after = nanos(stream.phase.unwrap_or_default()).saturating_add(nanos(stream.period).saturating_mul(number));
        self.start.at_ns.saturating_add_unsigned(after)
    }

    fn may_go_on(&self, sent: u64, due: u64, now: i64) -> Result<(), Ended> {
        let length = self.start.warm_up_ns.saturating_add(self.start.duration_ns);
        let end = self.start.at_ns.saturating_add_unsigned(length);
        if self.quit.load(Ordering::Relaxed) {
            return Err(Ended::Stopped);
        }
        if now > end.saturating_add(TIMEOUT_NS) {
            return Err(Ended::Behind { sent, due });
        }
        Ok(())
    }

    /// Writes all of a message to the socket.
    fn call(&mut self, message: &[u8], number: u64, last: u64) -> Result<(), Ended> {
        let mut rest = message;
        while !rest.is_empty() {
            let result = match &mut self.socket {
                Socket::Stream(stream) => stream.write(rest),
                Socket::Datagrams(socket) => socket.send_to(rest, self.channel.to),
                Socket::Listener(_) => Err(ErrorKind::NotConnected.into()),
            };
            match result {
                Ok(0) => return Err(Ended::Send { number, source: ErrorKind::WriteZero.into() }),
                Ok(written) => rest = &rest[written..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_timeout(&error) => {
                    let now = self.time.now_ns().map_err(|source| Ended::Time { number, source })?;
                    self.may_go_on(number, last, now)?;
                    self.wait_for_room().map_err(|source| Ended::Send { number, source })?;
                }
                Err(source) => return Err(Ended::Send { number, source }),
            }
        }
        Ok(())
    }

    /// Waits where the call that found no room has not done so.
    fn wait_for_room(&self) -> io::Result<()> {
        match &self.socket {
            Socket::Stream(stream) => os::wait_for_room(stream, NAP),
            Socket::Datagrams(socket) => os::wait_for_room(socket, NAP),
            Socket::Listener(_) => Ok(()),
        }
    }

    /// Keeps a connection until the peer has read all, or the node ends.
    fn linger(&mut self) {
        if let Socket::Stream(stream) = &mut self.socket {
            // An error means that the connection is gone, and needs nothing more.
            let _ = linger(stream, self.quit);
        }
    }
}

fn linger(stream: &mut TcpStream, quit: &AtomicBool) -> io::Result<()> {
    stream.shutdown(Shutdown::Write)?;
    os::limit_reads(stream, NAP)?;
    let mut nothing = [0; 512];
    while !quit.load(Ordering::Relaxed) {
        match stream.read(&mut nothing) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::Interrupted || is_timeout(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_the_network_counts_from_when_it_was_due() {
        assert_eq!(counts_from(1_000, 1_003, i64::MIN), 1_003, "the first");
        assert_eq!(counts_from(1_000, 1_003, 990), 1_003, "the program woke up late");
        assert_eq!(counts_from(1_000, 1_003, 1_000), 1_003);
        assert_eq!(counts_from(1_000, 1_503, 1_500), 1_000, "the call before took until then");
    }
}
