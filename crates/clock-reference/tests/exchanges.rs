//! Exchanges with the truth server over loopback, in interleaved mode, with kernel timestamps only.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tickclock::{Nanos, counter};
use tickwire_clock_reference::Truth;
use tickwire_clock_reference::function::{Recipe, SineWander};
use tickwire_clock_reference::path::{Level, PathModel};
use tickwire_clock_reference::server::{ReferenceServer, TransmitStamping};
use tickwire_ntp::client::{ClientConfig, Poll, TransmitContents};
use tickwire_ntp::socket::NtpSocket;
use tickwire_ntp::{AcceptedReply, Client, CompletedExchange, Reply};
use tickwire_stamping::Quality;

/// Maximum error of the readings of the kernel's clock, in ns.
const READING: i64 = 2_000;

/// Timeout of a reply.
const TIMEOUT: Duration = Duration::from_secs(1);

fn free_address() -> SocketAddr {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Makes `count` exchanges with kernel timestamps only.
fn exchanges(truth: &Truth, count: usize) -> Vec<CompletedExchange> {
    let address = free_address();
    let mut server = ReferenceServer::bind(truth.clone(), address, TransmitStamping::Told).unwrap();
    let answers = server.answers();
    let (stop, stopper) = nix::unistd::pipe().unwrap();
    let serving = std::thread::spawn(move || server.run(stop.as_fd()));
    let pace = Poll { usual: 1, longest: 1 };
    let mut client = Client::new(ClientConfig { poll: pace, transmit: TransmitContents::Nonce, interleaved: true }, 0);
    let mut socket = NtpSocket::open(address, truth.kind(), truth.period()).unwrap();
    let (mut all, mut now) = (Vec::new(), 0);
    while all.len() < count {
        now += 1_000_000_000;
        let near = truth.at(counter::read(truth.kind()));
        let request = client.request(now, [now as u64, !now as u64], socket.counter()).unwrap();
        socket.send(&request.to_bytes()).unwrap();
        let mut received = Vec::new();
        let until = Instant::now() + TIMEOUT;
        while received.is_empty() && Instant::now() < until {
            let mut descriptors = [PollFd::new(socket.as_fd(), PollFlags::POLLIN)];
            poll(&mut descriptors, PollTimeout::from(100u16)).unwrap();
            socket.receive(|packet| client.answers_pending(packet), |one| received.push(one), |_| ());
        }
        // Skips an exchange that was lost, or during which the system clock was set.
        let Some(Ok(one)) = received.first() else { continue };
        let reply = Reply { bytes: &one.bytes, sent: one.sent, received: one.received, now, near };
        let answer = client.answer(reply).unwrap();
        if let AcceptedReply { exchange: Some(exchange), interleaved: true, .. } = answer
            && one.quality == Quality::Kernel
        {
            all.push(exchange);
        }
    }
    assert!(answers.load(Ordering::Relaxed) >= count as u64);
    drop(stopper);
    serving.join().unwrap().unwrap();
    all
}

#[test]
fn what_the_server_tells_is_the_truth_and_both_ways_take_as_long_as_they_should() {
    let levels = vec![Level { from_s: 0.0, forth_us: 300.0, back_us: 100.0 }];
    let truth = Truth::begin(Recipe {
        ahead_us: 5e9,
        rate_ppm: 50.0,
        wander: Some(SineWander { ppm: 0.1, period_s: 5.0 }),
        path: PathModel { levels, ..PathModel::default() },
        ..Recipe::default()
    })
    .unwrap();
    for exchange in exchanges(&truth, 20) {
        let CompletedExchange { sent, server_received, server_sent, received, .. } = exchange;
        let forth = server_received.since(truth.at(sent));
        let back = truth.at(received).since(server_sent);
        assert!(forth >= 300_000 - READING && back >= 100_000 - READING, "{forth} {back}");
        // The processing time is a difference of timestamps and must not be negative, however slow
        // the machine is.
        assert!(server_sent >= server_received, "{exchange:?}");
    }
}

#[test]
fn truth_begins_where_its_recipe_says() {
    let before = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    let truth = Truth::begin(Recipe { ahead_us: 1e6, ..Recipe::default() }).unwrap();
    let now = truth.at(counter::read(truth.kind()));
    let after = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as i64;
    let second = 1_000_000_000;
    assert!(now >= Nanos(before + second) && now.0 <= after + second + READING * 10, "{before} {now:?} {after}");
}
