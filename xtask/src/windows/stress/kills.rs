//! Kills of program and service under load: peers are told, nothing is left, and other programs go
//! on.

use super::bystander::Bystander;
use super::held::Held;
use super::{PORT, Step, TIMEOUT, peer, start_server};
use crate::windows::lab::Hosts;
use anyhow::{Context, Result, ensure};
use serde_json::json;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tickwire_lab::{Process, tools};

/// Within this the peers of what was killed are told.
const TOLD: Duration = Duration::from_secs(2);

/// Of so many kills one is of the service.
const EACH: u32 = 5;

/// Connections that carry data when something is killed.
const STREAMS: usize = 4;

/// Bytes of a message on them.
const MESSAGE: usize = 1000;

pub(super) fn run(hosts: &Hosts, kills: u32) -> Result<Vec<Step>> {
    let of_service = kills / EACH;
    let mut steps = vec![programs(hosts, kills - of_service)?];
    if of_service > 0 {
        steps.push(services(hosts, of_service)?);
    }
    Ok(steps)
}

/// Kills programs.
fn programs(hosts: &Hosts, kills: u32) -> Result<Step> {
    let service = hosts.service()?;
    let bystander = Bystander::start(hosts)?;
    let ended = || service.stderr().matches("a lane has ended").count();
    let mut told = Told::default();
    let mut before = None;
    let begin = Instant::now();
    for number in 1..=kills {
        let named = || format!("kill {number} of a program");
        let (mut server, busy) = busy(hosts).with_context(named)?;
        let (lanes, exchanged) = (ended(), bystander.exchanges().with_context(named)?);
        let victim = hosts.wine.process(&["stress.exe", "server", &hosts.pair.a_v4(), &PORT.to_string()])?;
        let killed = Instant::now();
        victim.kill()?;
        told.add(busy, killed).with_context(named)?;
        server.wait(TIMEOUT).with_context(named)?;
        tools::until("the lane ends", TIMEOUT, || ended() > lanes).with_context(named)?;
        let goes_on = || bystander.exchanges().map_or(true, |count| count > exchanged + 10);
        tools::until("another program goes on", TOLD, goes_on).with_context(named)?;
        bystander.exchanges().with_context(named)?;
        if before.is_none() {
            // What is there once.
            before = Some(Held::now(hosts, &service)?);
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let held = before.context("no kills")?.settles(hosts, &service)?;
    let figures = json!({
        "peers_told": told.count,
        "slowest_ms": told.slowest.as_millis() as u64,
        "others_exchanges": bystander.exchanges()?,
        "others_slowest_ms": bystander.slowest().as_millis() as u64,
        "left": held.json(),
    });
    Ok(Step { name: format!("{kills} kills of a program"), seconds, figures })
}

/// Kills services.
fn services(hosts: &Hosts, kills: u32) -> Result<Step> {
    let mut told = Told::default();
    let mut before = None;
    let begin = Instant::now();
    for number in 1..=kills {
        let named = || format!("kill {number} of the service");
        let mut service = hosts.service().with_context(named)?;
        let mut bystander = Bystander::start(hosts).with_context(named)?;
        let (mut server, busy) = busy(hosts).with_context(named)?;
        let killed = Instant::now();
        service.kill();
        told.add(busy, killed).with_context(named)?;
        // Their sockets fail now.
        server.wait(TIMEOUT).with_context(named)?;
        bystander.ends(TIMEOUT).with_context(named)?;
        if before.is_none() {
            before = Some(of_fresh_service(hosts, None)?);
        }
    }
    let seconds = begin.elapsed().as_secs_f64();
    let held = of_fresh_service(hosts, before.as_ref())?;
    let figures = json!({
        "peers_told": told.count,
        "slowest_ms": told.slowest.as_millis() as u64,
        "left": held.json(),
    });
    Ok(Step { name: format!("{kills} kills of the service"), seconds, figures })
}

/// What is held when a new service has just started: no more than before, if that is given.
fn of_fresh_service(hosts: &Hosts, before: Option<&Held>) -> Result<Held> {
    let mut service = hosts.service()?;
    let held = match before {
        Some(before) => before.settles(hosts, &service),
        None => Held::now(hosts, &service),
    };
    service.kill();
    held
}

/// When peers were told.
#[derive(Debug, Default)]
struct Told {
    count: usize,
    slowest: Duration,
}

impl Told {
    /// Waits until all of these peers are told.
    fn add(&mut self, peers: Vec<JoinHandle<Result<Instant>>>, killed: Instant) -> Result<()> {
        for peer in peers {
            let at = peer.join().unwrap_or_else(|_| anyhow::bail!("a thread panicked")).context("a peer")?;
            let time = at.saturating_duration_since(killed);
            ensure!(time < TOLD, "a peer is told after {} ms", time.as_millis());
            self.count += 1;
            self.slowest = self.slowest.max(time);
        }
        Ok(())
    }
}

/// A server on the lane, and peers with connections that carry data.
fn busy(hosts: &Hosts) -> Result<(Process, Vec<JoinHandle<Result<Instant>>>)> {
    let server = start_server(hosts, PORT)?;
    let address = hosts.pair.a_v4();
    let connect = || peer::connect(&address, PORT, b'e', u64::MAX);
    let streams = hosts.pair.b.within(|| (0..STREAMS).map(|_| connect()).collect::<Result<Vec<_>>>())??;
    let (busy, is_busy) = channel();
    let begin = |stream: TcpStream| {
        let busy = busy.clone();
        thread::spawn(move || until_reset(stream, &busy))
    };
    let peers = streams.into_iter().map(begin).collect();
    (0..STREAMS).try_for_each(|_| is_busy.recv_timeout(TIMEOUT)).context("a stream does not flow")?;
    Ok((server, peers))
}

/// Sends, and reads, until the connection is reset. Says so when it flows. Returns when that was.
fn until_reset(mut stream: TcpStream, busy: &Sender<()>) -> Result<Instant> {
    let mut round = 0_u32;
    loop {
        if let Err(error) = peer::exchange(&mut stream, &[round as u8; MESSAGE]) {
            let kind = error.downcast_ref::<std::io::Error>().map(std::io::Error::kind);
            let is_told = matches!(kind, Some(ErrorKind::ConnectionReset | ErrorKind::BrokenPipe));
            return if is_told { Ok(Instant::now()) } else { Err(error) };
        }
        if round == 20 {
            let _ = busy.send(());
        }
        round = round.wrapping_add(1);
    }
}
