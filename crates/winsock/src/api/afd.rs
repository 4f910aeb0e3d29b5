//! Requests that programs make of the kernel's driver of sockets (AFD) by themselves, past Winsock:
//! libuv receives datagrams in this way, and others wait for sockets by polls.

use crate::hook::boundary::{WinsockError, answer_or};
use crate::hook::{ntdll, reentrancy};
use crate::lane::lane;
use crate::program_memory::{check_readable, check_writable};
use crate::socket::poll::{self, NewPoll, POLL, PollInput};
use crate::socket::request::receive::{Receive, SenderPlace};
use crate::socket::request::{Begun, Parts, Request, Work, status};
use crate::socket::table;
use crate::socket::{ReceiveFlags, State};
use std::ffi::c_void;
use std::ptr::null_mut;
use windows_sys::Win32::Foundation::{HANDLE, NTSTATUS, STATUS_INVALID_PARAMETER, STATUS_PENDING};
use windows_sys::Win32::Networking::WinSock::{SOCKADDR, WSABUF};
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;

/// `IOCTL_AFD_RECEIVE`.
const RECEIVE: u32 = 0x12017;
/// `IOCTL_AFD_RECEIVE_DATAGRAM`.
const RECEIVE_DATAGRAM: u32 = 0x1201b;

/// `AFD_OVERLAPPED`, a flag of the driver.
const OVERLAPPED: u32 = 2;
/// `TDI_RECEIVE_PEEK`, a flag of the transport.
const PEEK: u32 = 0x80;

/// `AFD_RECV_INFO`, and what follows in `AFD_RECV_DATAGRAM_INFO`.
#[derive(Clone, Copy)]
#[repr(C)]
struct ReceiveInfo {
    buffers: *const WSABUF,
    count: u32,
    driver_flags: u32,
    transport_flags: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct DatagramInfo {
    receive: ReceiveInfo,
    name: *mut SOCKADDR,
    name_len: *mut i32,
}

/// A request, as the system call has it.
#[derive(Clone, Copy)]
struct Call {
    file: HANDLE,
    event: HANDLE,
    context: *mut c_void,
    status: *mut IO_STATUS_BLOCK,
    code: u32,
    input: *const c_void,
    input_len: u32,
    output: *mut c_void,
    output_len: u32,
}

impl Call {
    /// # Safety
    /// As for [`Request::begin_native`].
    unsafe fn request(&self) -> Request {
        // Without a context nothing is posted.
        let event = self.event.addr() | usize::from(self.context.is_null());
        // SAFETY: as the caller promises.
        unsafe { Request::begin_native(self.status, event, self.context.addr()) }
    }
}

pub(super) unsafe extern "system" fn nt_device_io_control_file(
    file: HANDLE,
    event: HANDLE,
    routine: *const c_void,
    context: *mut c_void,
    status: *mut IO_STATUS_BLOCK,
    code: u32,
    input: *const c_void,
    input_len: u32,
    output: *mut c_void,
    output_len: u32,
) -> NTSTATUS {
    // SAFETY: the caller's arguments, unchanged.
    let original = || unsafe {
        ntdll::NT_DEVICE_IO_CONTROL_FILE.get()(
            file, event, routine, context, status, code, input, input_len, output, output_len,
        )
    };
    // What Winsock itself asks of the driver is for the kernel's half of a socket.
    if !matches!(code, RECEIVE | RECEIVE_DATAGRAM | POLL) || !routine.is_null() || reentrancy::is_in_original() {
        return original();
    }
    let call = Call { file, event, context, status, code, input, input_len, output, output_len };
    // SAFETY: the caller's arguments.
    let ours = || unsafe { if code == POLL { Ok(begin_poll(call)) } else { receive(call) } };
    answer_or(STATUS_INVALID_PARAMETER, ours, original)
}

/// # Safety
/// As the driver demands it.
unsafe fn receive(call: Call) -> Result<Option<NTSTATUS>, WinsockError> {
    let is_datagram = call.code == RECEIVE_DATAGRAM;
    let least = if is_datagram { size_of::<DatagramInfo>() } else { size_of::<ReceiveInfo>() };
    let Some(known) = table::get(call.file.addr()) else { return Ok(None) };
    if call.input.is_null() || call.status.is_null() || (call.input_len as usize) < least {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let info = unsafe { call.input.cast::<ReceiveInfo>().read_unaligned() };
    if info.driver_flags & OVERLAPPED == 0 || !matches!(known.state(), State::Udp { .. } | State::Tcp { .. }) {
        return Ok(None);
    }
    let Ok(lane) = lane() else { return Ok(None) };
    let (name, len) = if is_datagram {
        // SAFETY: as the caller promises.
        let info = unsafe { call.input.cast::<DatagramInfo>().read_unaligned() };
        (info.name, info.name_len)
    } else {
        (null_mut(), null_mut())
    };
    // SAFETY: as the caller promises.
    let parts = unsafe { Parts::new(info.buffers, info.count) };
    let parts = match parts.and_then(|parts| parts.check_writable().map(|()| parts)) {
        _ if known.is_receive_shut() => return Ok(Some(status::of_error(WinsockError::SHUT))),
        Err(error) => return Ok(Some(status::of_error(error))),
        Ok(parts) => parts,
    };
    let flags = ReceiveFlags { is_peek: info.transport_flags & PEEK != 0, ..ReceiveFlags::default() };
    let work = Work::Receive(Receive { parts, flags, sender: SenderPlace::Name { name, len } });
    // SAFETY: as the caller promises.
    let begun = known.begin_request(unsafe { call.request() }, work, lane);
    lane.deliver();
    Ok(Some(match begun {
        Begun::Done(ended) | Begun::Failed(ended) => ended.status,
        Begun::Pending => STATUS_PENDING,
    }))
}

/// Begins a poll. `None`: the kernel is to do it, or to refuse it.
///
/// # Safety
/// As the driver demands it.
unsafe fn begin_poll(call: Call) -> Option<NTSTATUS> {
    let Call { file, status, input, input_len, output, output_len, .. } = call;
    // Later they are written to by another thread, and with locks held.
    let are_good = check_readable(input, input_len as usize)
        .and(check_writable(output, output_len.min(input_len) as usize))
        .and(check_writable(status, size_of::<IO_STATUS_BLOCK>()));
    if input.is_null() || output.is_null() || are_good.is_err() {
        return None;
    }
    // SAFETY: as the caller promises.
    let bytes = unsafe { std::slice::from_raw_parts(input.cast::<u8>(), input_len as usize) };
    let input = PollInput::read(bytes, output_len as usize)?;
    if input.records.iter().all(|record| table::get(record.handle).is_none_or(|known| known.is_kernels())) {
        return None;
    }
    let lane = lane().ok()?;
    let new = NewPoll { file: file.addr(), input, output: output.cast() };
    // SAFETY: as the caller promises.
    let begun = poll::begin(new, || unsafe { call.request() }, lane);
    lane.deliver();
    begun
}
