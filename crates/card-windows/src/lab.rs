//! The card of the test lab: a library for Wine that stands where a driver stands on Windows
//! (`xtask/src/windows/lab_card/lab_card.h` describes its functions).

use crate::card::{CardWaker, LONGEST_FRAME, PacketCard, ReceivedFrame, SlowWork};
use std::any::Any;
use std::collections::HashSet;
use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::mem::transmute;
use std::sync::Arc;
use std::time::Duration;
use tickwire_stack::addr::Mac;
use tickwire_stack::time::Instant;
use tickwire_stack::{Checksum, ReceiveMetadata};
use tickwire_steer::tables::{NicIndex, Protocol};
use windows_sys::Win32::Foundation::{FARPROC, HMODULE};
use windows_sys::Win32::System::LibraryLoader::{GetProcAddress, LoadLibraryW};

const LIBRARY: &str = "tickwire_lab_card.dll";

/// `struct lab_card_description`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Description {
    interface: u32,
    mtu: u32,
    mac: [u8; 6],
    unused: [u8; 2],
}

/// `struct lab_card_packet`.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
struct Packet {
    arrival_ns: u64,
    length: u32,
    segment: u32,
    checksum: i32,
    vlan: i32,
}

/// `struct lab_card_port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
struct Port {
    protocol: u16,
    port: u16,
}

impl Port {
    fn new((protocol, port): (Protocol, u16)) -> Self {
        Self { protocol: protocol.number().into(), port }
    }
}

/// `LAB_CARD_MOST_PORTS`.
const MOST_PORTS: usize = 256;

/// `enum lab_card_checksum`.
const CHECKSUM_GOOD: i32 = 1;
const CHECKSUM_PARTIAL: i32 = 2;

type OpenFn = unsafe extern "system" fn(*const c_char) -> c_int;
type CardFn = unsafe extern "system" fn(c_int) -> c_int;
type DescribeFn = unsafe extern "system" fn(c_int, *mut Description) -> c_int;
type ReceiveFn = unsafe extern "system" fn(c_int, *mut c_void, c_int, *mut Packet) -> c_int;
type SendFn = unsafe extern "system" fn(c_int, *const c_void, c_int) -> c_int;
type WaitFn = unsafe extern "system" fn(c_int, c_int) -> c_int;
type ClaimFn = unsafe extern "system" fn(c_int, *const Port, c_int, c_int) -> c_int;

/// The functions of the library, which stays loaded.
#[derive(Clone, Copy, Debug)]
struct Functions {
    open: OpenFn,
    close: CardFn,
    describe: DescribeFn,
    receive: ReceiveFn,
    send: SendFn,
    wait: WaitFn,
    wake: CardFn,
    claim: ClaimFn,
    give_back: SendFn,
}

impl Functions {
    fn load() -> io::Result<Self> {
        let name: Vec<u16> = LIBRARY.encode_utf16().chain([0]).collect();
        // SAFETY: a C string of 16-bit characters. The library is the lab's own.
        let library = unsafe { LoadLibraryW(name.as_ptr()) };
        if library.is_null() {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the types are those of `lab_card.h`. A function pointer and `FARPROC` have the
        // same representation.
        unsafe {
            Ok(Self {
                open: transmute::<FARPROC, OpenFn>(find(library, c"lab_card_open")?),
                close: transmute::<FARPROC, CardFn>(find(library, c"lab_card_close")?),
                describe: transmute::<FARPROC, DescribeFn>(find(library, c"lab_card_describe")?),
                receive: transmute::<FARPROC, ReceiveFn>(find(library, c"lab_card_receive")?),
                send: transmute::<FARPROC, SendFn>(find(library, c"lab_card_send")?),
                wait: transmute::<FARPROC, WaitFn>(find(library, c"lab_card_wait")?),
                wake: transmute::<FARPROC, CardFn>(find(library, c"lab_card_wake")?),
                claim: transmute::<FARPROC, ClaimFn>(find(library, c"lab_card_claim")?),
                give_back: transmute::<FARPROC, SendFn>(find(library, c"lab_card_give_back")?),
            })
        }
    }
}

/// A function of a library; never `None`.
fn find(library: HMODULE, name: &std::ffi::CStr) -> io::Result<FARPROC> {
    // SAFETY: a library that is loaded, and a C string.
    let function = unsafe { GetProcAddress(library, name.as_ptr().cast()) };
    match function {
        Some(_) => Ok(function),
        None => Err(io::Error::last_os_error()),
    }
}

/// What a function has answered; its errors are negative numbers of Linux.
fn answer(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::other(format!("the lab card: error {} of Linux", -result))) } else { Ok(result) }
}

/// An open card, which is closed when nothing uses it any more.
#[derive(Debug)]
struct OpenCard {
    functions: Functions,
    number: c_int,
}

impl OpenCard {
    /// Keeps packets for these ports from the kernel, or no longer does. It takes milliseconds.
    fn keep(&self, ports: &[Port], is_kept: bool) -> io::Result<()> {
        let change = |ports: &[Port], is_kept: bool| {
            // SAFETY: an open card, and so many ports.
            answer(unsafe { (self.functions.claim)(self.number, ports.as_ptr(), ports.len() as c_int, is_kept.into()) })
        };
        for (done, batch) in ports.chunks(MOST_PORTS).enumerate() {
            change(batch, is_kept).inspect_err(|_| {
                // All of them or none.
                ports.chunks(MOST_PORTS).take(done).for_each(|batch| drop(change(batch, !is_kept)));
            })?;
        }
        Ok(())
    }
}

impl CardWaker for OpenCard {
    fn wake(&self) {
        // SAFETY: an open card.
        unsafe { (self.functions.wake)(self.number) };
    }
}

impl Drop for OpenCard {
    fn drop(&mut self) {
        // SAFETY: an open card, which nothing else refers to.
        unsafe { (self.functions.close)(self.number) };
    }
}

/// A card of the lab.
#[derive(Debug)]
pub struct LabCard {
    card: Arc<OpenCard>,
    description: Description,
    now: fn() -> Instant,
    frame: Box<[u8]>,
    /// The length of the frame that was received last; 0: none, or it was given back.
    length: usize,
    /// Frames that could not be given back since the last flush.
    lost: u64,
    /// The ports that lanes have claimed.
    claimed: HashSet<Port>,
    /// The ports whose packets are kept from the kernel: also those that were claimed until lately.
    /// Their packets are given back, but Wine's datagram sockets do not see them then: they have a
    /// filter for the interface of their address.
    kept: HashSet<Port>,
}

/// These ports are kept from the kernel from now on, or not.
struct KeptPorts {
    ports: Vec<Port>,
    is_kept: bool,
}

impl LabCard {
    /// Opens a card on an interface of the host under Wine, by its name there. `now`: the clock by
    /// which arrivals are stamped.
    ///
    /// # Errors
    /// If this is not the lab, there is no such interface, or the rights are missing.
    pub fn open(interface: &str, now: fn() -> Instant) -> io::Result<Self> {
        let functions = Functions::load()?;
        let name = CString::new(interface)?;
        // SAFETY: a C string.
        let number = answer(unsafe { (functions.open)(name.as_ptr()) })?;
        let card = Arc::new(OpenCard { functions, number });
        let mut description = Description::default();
        // SAFETY: an open card, and room for what the call writes.
        answer(unsafe { (functions.describe)(number, &raw mut description) })?;
        let (frame, claimed, kept) = (vec![0; LONGEST_FRAME].into(), HashSet::new(), HashSet::new());
        Ok(Self { card, description, now, frame, length: 0, lost: 0, claimed, kept })
    }

    /// The Ethernet address.
    #[must_use]
    pub fn mac(&self) -> Mac {
        Mac(self.description.mac)
    }

    /// What is to be done so that these ports are kept from the kernel, or not; `None` if there are
    /// none.
    fn work(&self, ports: Vec<Port>, is_kept: bool) -> Option<SlowWork> {
        if ports.is_empty() {
            return None;
        }
        let card = Arc::clone(&self.card);
        Some(Box::new(move || {
            card.keep(&ports, is_kept)?;
            Ok(Box::new(KeptPorts { ports, is_kept }) as Box<dyn Any + Send>)
        }))
    }

    /// The longest packet, without its Ethernet header.
    #[must_use]
    pub fn mtu(&self) -> u32 {
        self.description.mtu
    }
}

impl PacketCard for LabCard {
    fn nic(&self) -> NicIndex {
        self.description.interface
    }

    fn receive(&mut self) -> io::Result<Option<ReceivedFrame<'_>>> {
        self.length = 0;
        let mut packet = Packet::default();
        let room = c_int::try_from(self.frame.len()).unwrap_or(c_int::MAX);
        // SAFETY: an open card; room for so many bytes, and for what is known of the frame.
        let copied = answer(unsafe {
            (self.card.functions.receive)(self.card.number, self.frame.as_mut_ptr().cast(), room, &raw mut packet)
        })?;
        if copied == 0 {
            return Ok(None);
        }
        self.length = (copied as usize).min(self.frame.len());
        let bytes = &self.frame[..self.length];
        let checksum = match packet.checksum {
            CHECKSUM_GOOD => Checksum::Good,
            CHECKSUM_PARTIAL => Checksum::MaybePartial,
            _ => Checksum::Unknown,
        };
        let packet_metadata = ReceiveMetadata {
            len: copied as u32,
            segment: u16::try_from(packet.segment).unwrap_or(0),
            checksum,
            at: (self.now)(),
            interface: self.description.interface,
        };
        let tag = u16::try_from(packet.vlan).ok();
        Ok(Some(ReceivedFrame { bytes, packet: packet_metadata, tag }))
    }

    fn pass(&mut self) -> io::Result<()> {
        let length = std::mem::take(&mut self.length);
        if length == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let bytes = self.frame.as_ptr().cast();
        // SAFETY: an open card, and so many bytes. No other thread receives.
        let given = answer(unsafe { (self.card.functions.give_back)(self.card.number, bytes, length as c_int) });
        self.lost += u64::from(given.is_err());
        Ok(())
    }

    fn flush(&mut self) -> u64 {
        std::mem::take(&mut self.lost)
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let length = c_int::try_from(frame.len()).map_err(io::Error::other)?;
        // SAFETY: an open card, and so many bytes.
        answer(unsafe { (self.card.functions.send)(self.card.number, frame.as_ptr().cast(), length) }).map(drop)
    }

    fn set_claimed(&mut self, protocol: Protocol, port: u16, is_claimed: bool) -> io::Result<()> {
        let port = Port::new((protocol, port));
        if !is_claimed {
            self.claimed.remove(&port);
            return Ok(());
        }
        if !self.kept.contains(&port) {
            self.card.keep(&[port], true)?;
            self.kept.insert(port);
        }
        self.claimed.insert(port);
        Ok(())
    }

    fn prepare(&mut self, ports: &[(Protocol, u16)]) -> Option<SlowWork> {
        let ports = ports.iter().map(|&port| Port::new(port));
        self.work(ports.filter(|port| !self.kept.contains(port)).collect(), true)
    }

    fn prepare_less(&mut self) -> Option<SlowWork> {
        let left = self.kept.difference(&self.claimed);
        self.work(left.take(MOST_PORTS).copied().collect(), false)
    }

    fn take_prepared(&mut self, done: Box<dyn Any + Send>) {
        let Ok(done) = done.downcast::<KeptPorts>() else { return };
        for port in done.ports {
            if done.is_kept {
                self.kept.insert(port);
            } else {
                self.kept.remove(&port);
            }
        }
    }

    fn wait(&mut self, time: Duration) {
        let time_us = c_int::try_from(time.as_micros()).unwrap_or(c_int::MAX);
        // SAFETY: an open card. (A card that is gone says so when it is received from.)
        unsafe { (self.card.functions.wait)(self.card.number, time_us) };
    }

    fn waker(&self) -> Arc<dyn CardWaker> {
        Arc::clone(&self.card) as Arc<dyn CardWaker>
    }
}
