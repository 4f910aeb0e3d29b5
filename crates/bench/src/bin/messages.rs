//! Messages over one TCP connection, one at a time: how long each takes until the receiver has all
//! of it.
//!
//! As `pingpong`, an "unmodified program" that knows nothing of Tickwire. Both ends must be on one
//! machine (the lab's hosts are): each message carries its send time, and the receiver reads the
//! same clock. So the completion time does not include the way back, which carries only a short
//! answer.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, bail, ensure};
use clap::{Parser, Subcommand};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use tickwire_bench::latency::Recorder;
use tickwire_bench::rate::RateFigures;
use tickwire_bench::transfer::Transfer;

/// Measures how long messages take over an ordinary TCP connection.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Accept one connection, take messages to its end, check each, print the figures.
    Receive {
        address: SocketAddr,
        /// Bytes of a message.
        #[arg(long, default_value_t = 20_000)]
        size: usize,
    },
    /// Connect and send messages, each when the one before has been answered, until either limit is
    /// reached; at least one.
    Send {
        address: SocketAddr,
        #[arg(long, default_value_t = 20_000)]
        size: usize,
        /// Messages to measure, at most.
        #[arg(long, default_value_t = 10_000)]
        count: u64,
        /// Seconds to measure: no message begins after them.
        #[arg(long, default_value_t = 2.0)]
        seconds: f64,
        /// Messages before that, not measured.
        #[arg(long, default_value_t = 5)]
        warmup: u64,
    },
}

fn main() -> Result<()> {
    match Args::parse().role {
        Role::Receive { address, size } => receive(address, &Body::new(size)?),
        Role::Send { address, size, count, seconds, warmup } => {
            send(address, &Body::new(size)?, count, Duration::from_secs_f64(seconds), warmup)
        }
    }
}

/// The header of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// When it was sent, in ns of the clock that both ends read.
    sent: u64,
    /// The number of a measured message, from 1; 0 in the warm-up.
    number: u64,
}

impl Head {
    const LENGTH: usize = 16;

    fn bytes(self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        bytes[..8].copy_from_slice(&self.sent.to_be_bytes());
        bytes[8..].copy_from_slice(&self.number.to_be_bytes());
        bytes
    }

    fn read(message: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_be_bytes(message.get(at..at + 8)?.try_into().ok()?));
        Some(Self { sent: word(0)?, number: word(8)? })
    }
}

/// The bytes that follow: a pattern that starts at another offset in each message.
struct Body {
    pattern: Vec<u8>,
    length: usize,
}

impl Body {
    const PERIOD: usize = 251;

    /// For messages of `size` bytes.
    fn new(size: usize) -> Result<Self> {
        let Some(length) = size.checked_sub(Head::LENGTH) else {
            bail!("a message needs at least {} bytes for its head, not {size}", Head::LENGTH)
        };
        let pattern = (0..length + Self::PERIOD).map(|at| (at % Self::PERIOD) as u8).collect();
        Ok(Self { pattern, length })
    }

    /// The body of the message with this number.
    fn of(&self, number: u64) -> &[u8] {
        let start = (number % Self::PERIOD as u64) as usize;
        &self.pattern[start..start + self.length]
    }

    fn message(&self, head: Head, into: &mut Vec<u8>) {
        into.clear();
        into.extend(head.bytes());
        into.extend(self.of(head.number));
    }
}

fn now() -> Result<u64> {
    let time = clock_gettime(ClockId::CLOCK_MONOTONIC).context("reading the clock")?;
    u64::try_from(time.num_nanoseconds()).context("a clock before its start")
}

fn send(address: SocketAddr, body: &Body, count: u64, time: Duration, warmup: u64) -> Result<()> {
    let mut stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
    stream.set_nodelay(true)?;
    let (mut message, mut answer) = (Vec::new(), [0; 8]);
    let mut exchange = |number: u64| {
        body.message(Head { sent: 0, number }, &mut message);
        let head = Head { sent: now()?, number };
        message[..Head::LENGTH].copy_from_slice(&head.bytes());
        stream.write_all(&message).context("sending a message")?;
        stream.read_exact(&mut answer).context("waiting for the answer")?;
        ensure!(u64::from_be_bytes(answer) == number, "an answer to another message");
        anyhow::Ok(())
    };
    for _ in 0..warmup {
        exchange(0)?;
    }
    let began = Instant::now();
    for number in 1..=count.max(1) {
        exchange(number)?;
        if began.elapsed() >= time {
            break;
        }
    }
    Ok(())
}

fn receive(address: SocketAddr, body: &Body) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    let (mut stream, _) = listener.accept()?;
    stream.set_nodelay(true)?;
    let mut message = vec![0; Head::LENGTH + body.length];
    let (mut recorder, mut number, mut first, mut last) = (Recorder::new(), 0, None, 0);
    while whole(&mut stream, &mut message)? {
        last = now()?;
        let head = Head::read(&message).context("a message without a head")?;
        if head.number != 0 {
            number += 1;
            first.get_or_insert(head.sent);
            recorder.record(Duration::from_nanos(last.saturating_sub(head.sent)));
        }
        ensure!(head.number == number, "message {} came instead of message {number}", head.number);
        ensure!(&message[Head::LENGTH..] == body.of(number), "message {number} came damaged");
        stream.write_all(&number.to_be_bytes()).context("answering")?;
    }
    let time = Duration::from_nanos(last - first.context("no message was measured")?);
    let goodput = RateFigures::new(number * message.len() as u64, time);
    println!("{}", serde_json::to_string(&Transfer { completion: recorder.latency(0), goodput })?);
    Ok(())
}

/// Reads a whole message; `false` at the end of the connection.
fn whole(stream: &mut TcpStream, message: &mut [u8]) -> Result<bool> {
    let mut got = 0;
    while got < message.len() {
        match stream.read(&mut message[got..]) {
            Ok(0) if got == 0 => return Ok(false),
            Ok(0) => bail!("the connection ended {got} bytes into a message"),
            Ok(more) => got += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("receiving a message"),
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_says_when_it_was_sent_and_has_a_body_of_its_own() {
        let body = Body::new(1000).unwrap();
        let (mut one, mut two) = (Vec::new(), Vec::new());
        let head = Head { sent: 7, number: 3 };
        body.message(head, &mut one);
        body.message(Head { number: 4, ..head }, &mut two);
        assert_eq!((one.len(), Head::read(&one)), (1000, Some(head)));
        assert_eq!(&one[16..], body.of(3));
        assert_ne!(one[16..], two[16..]);
        assert!(Body::new(15).is_err() && Head::read(&one[..15]).is_none());
    }
}
