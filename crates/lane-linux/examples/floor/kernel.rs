//! Ordinary programs beside the lanes: kernel sockets at both ends, with divert attached that has
//! nothing to divert.

use crate::topology::{self, Divert};
use crate::{percentiles, pin, realtime};
use anyhow::{Context, Result};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

const STREAM: Duration = Duration::from_secs(1);

/// UDP round trips of 64 bytes, blocking and spinning, and one TCP stream.
pub fn measure(mode: Option<Divert>, trips: usize) -> Result<String> {
    let mut hosts = topology::cable(1500, true)?;
    for host in &mut hosts {
        if let Some(mode) = mode {
            host.divert(mode)?;
        }
    }
    let [a, b] = &hosts;
    let udp_a = a.ns.run(|| UdpSocket::bind((a.address, 9)))?;
    let udp_b = b.ns.run(|| UdpSocket::bind((b.address, 9)))?;
    udp_a.connect((b.address, 9)).or_else(|_| a.ns.run(|| udp_a.connect((b.address, 9))))?;
    udp_b.connect((a.address, 9))?;
    let mut blocking = round_trips(&udp_a, &udp_b, trips)?;
    let [b50, b99, b999, _] = percentiles(&mut blocking);
    udp_a.set_nonblocking(true)?;
    udp_b.set_nonblocking(true)?;
    let mut spinning = round_trips(&udp_a, &udp_b, trips)?;
    let [s50, s99, s999, _] = percentiles(&mut spinning);

    let listener = b.ns.run(|| TcpListener::bind((b.address, 9)))?;
    let mut client = a.ns.run(|| TcpStream::connect((b.address, 9)))?;
    let (mut server, _) = listener.accept()?;
    realtime(false);
    pin(1);
    let bytes = std::thread::scope(|s| {
        let reader = s.spawn(move || {
            let mut buffer = vec![0; 1 << 18];
            let mut bytes = 0u64;
            while let Ok(n @ 1..) = server.read(&mut buffer) {
                bytes += n as u64;
            }
            bytes
        });
        pin(0);
        let buffer = vec![0; 1 << 18];
        let end = Instant::now() + STREAM;
        while Instant::now() < end {
            client.write_all(&buffer).context("sending").ok();
        }
        drop(client);
        reader.join().expect("does not panic")
    });
    let gbit = bytes as f64 * 8.0 / STREAM.as_secs_f64() / 1e9;
    Ok(format!(
        "\"blocking_p50_ns\":{b50},\"blocking_p99_ns\":{b99},\"blocking_p999_ns\":{b999},\"spinning_p50_ns\":{s50},\"spinning_p99_ns\":{s99},\"spinning_p999_ns\":{s999},\"tcp_gbit\":{gbit:.2}"
    ))
}

/// Waits for a datagram, by blocking or by polling. `false` when told to stop.
fn receive(socket: &UdpSocket, stop: &AtomicBool) -> bool {
    let mut buffer = [0; 64];
    loop {
        match socket.recv(&mut buffer) {
            Ok(_) => return !stop.load(Relaxed),
            Err(_) if stop.load(Relaxed) => return false,
            Err(_) => {}
        }
    }
}

fn round_trips(a: &UdpSocket, b: &UdpSocket, trips: usize) -> Result<Vec<u32>> {
    let stop = AtomicBool::new(false);
    realtime(true);
    pin(1);
    std::thread::scope(|s| {
        s.spawn(|| {
            while receive(b, &stop) {
                let _ = b.send(&[0; 64]);
            }
        });
        pin(0);
        let mut times = Vec::with_capacity(trips);
        for _ in 0..trips {
            let begin = Instant::now();
            a.send(&[0; 64])?;
            receive(a, &stop);
            times.push(begin.elapsed().as_nanos() as u32);
        }
        stop.store(true, Relaxed);
        a.send(&[0; 64])?;
        Ok(times)
    })
}
