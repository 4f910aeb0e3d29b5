//! A driver that hands over anything: what must hold of records and packets of WinDivert. Shared
//! with the fuzz target `windivert`.
//!
//! Batches of any bytes and any records come from several handles. Nothing panics, each frame has
//! an Ethernet header and one whole IP packet, what is given back is the packet that came with its
//! record unchanged, and what is no packet is counted.

use std::cell::Cell;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tickwire_card_windows::card::{CardClock, CardWaker, NicDescription, PacketCard};
use tickwire_card_windows::windivert::batch::{OutgoingBatch, ReceivedBatch};
use tickwire_card_windows::windivert::diverted_card::DivertedCard;
use tickwire_card_windows::windivert::driver::{DivertDriver, DivertHandle, Opener, Reception};
use tickwire_card_windows::windivert::error::WinDivertError;
use tickwire_card_windows::windivert::ip_packet::{ETHERNET, extent};
use tickwire_card_windows::windivert::record::{AddressRecord, RECORD_BYTES};
use tickwire_sim::Input;
use tickwire_stack::addr::Mac;
use tickwire_stack::time::Instant;
use tickwire_steer::tables::Protocol;

const NIC: u32 = 3;

/// At most so many actions of an input count.
const MOST_ACTIONS: usize = 128;

/// What a handle hands over next.
enum Next {
    /// Bytes and records, and how many the driver says there are.
    Batch(Vec<u8>, Vec<AddressRecord>, usize, usize),
    Truncated,
    Ended,
}

/// What driver and test share.
#[derive(Default)]
struct Shared {
    next: Option<Next>,
    /// Packets that were given back or sent, with their records.
    sent: Vec<(AddressRecord, Vec<u8>)>,
    fails_to_send: bool,
    refuses_to_open: bool,
}

#[derive(Clone, Default)]
struct Driver(Arc<Mutex<Shared>>);

impl Driver {
    fn with<T>(&self, work: impl FnOnce(&mut Shared) -> T) -> T {
        work(&mut self.0.lock().expect("no thread panics with it"))
    }
}

struct Waker;

impl CardWaker for Waker {
    fn wake(&self) {}
}

impl DivertHandle for Driver {
    fn receive(&mut self, batch: &mut ReceivedBatch) -> io::Result<Reception> {
        match self.with(|shared| shared.next.take()) {
            None => Ok(Reception::Nothing),
            Some(Next::Truncated) => Ok(Reception::Truncated),
            Some(Next::Ended) => Ok(Reception::Ended),
            Some(Next::Batch(bytes, records, length, count)) => {
                let (room, places) = batch.room();
                let end = bytes.len().min(room.len());
                room[..end].copy_from_slice(&bytes[..end]);
                places.iter_mut().zip(records).for_each(|(place, record)| *place = record);
                batch.filled(length, count);
                Ok(Reception::Packets)
            }
        }
    }

    fn send(&mut self, batch: &OutgoingBatch) -> io::Result<()> {
        let mut bytes = batch.bytes();
        assert!(batch.records().len() <= 255);
        for record in batch.records() {
            let (_, length) = extent(bytes).expect("what is sent is whole packets");
            let (packet, rest) = bytes.split_at(length);
            self.with(|shared| shared.sent.push((*record, packet.to_vec())));
            bytes = rest;
        }
        assert!(bytes.is_empty(), "each packet has a record");
        if self.with(|shared| shared.fails_to_send) { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    }

    fn stop(&mut self) {}
}

impl DivertDriver for Driver {
    type Handle = Self;

    fn opener(&self) -> Opener<Self> {
        let driver = self.clone();
        Box::new(move |_| {
            let refuses = driver.with(|shared| shared.refuses_to_open);
            if refuses { Err(WinDivertError::Driver { code: 5 }) } else { Ok(driver) }
        })
    }

    fn wait(&mut self, _: &[Self], _: Duration) {}

    fn waker(&self) -> Arc<dyn CardWaker> {
        Arc::new(Waker)
    }
}

thread_local! {
    static NOW: Cell<u64> = const { Cell::new(0) };
}

fn now() -> Instant {
    Instant::from_nanos(NOW.get())
}

fn at_count(count: i64) -> Instant {
    Instant::from_nanos(count.max(0).cast_unsigned().saturating_mul(100))
}

/// A record: one of an arrival, of which an input changes some bytes.
fn record(input: &mut Input<'_>) -> AddressRecord {
    let mut bytes = [0; RECORD_BYTES];
    bytes[16..20].copy_from_slice(&NIC.to_le_bytes());
    bytes[10] = input.of(&[0, 0x10, 0xe0, 0xf0]);
    for _ in 0..input.u8() % 4 {
        bytes[usize::from(input.u8()) % RECORD_BYTES] = input.u8();
    }
    AddressRecord::from_bytes(&bytes)
}

/// A packet with the length that its header says, but for the bytes that an input changes.
fn packet(input: &mut Input<'_>) -> Vec<u8> {
    let length = usize::from(input.u16()) % 3000;
    let mut packet = if input.u8() & 1 == 0 {
        let total = (20 + length) as u16;
        let [high, low] = total.to_be_bytes();
        vec![0x45, 0, high, low, 0, 0, 0, 0, 64, input.of(&[6, 17, 1]), 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]
    } else {
        let [high, low] = (length as u16).to_be_bytes();
        let mut header = vec![0x60, 0, 0, 0, high, low, input.of(&[6, 17, 58]), 64];
        header.resize(40, 0xfd);
        header
    };
    let end = packet.len() + length;
    packet.extend(input.take(length.min(64)));
    packet.resize(end, 0);
    for _ in 0..input.u8() % 3 {
        let at = usize::from(input.u8()) % packet.len();
        packet[at] = input.u8();
    }
    packet
}

fn batch(input: &mut Input<'_>) -> Next {
    let (mut bytes, mut records) = (Vec::new(), Vec::new());
    for _ in 0..input.u8() % 6 {
        if input.u8().is_multiple_of(4) {
            let length = usize::from(input.u8());
            bytes.extend(input.take(length));
        } else {
            bytes.extend(packet(input));
        }
        records.push(record(input));
    }
    // Mostly what is there, sometimes what is not.
    let length = if input.u8() & 3 == 0 { input.u16().into() } else { bytes.len() };
    let count = if input.u8() & 3 == 0 { input.u8().into() } else { records.len() };
    Next::Batch(bytes, records, length, count)
}

/// Receives all that there is; each frame is taken, or given back.
fn receive(card: &mut impl PacketCard, driver: &Driver, input: &mut Input<'_>) -> Result<u64, io::Error> {
    let mut count = 0;
    let before = driver.with(|shared| shared.sent.len());
    let mut given = Vec::new();
    while let Some(frame) = card.receive()? {
        count += 1;
        let packet = &frame.bytes[ETHERNET..];
        assert_eq!(extent(packet).map(|(_, length)| length), Some(packet.len()), "a frame is a whole packet");
        assert_eq!((frame.packet.len as usize, frame.packet.interface), (frame.bytes.len(), NIC));
        assert!(frame.packet.at <= now(), "no packet comes from the future");
        if input.u8() & 1 == 0 {
            given.push(packet.to_vec());
            card.pass()?;
            assert!(card.pass().is_err(), "a frame is given back once");
        }
    }
    let _ = card.flush();
    let sent = driver.with(|shared| shared.sent.split_off(before));
    let mut sent = sent.iter().map(|(_, packet)| packet);
    // (Strays are given back, too.)
    assert!(given.iter().all(|packet| sent.any(|one| one == packet)), "what is given back is what came");
    Ok(count)
}

/// Runs the actions of an input. Returns how many frames came of it.
pub(crate) fn check(data: &[u8]) -> u64 {
    let mut input = Input::new(data);
    NOW.set(1_000_000_000);
    let driver = Driver::default();
    let nic = NicDescription { index: NIC, mac: Mac([2, 0, 0, 0, 0, 1]), mtu: 1500 };
    let clock = CardClock { now, at_count };
    let Ok(mut card) = DivertedCard::open(driver.clone(), nic, clock) else { unreachable!("it opens at first") };
    let mut frames = 0;
    for _ in 0..MOST_ACTIONS {
        if input.is_empty() {
            break;
        }
        match input.u8() % 6 {
            0 | 1 => {
                let next = batch(&mut input);
                driver.with(|shared| shared.next = Some(next));
                match receive(&mut card, &driver, &mut input) {
                    Ok(count) => frames += count,
                    Err(_) => return frames,
                }
            }
            2 => driver.with(|shared| shared.next = Some(Next::Truncated)),
            3 => {
                let length = usize::from(input.u16()) % 2000;
                let _ = card.send(input.take(length));
                let _ = card.flush();
            }
            4 => {
                let how = input.u8();
                driver.with(|shared| (shared.fails_to_send, shared.refuses_to_open) = (how & 1 != 0, how & 2 != 0));
                let protocol = if how & 4 == 0 { Protocol::Tcp } else { Protocol::Udp };
                let _ = card.set_claimed(protocol, input.u16(), how & 8 == 0);
            }
            _ => {
                NOW.set(NOW.get() + u64::from(input.u8()) * 1000);
                if input.u8() == 0 {
                    driver.with(|shared| shared.next = Some(Next::Ended));
                }
            }
        }
    }
    frames
}
