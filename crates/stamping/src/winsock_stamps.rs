//! Winsock's timestamps of a UDP socket's packets (`SIO_TIMESTAMPING`): taken between NDIS and the
//! network card's driver. Windows has them from Windows 11 and Windows Server 2022 on, where they
//! are enabled for the network card; so what is needed is looked up at run time.
//!
//! They are values of the performance counter. A card that is set to stamp by its own clock gives
//! other values. Such a value is no time between the last seconds and now, and is left out.

use crate::clocks::monotonic;
use crate::timestamps::RxTimestamps;
use std::ffi::c_void;
use std::io;
use std::net::UdpSocket;
use std::os::windows::io::AsRawSocket;
use std::ptr::{null, null_mut};
use tickclock::counter::performance_count;
use windows_sys::Win32::Networking::WinSock::{
    LPFN_WSARECVMSG, SIO_GET_EXTENSION_FUNCTION_POINTER, SIO_GET_TX_TIMESTAMP, SIO_TIMESTAMPING, SO_TIMESTAMP,
    SO_TIMESTAMP_ID, SOCKET, SOL_SOCKET, TIMESTAMPING_CONFIG, TIMESTAMPING_FLAG_RX, TIMESTAMPING_FLAG_TX, WSABUF,
    WSAGetLastError, WSAID_WSARECVMSG, WSAIoctl, WSAMSG, WSASendMsg,
};

/// How many departures Windows keeps for us: more than requests are under way.
const BUFFERED: u16 = 8;
/// A timestamp is of the last so many ns: packets do not wait for longer.
const LATEST: i64 = 10_000_000_000;
/// How far a timestamp may seem to be ahead of the performance counter, in ns: its resolution.
const AHEAD: i64 = 1_000;

/// `WSACMSGHDR`: length, level and type, before each control message's body. All are aligned to 8.
const HEADER: usize = size_of::<usize>() + 2 * size_of::<i32>();
const ALIGN: usize = 8;

/// Room for control messages, aligned as Windows has it.
#[repr(C, align(8))]
struct Control<const N: usize>([u8; N]);

/// A socket's timestamps.
#[derive(Debug)]
pub(crate) struct WinsockStamps {
    receive: LPFN_WSARECVMSG,
}

impl WinsockStamps {
    /// Enables them.
    ///
    /// # Errors
    /// This system has none.
    pub(crate) fn ask(socket: &UdpSocket) -> io::Result<Self> {
        let flags = TIMESTAMPING_FLAG_RX | TIMESTAMPING_FLAG_TX;
        let config = TIMESTAMPING_CONFIG { Flags: flags, TxTimestampsBuffered: BUFFERED };
        ioctl(socket, SIO_TIMESTAMPING, &config, &mut ())?;
        let mut receive: LPFN_WSARECVMSG = None;
        ioctl(socket, SIO_GET_EXTENSION_FUNCTION_POINTER, &WSAID_WSARECVMSG, &mut receive)?;
        Ok(Self { receive })
    }

    /// Sends a message, whose departure is to be stamped and reported with this number.
    ///
    /// # Errors
    /// Windows' error.
    pub(crate) fn send(&self, socket: &UdpSocket, message: &[u8], number: u32) -> io::Result<()> {
        let mut control = Control(numbered(number));
        let mut buffer = buffer(message)?;
        let message = WSAMSG {
            name: null_mut(),
            namelen: 0,
            lpBuffers: &raw mut buffer,
            dwBufferCount: 1,
            Control: WSABUF { len: control.0.len() as u32, buf: control.0.as_mut_ptr() },
            dwFlags: 0,
        };
        let mut sent = 0;
        // SAFETY: an open socket; message, buffers and the place for the result outlive the call,
        // which is not overlapped. It only reads the buffers.
        let code = unsafe { WSASendMsg(raw(socket), &raw const message, 0, &raw mut sent, null_mut(), None) };
        if code == 0 { Ok(()) } else { Err(last_error()) }
    }

    /// One message: its length and timestamps.
    ///
    /// # Errors
    /// Windows' error.
    pub(crate) fn receive(&self, socket: &UdpSocket, bytes: &mut [u8]) -> io::Result<(usize, RxTimestamps)> {
        let receive = self.receive.ok_or(io::ErrorKind::Unsupported)?;
        let mut control = Control([0; 128]);
        let mut buffer = buffer(bytes)?;
        let mut message = WSAMSG {
            name: null_mut(),
            namelen: 0,
            lpBuffers: &raw mut buffer,
            dwBufferCount: 1,
            Control: WSABUF { len: control.0.len() as u32, buf: control.0.as_mut_ptr() },
            dwFlags: 0,
        };
        let mut length = 0;
        // SAFETY: Windows' own function for this socket; message, buffers and the place for the
        // result outlive the call, which is not overlapped, and nothing else uses them meanwhile.
        let code = unsafe { receive(raw(socket), &raw mut message, &raw mut length, null_mut(), None) };
        if code != 0 {
            return Err(last_error());
        }
        let filled = (message.Control.len as usize).min(control.0.len());
        let stamp = arrival(&control.0[..filled]).and_then(|value| recent(value, monotonic()));
        Ok((length as usize, RxTimestamps { stamp, card: None }))
    }

    /// When the message with this number left, in ns of the performance counter; `None` if that is
    /// not known (yet).
    pub(crate) fn departure(&self, socket: &UdpSocket, number: u32) -> Option<i64> {
        let mut stamp = 0_u64;
        ioctl(socket, SIO_GET_TX_TIMESTAMP, &number, &mut stamp).ok()?;
        recent(stamp, monotonic())
    }
}

/// An operation on a socket, which reads one value and writes the other.
fn ioctl<I, O>(socket: &UdpSocket, operation: u32, input: &I, output: &mut O) -> io::Result<()> {
    let mut written = 0;
    let (input, length) = (std::ptr::from_ref(input).cast::<c_void>(), size_of::<I>() as u32);
    let room = size_of::<O>() as u32;
    let output = if room == 0 { null_mut() } else { std::ptr::from_mut(output).cast::<c_void>() };
    // SAFETY: an open socket; both values have the type that the operation has in Windows' headers
    // and outlive the call, which is not overlapped.
    let code =
        unsafe { WSAIoctl(raw(socket), operation, input, length, output, room, &raw mut written, null_mut(), None) };
    match code {
        0 if written == room => Ok(()),
        0 => Err(io::ErrorKind::InvalidData.into()),
        _ => Err(last_error()),
    }
}

fn raw(socket: &UdpSocket) -> SOCKET {
    socket.as_raw_socket() as SOCKET
}

fn last_error() -> io::Error {
    // SAFETY: it reads a variable of this thread.
    io::Error::from_raw_os_error(unsafe { WSAGetLastError() })
}

/// What a call may use as a buffer.
fn buffer(bytes: &[u8]) -> io::Result<WSABUF> {
    let len = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
    Ok(WSABUF { len, buf: if len == 0 { null::<u8>().cast_mut() } else { bytes.as_ptr().cast_mut() } })
}

/// The control message that numbers a message.
fn numbered(number: u32) -> [u8; HEADER + ALIGN] {
    let mut bytes = [0; HEADER + ALIGN];
    let length = HEADER + size_of::<u32>();
    let mut at = 0;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    put(&length.to_ne_bytes());
    put(&SOL_SOCKET.to_ne_bytes());
    put(&SO_TIMESTAMP_ID.to_ne_bytes());
    put(&number.to_ne_bytes());
    bytes
}

/// The receive timestamp in these control messages, up to the first that is invalid.
fn arrival(bytes: &[u8]) -> Option<u64> {
    let mut rest = bytes;
    loop {
        let (length, after) = rest.split_first_chunk()?;
        let (level, after) = after.split_first_chunk()?;
        let (kind, _) = after.split_first_chunk()?;
        let length = usize::from_ne_bytes(*length);
        let body = rest.get(HEADER..length)?;
        if (i32::from_ne_bytes(*level), u32::from_ne_bytes(*kind)) == (SOL_SOCKET, SO_TIMESTAMP) {
            return body.first_chunk().map(|stamp| u64::from_ne_bytes(*stamp));
        }
        rest = rest.get(length.checked_next_multiple_of(ALIGN)?..)?;
    }
}

/// A timestamp in ns of the performance counter, which is at `now`; `None` if it is of another
/// clock.
pub(crate) fn recent(stamp: u64, now: i64) -> Option<i64> {
    let at = performance_count(i64::try_from(stamp).ok()?).0.cast_signed();
    (now - LATEST..=now + AHEAD).contains(&at).then_some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(level: i32, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = (HEADER + body.len()).to_ne_bytes().to_vec();
        bytes.extend(level.to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(ALIGN), 0);
        bytes
    }

    #[test]
    fn the_stamp_is_found_among_other_control_messages() {
        let stamp = control(SOL_SOCKET, SO_TIMESTAMP, &7_u64.to_ne_bytes());
        let other = control(0, 19, &[1; 12]);
        assert_eq!(arrival(&stamp), Some(7));
        assert_eq!(arrival(&[other.clone(), stamp.clone()].concat()), Some(7));
        assert_eq!(arrival(&other), None);
        assert_eq!(arrival(&[]), None);
    }

    #[test]
    fn what_is_cut_off_or_impossible_is_no_stamp() {
        let stamp = control(SOL_SOCKET, SO_TIMESTAMP, &7_u64.to_ne_bytes());
        for length in 0..stamp.len() {
            assert_eq!(arrival(&stamp[..length]), None, "cut off at {length}");
        }
        for length in [0, 1, HEADER - 1, usize::MAX, usize::MAX - ALIGN] {
            let mut bytes = [control(0, 19, &[1; 12]), stamp.clone()].concat();
            bytes[..size_of::<usize>()].copy_from_slice(&length.to_ne_bytes());
            assert_eq!(arrival(&bytes), None, "{length}");
        }
        assert_eq!(arrival(&control(SOL_SOCKET, SO_TIMESTAMP, &[1; 7])), None);
    }

    #[test]
    fn a_message_is_numbered_as_windows_has_it() {
        let bytes = numbered(0x0102_0304);
        assert_eq!(bytes.len(), 24);
        assert_eq!(bytes[..20], control(SOL_SOCKET, SO_TIMESTAMP_ID, &0x0102_0304_u32.to_ne_bytes())[..20]);
    }

    #[test]
    fn a_stamp_of_another_clock_is_left_out() {
        let now = monotonic();
        // In Wine, and on most machines, the counter goes in steps of 100 ns.
        let value = |ns: i64| {
            let (mut low, mut high) = (0_i64, 1_i64 << 56);
            while low < high {
                let middle = low + (high - low) / 2;
                if performance_count(middle).0.cast_signed() < ns { low = middle + 1 } else { high = middle }
            }
            low.unsigned_abs()
        };
        let close = recent(value(now - 50_000), now).unwrap();
        assert!((now - 50_000..now - 40_000).contains(&close), "{close} {now}");
        for other in [0, 1, value(now + 1_000_000_000), value(now - 60_000_000_000), u64::MAX, i64::MAX.unsigned_abs()]
        {
            assert_eq!(recent(other, now), None, "{other}");
        }
    }
}
