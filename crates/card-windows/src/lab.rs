//! The card of the test lab: a library for Wine that stands where a driver stands on Windows
//! (`xtask/src/windows/lab_card/lab_card.h` describes its functions).

use crate::card::{CardWaker, LONGEST_FRAME, PacketCard, ReceivedFrame};
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

/// `enum lab_card_checksum`.
const CHECKSUM_GOOD: i32 = 1;
const CHECKSUM_PARTIAL: i32 = 2;

type OpenFn = unsafe extern "system" fn(*const c_char) -> c_int;
type CardFn = unsafe extern "system" fn(c_int) -> c_int;
type DescribeFn = unsafe extern "system" fn(c_int, *mut Description) -> c_int;
type ReceiveFn = unsafe extern "system" fn(c_int, *mut c_void, c_int, *mut Packet) -> c_int;
type SendFn = unsafe extern "system" fn(c_int, *const c_void, c_int) -> c_int;
type WaitFn = unsafe extern "system" fn(c_int, c_int) -> c_int;
type ClaimFn = unsafe extern "system" fn(c_int, c_int, c_int, c_int, c_int) -> c_int;

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
        Ok(Self { card, description, now, frame: vec![0; LONGEST_FRAME].into(), length: 0, lost: 0 })
    }

    /// The Ethernet address.
    #[must_use]
    pub fn mac(&self) -> Mac {
        Mac(self.description.mac)
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
        let change = |family, is_claimed: bool| {
            let (protocol, port) = (protocol.number().into(), port.into());
            // SAFETY: an open card.
            answer(unsafe { (self.card.functions.claim)(self.card.number, family, protocol, port, is_claimed.into()) })
        };
        change(4, is_claimed)?;
        change(6, is_claimed).map(drop).inspect_err(|_| drop(change(4, !is_claimed)))
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
