//! `tickwire capture`: the file has the packets of a lane, all of them, in both directions.

use super::plain;
use super::program::{Hosts, PORT, TIMEOUT};
use crate::windows::lab_programs;
use crate::windows::wine::windows_path;
use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
use pcap_file::pcapng::{Block, PcapNgReader};
use std::fs::File;
use std::net::Ipv4Addr;
use std::path::Path;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use tickwire_lab::tools;

/// Messages of each kind, and bytes that are kept of each packet. All of it fits into the capture's
/// buffer, so that nothing is lost even if its reader does not run meanwhile.
const COUNT: u32 = 200;
const KEPT: &str = "64";

/// `epb_flags`.
const INBOUND: u32 = 1;
const OUTBOUND: u32 = 2;

/// Captures while a client runs on the lane, and reads the file.
pub(super) fn recorded() -> Result<()> {
    let hosts = Hosts::new()?;
    hosts.fails(&["capture", "-w", "x.pcapng"], 1, "no service answers at")?;
    let mut service = hosts.service()?;
    hosts.fails(&["capture", "-w", "x.pcapng", "--lane", "99"], 1, "there is no lane 99")?;
    let peer = hosts.pair.b_v4();
    let (port, count) = (PORT.to_string(), COUNT.to_string());
    let echo = hosts.pair.b.spawn(&["python3", "-c", plain::ECHO, &peer, &port])?;
    tools::until("the peer listens", TIMEOUT, || echo.stdout().contains("ready"))?;
    let file = hosts.pair.a.directory().join("lane.pcapng");
    let begun = now()?;
    let mut capture = hosts.spawn(&["capture", "-w", &windows_path(&file), "--snaplen", KEPT])?;
    capture.wait_for("waiting for the first program", TIMEOUT)?;
    let program = windows_path(&lab_programs::program("plain")?);
    hosts.spawn(&["run", "--require", "--", &program, "client", &peer, &port, &count])?.success(TIMEOUT)?;
    service.wait_for("a lane has ended", TIMEOUT)?;
    capture.signal(Signal::SIGINT)?;
    let ended = capture.wait(TIMEOUT)?;
    ensure!(ended.status.success(), "the capture: {ended:?}");
    let recorded = number_before(&ended.stderr, " packets recorded")?;
    let lost = number_before(&ended.stderr, " lost")?;
    ensure!(lost == 0, "{lost} packets lost");
    let [inbound, outbound] = read(&file, &peer, begun..now()?)?;
    ensure!(inbound + outbound == recorded, "the file has {inbound} and {outbound} packets, not {recorded}");
    // What the service has counted of the lane. Received packets that the card has merged are one
    // in the file.
    let log = service.stderr();
    let lane = log.lines().find(|line| line.contains("a lane has ended")).context("no lane")?;
    let (came, sent) = (number_after(lane, "in_packets=")?, number_after(lane, "out_packets=")?);
    ensure!(outbound == sent, "{outbound} packets are outbound, not {sent}");
    ensure!((u64::from(2 * COUNT)..=came).contains(&inbound), "{inbound} packets are inbound, of {came}");

    let mut capture = hosts.spawn(&["capture", "-w", &windows_path(&file)])?;
    capture.wait_for("waiting for the first program", TIMEOUT)?;
    service.kill();
    let ended = capture.wait(TIMEOUT)?;
    let said = "the service has ended the capture";
    ensure!(ended.status.success() && ended.stderr.contains(said), "the service is gone: {ended:?}");
    println!("{recorded} packets of a lane recorded, {inbound} inbound and {outbound} outbound, none lost");
    Ok(())
}

/// How many packets a file has in both directions. All are to and from this peer and of this time,
/// and in order in each direction.
fn read(file: &Path, peer: &str, time: std::ops::Range<Duration>) -> Result<[u64; 2]> {
    let peer = Ipv4Addr::from_str(peer).context("the peer's address")?.octets();
    let mut reader = PcapNgReader::new(File::open(file).context("no file")?).context("the file")?;
    let (mut counts, mut last) = ([0; 2], [Duration::ZERO; 2]);
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.context("the file")? else { continue };
        let direction = match packet.options[..] {
            [EnhancedPacketOption::Flags(INBOUND)] => 0,
            [EnhancedPacketOption::Flags(OUTBOUND)] => 1,
            _ => anyhow::bail!("a packet without direction: {packet:?}"),
        };
        ensure!(time.contains(&packet.timestamp), "a packet of another time: {packet:?}");
        ensure!(packet.timestamp >= last[direction], "a packet before an earlier one: {packet:?}");
        last[direction] = packet.timestamp;
        counts[direction] += 1;
        let kept = packet.original_len.min(KEPT.parse()?) as usize;
        ensure!(packet.data.len() == kept, "another length is kept: {packet:?}");
        // In IPv4's header, behind that of Ethernet.
        let addresses = packet.data.get(26..34).context("a packet without addresses")?;
        let other = if direction == 0 { &addresses[..4] } else { &addresses[4..] };
        ensure!(other == peer, "a packet of another peer: {packet:?}");
    }
    ensure!(reader.interfaces().len() == 2, "the file has {} interfaces", reader.interfaces().len());
    Ok(counts)
}

fn now() -> Result<Duration> {
    SystemTime::now().duration_since(UNIX_EPOCH).context("the time")
}

/// The number before these words.
fn number_before(text: &str, words: &str) -> Result<u64> {
    let (before, _) = text.split_once(words).with_context(|| format!("no{words}: {text}"))?;
    let word = before.split_whitespace().next_back().unwrap_or_default();
    word.parse().with_context(|| format!("no number before{words}: {text}"))
}

fn number_after(text: &str, words: &str) -> Result<u64> {
    let (_, after) = text.split_once(words).with_context(|| format!("no {words}: {text}"))?;
    let word = after.split_whitespace().next().unwrap_or_default();
    word.parse().with_context(|| format!("no number after {words}: {text}"))
}
