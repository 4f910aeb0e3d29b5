//! A socket of XDP's driver.

use super::abi::{
    ACTIVATE, BIND, BindInput, GET_OPTION, HookId, MemoryRegistration, NOTIFY, NOTIFY_LATER, NotifyInput,
    OPTION_MEMORY, OPTION_RINGS, OPTION_STATISTICS, OPTION_TRANSMIT_HOOK, ObjectType, POKE_RECEIVE, POKE_TRANSMIT,
    RingInfoSet, SET_OPTION, SetOptionInput, WAIT_RECEIVE, error_option, size_option,
};
use super::device::{DriverObject, last_error};
use super::driver::{DriverCode, RingKind, SocketRole, SocketStatistics, XdpSocket};
use super::frame_memory::FrameMemory;
use super::xsk_ring::XskRing;
use std::mem::zeroed;
use std::ptr::{from_ref, null_mut};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Acquire};
use std::time::{Duration, Instant};
use windows_sys::Win32::Foundation::{ERROR_IO_PENDING, HANDLE, STATUS_PENDING};
use windows_sys::Win32::Storage::FileSystem::SetFileCompletionNotificationModes;
use windows_sys::Win32::System::IO::{CancelIoEx, DeviceIoControl, OVERLAPPED};

/// `FILE_SKIP_SET_EVENT_ON_HANDLE`: nothing waits for the handle itself.
const SKIP_EVENT: u8 = 2;

/// `ERROR_BAD_LENGTH`.
const BAD_LENGTH: u32 = 24;

/// For so long the end of a call that was cancelled is waited for.
const LONGEST_END: Duration = Duration::from_secs(2);

/// How [`XskSocket::begin_wait`] has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitStart {
    /// There may be something already.
    Received,
    /// The event will be set.
    Waiting,
    /// The driver refuses to set it.
    Refused,
}

/// A socket.
pub struct XskSocket {
    // It is closed before its memory is freed.
    object: DriverObject,
    memory: Option<Arc<FrameMemory>>,
    /// The call that ends when something is received. Owned, and not moved: the system writes it
    /// while the call is under way.
    wait: *mut OVERLAPPED,
    is_waiting: bool,
}

// SAFETY: what it points to is its own, and the system writes there whatever thread uses it.
unsafe impl Send for XskSocket {}

impl XskSocket {
    pub(super) fn open() -> Result<Self, DriverCode> {
        let object = DriverObject::open(ObjectType::Socket, &[])?;
        // SAFETY: an open handle. (If it fails, calls cost a little more.)
        unsafe { SetFileCompletionNotificationModes(object.handle(), SKIP_EVENT) };
        // SAFETY: zeroes are valid for numbers and null pointers.
        let wait = Box::into_raw(Box::new(unsafe { zeroed::<OVERLAPPED>() }));
        Ok(Self { object, memory: None, wait, is_waiting: false })
    }

    /// Its handle, for programs.
    pub(super) fn handle(&self) -> HANDLE {
        self.object.handle()
    }

    fn set<T>(&mut self, option: u32, value: &T) -> Result<(), DriverCode> {
        let input = SetOptionInput { option, length: size_of::<T>() as u32, value: from_ref(value) };
        // SAFETY: the value lives for the call, and nothing is written.
        unsafe { self.object.call::<_, ()>(SET_OPTION, &input, None) }.map(drop)
    }

    /// Reads an option into a value, of which all bits are valid.
    fn get<T>(&self, option: u32, mut value: T) -> Result<T, DriverCode> {
        // SAFETY: the types that this is called with are numbers and raw pointers.
        let bytes = unsafe { self.object.call(GET_OPTION, &option, Some(&mut value)) }?;
        if bytes as usize == size_of::<T>() { Ok(value) } else { Err(DriverCode(BAD_LENGTH)) }
    }

    fn ring<const WORDS: usize>(&self, ring: RingKind, size: u32) -> Result<Option<XskRing<WORDS>>, DriverCode> {
        let info = self.get(OPTION_RINGS, RingInfoSet::NONE)?.ring(ring);
        // SAFETY: the driver has mapped a ring of this layout there, which stays until the socket
        // is closed. Those that have the ring have the socket, too, and do not use it after that.
        Ok(unsafe { XskRing::new(info.base, info.layout(), size, None) })
    }

    /// Has the event set when something is received. Until then this may be called again.
    pub(super) fn begin_wait(&mut self, event: HANDLE) -> WaitStart {
        if !self.has_ended() {
            return WaitStart::Waiting;
        }
        // SAFETY: no call is under way, so nothing else uses what it points to.
        unsafe {
            *self.wait = zeroed();
            (*self.wait).hEvent = event;
        }
        let input = NotifyInput { flags: WAIT_RECEIVE, timeout_ms: u32::MAX };
        // SAFETY: an open handle; the driver reads the input before the call returns, and the
        // structure that it writes stays until the call has ended.
        let result = unsafe {
            DeviceIoControl(
                self.object.handle(),
                NOTIFY_LATER,
                (&raw const input).cast(),
                size_of::<NotifyInput>() as u32,
                null_mut(),
                0,
                null_mut(),
                self.wait,
            )
        };
        if result != 0 {
            return WaitStart::Received;
        }
        self.is_waiting = last_error() == DriverCode(ERROR_IO_PENDING);
        if self.is_waiting { WaitStart::Waiting } else { WaitStart::Refused }
    }

    /// Whether the call that was begun has ended. Then it can be begun again.
    pub(super) fn has_ended(&mut self) -> bool {
        // SAFETY: the word is aligned, lives as long as `self`, and is written by the system at
        // most once more.
        let status = unsafe { AtomicUsize::from_ptr(&raw mut (*self.wait).Internal) };
        self.is_waiting &= status.load(Acquire) == STATUS_PENDING as usize;
        !self.is_waiting
    }
}

impl XdpSocket for XskSocket {
    fn register(&mut self, memory: &Arc<FrameMemory>) -> Result<(), DriverCode> {
        let (size, chunk, address) = (memory.size(), memory.chunk(), memory.address());
        // Kept first: the driver writes there from the call on.
        self.memory = Some(Arc::clone(memory));
        self.set(OPTION_MEMORY, &MemoryRegistration { size, chunk, headroom: 0, address })
    }

    fn set_ring_size(&mut self, ring: RingKind, size: u32) -> Result<(), DriverCode> {
        self.set(size_option(ring), &size)
    }

    fn bind(&mut self, interface: u32, queue: u32, role: SocketRole) -> Result<(), DriverCode> {
        if role == SocketRole::GiveBack {
            self.set(OPTION_TRANSMIT_HOOK, &HookId::INJECT_RECEIVED)?;
        }
        // SAFETY: the input has no pointers, and nothing is written.
        unsafe { self.object.call::<_, ()>(BIND, &BindInput::new(interface, queue, role), None) }.map(drop)
    }

    fn activate(&mut self) -> Result<(), DriverCode> {
        let flags = 0_u32;
        // SAFETY: the input has no pointers, and nothing is written.
        unsafe { self.object.call::<_, ()>(ACTIVATE, &flags, None) }.map(drop)
    }

    fn address_ring(&mut self, ring: RingKind, size: u32) -> Result<Option<XskRing<1>>, DriverCode> {
        self.ring(ring, size)
    }

    fn frame_ring(&mut self, ring: RingKind, size: u32) -> Result<Option<XskRing<2>>, DriverCode> {
        self.ring(ring, size)
    }

    fn poke(&mut self, ring: RingKind) -> Result<(), DriverCode> {
        let flags = match ring {
            RingKind::Fill | RingKind::Receive => POKE_RECEIVE,
            RingKind::Transmit | RingKind::Completion => POKE_TRANSMIT,
        };
        // SAFETY: the input has no pointers, and nothing is written.
        unsafe { self.object.call::<_, ()>(NOTIFY, &NotifyInput { flags, timeout_ms: 0 }, None) }.map(drop)
    }

    fn ring_error(&self, ring: RingKind) -> Result<u32, DriverCode> {
        self.get(error_option(ring), 0)
    }

    fn statistics(&self) -> Result<SocketStatistics, DriverCode> {
        self.get(OPTION_STATISTICS, SocketStatistics::default())
    }
}

impl Drop for XskSocket {
    fn drop(&mut self) {
        let begin = Instant::now();
        if !self.has_ended() {
            // SAFETY: an open handle, and a call that is under way, or has ended.
            unsafe { CancelIoEx(self.object.handle(), self.wait) };
        }
        while !self.has_ended() && begin.elapsed() < LONGEST_END {
            std::thread::yield_now();
        }
        if self.has_ended() {
            // SAFETY: it was made by `Box::into_raw`, and the system does not write it any more.
            drop(unsafe { Box::from_raw(self.wait) });
        }
        // Else the system may still write it: it is given up.
    }
}
