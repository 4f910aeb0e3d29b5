//! Requests and answers of many threads of one program, each with a TCP connection of its own and blocking calls: how most programs that read many sensors are written.
//!
//! As `pingpong`, an "unmodified program" that knows nothing of Tickwire.
#![forbid(unsafe_code)]

use anyhow::{Context, Result, anyhow};
use clap::{Parser, Subcommand};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Barrier;
use std::time::{Duration, Instant};
use tickwire_bench::latency::Recorder;
use tickwire_bench::many::Exchange;

/// Measures round trips of many threads over ordinary TCP connections.
#[derive(Parser)]
struct Args {
    #[command(subcommand)]
    role: Role,
}

#[derive(Subcommand)]
enum Role {
    /// Answer every message with itself until killed, each connection by a thread of its own.
    Serve { address: SocketAddr },
    /// Send messages by so many threads, each one at a time, and measure until the answer is there.
    Exchange {
        address: SocketAddr,
        #[arg(long, default_value_t = 16)]
        threads: u32,
        /// Round trips to measure, of all threads together.
        #[arg(long, default_value_t = 20_000)]
        count: u32,
        /// Round trips of each thread before that, not measured.
        #[arg(long, default_value_t = 100)]
        warmup: u32,
    },
}

/// Bytes of a message.
const SIZE: usize = 64;

fn main() -> Result<()> {
    match Args::parse().role {
        Role::Serve { address } => serve(address),
        Role::Exchange { address, threads, count, warmup } => exchange(address, threads.max(1), count, warmup),
    }
}

fn serve(address: SocketAddr) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("listening on {address}"))?;
    loop {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        std::thread::spawn(move || {
            let mut message = [0; SIZE];
            // A client that resets its connection is not the server's failure.
            while stream.read_exact(&mut message).is_ok() && stream.write_all(&message).is_ok() {}
        });
    }
}

fn round_trip(stream: &mut TcpStream) -> std::io::Result<()> {
    let mut back = [0; SIZE];
    stream.write_all(&[0x5a; SIZE])?;
    stream.read_exact(&mut back)
}

/// What one thread saw: its round trips, and when its last was over.
fn one(mut stream: TcpStream, count: u32, warmup: u32, start: &Barrier) -> Result<(Vec<Duration>, Instant)> {
    for _ in 0..warmup {
        round_trip(&mut stream)?;
    }
    start.wait();
    let trips = (0..count).map(|_| {
        let sent = Instant::now();
        round_trip(&mut stream)?;
        Ok(sent.elapsed())
    });
    Ok((trips.collect::<Result<_>>()?, Instant::now()))
}

fn exchange(address: SocketAddr, threads: u32, count: u32, warmup: u32) -> Result<()> {
    let connect = |_| {
        let stream = TcpStream::connect(address).with_context(|| format!("connecting to {address}"))?;
        stream.set_nodelay(true)?;
        // What is not answered by then is a failure, at which the others need not wait for ever.
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        Ok(stream)
    };
    let streams = (0..threads).map(connect).collect::<Result<Vec<_>>>()?;
    let each = count.div_ceil(threads);
    let start = Barrier::new(threads as usize + 1);
    let (begin, seen) = std::thread::scope(|scope| {
        let threads: Vec<_> =
            streams.into_iter().map(|stream| scope.spawn(|| one(stream, each, warmup, &start))).collect();
        start.wait();
        let begin = Instant::now();
        let joined = threads.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
        joined.collect::<Result<Vec<_>>>().map(|seen| (begin, seen))
    })?;
    let mut recorder = Recorder::new();
    seen.iter().flat_map(|(trips, _)| trips).for_each(|&trip| recorder.record(trip));
    let end = seen.iter().map(|&(_, end)| end).max().context("no thread")?;
    let exchange = Exchange {
        connections: threads,
        active: threads,
        latency: recorder.latency(0),
        per_second: f64::from(each * threads) / end.duration_since(begin).as_secs_f64(),
        answered: u64::from(threads) * (u64::from(each) + u64::from(warmup)),
    };
    println!("{}", serde_json::to_string(&exchange)?);
    Ok(())
}
