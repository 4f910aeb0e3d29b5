//! Endpoints and their processes (`GetExtendedTcpTable`, `GetExtendedUdpTable`).

use super::refused;
use crate::error::{IpHelperError, Result};
use crate::port_owner::EndpointRow;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use tickwire_stack::addr::{Address, Endpoint};
use windows_sys::Win32::Foundation::{ERROR_INSUFFICIENT_BUFFER, ERROR_NOT_SUPPORTED};
use windows_sys::Win32::NetworkManagement::IpHelper::{
    GetExtendedTcpTable, GetExtendedUdpTable, MIB_TCP_STATE_LISTEN, MIB_TCP6ROW_OWNER_PID, MIB_TCPROW_OWNER_PID,
    MIB_UDP6ROW_OWNER_PID, MIB_UDPROW_OWNER_PID, TCP_TABLE_OWNER_PID_ALL, UDP_TABLE_OWNER_PID,
};
use windows_sys::Win32::Networking::WinSock::{AF_INET, AF_INET6};

/// The largest table that is read, in bytes: about a million connections.
const MAX_SIZE: usize = 64 << 20;
/// The table may grow between two calls.
const ATTEMPTS: usize = 8;

/// A row of these tables: numbers only, so that any bytes are one.
///
/// # Safety
/// It has no padding, its alignment is that of `u32`, and any bits are a value.
unsafe trait PortRow: Copy {
    fn row(self) -> EndpointRow;
}

// SAFETY: fields of u32 only.
unsafe impl PortRow for MIB_TCPROW_OWNER_PID {
    fn row(self) -> EndpointRow {
        EndpointRow {
            process: process(self.dwOwningPid),
            local: v4(self.dwLocalAddr, self.dwLocalPort),
            remote: peer(self.dwState, v4(self.dwRemoteAddr, self.dwRemotePort)),
        }
    }
}

// SAFETY: fields of u32, and arrays of 16 bytes.
unsafe impl PortRow for MIB_TCP6ROW_OWNER_PID {
    fn row(self) -> EndpointRow {
        EndpointRow {
            process: process(self.dwOwningPid),
            local: v6(self.ucLocalAddr, self.dwLocalPort),
            remote: peer(self.dwState, v6(self.ucRemoteAddr, self.dwRemotePort)),
        }
    }
}

// SAFETY: fields of u32 only.
unsafe impl PortRow for MIB_UDPROW_OWNER_PID {
    fn row(self) -> EndpointRow {
        let local = v4(self.dwLocalAddr, self.dwLocalPort);
        EndpointRow { process: process(self.dwOwningPid), local, remote: Endpoint::default() }
    }
}

// SAFETY: fields of u32, and an array of 16 bytes.
unsafe impl PortRow for MIB_UDP6ROW_OWNER_PID {
    fn row(self) -> EndpointRow {
        let local = v6(self.ucLocalAddr, self.dwLocalPort);
        EndpointRow { process: process(self.dwOwningPid), local, remote: Endpoint::default() }
    }
}

/// The peer of a TCP socket. That of a listener has no meaning, as Windows documents it.
fn peer(state: u32, remote: Endpoint) -> Endpoint {
    if state == MIB_TCP_STATE_LISTEN.cast_unsigned() { Endpoint::default() } else { remote }
}

/// Windows has no process 0; it stands for none.
fn process(id: u32) -> Option<u32> {
    (id != 0).then_some(id)
}

/// An address and a port, both in network byte order.
fn v4(address: u32, port: u32) -> Endpoint {
    Endpoint::new(Address::v4(address.to_ne_bytes()), u16::from_be(port as u16))
}

fn v6(address: [u8; 16], port: u32) -> Endpoint {
    Endpoint::new(Address(address), u16::from_be(port as u16))
}

/// The rows of TCP, of both families.
pub(crate) fn tcp_rows() -> Result<Vec<EndpointRow>> {
    let what = "list the endpoints of TCP";
    // SAFETY: it writes at most that many bytes of a table of the family's rows.
    let call =
        |family| move |place, size| unsafe { GetExtendedTcpTable(place, size, 0, family, TCP_TABLE_OWNER_PID_ALL, 0) };
    let mut rows = read::<MIB_TCPROW_OWNER_PID>(what, call(AF_INET.into()))?;
    rows.append(&mut read::<MIB_TCP6ROW_OWNER_PID>(what, call(AF_INET6.into()))?);
    Ok(rows)
}

/// The rows of UDP, of both families.
pub(crate) fn udp_rows() -> Result<Vec<EndpointRow>> {
    let what = "list the endpoints of UDP";
    // SAFETY: it writes at most that many bytes of a table of the family's rows.
    let call =
        |family| move |place, size| unsafe { GetExtendedUdpTable(place, size, 0, family, UDP_TABLE_OWNER_PID, 0) };
    let mut rows = read::<MIB_UDPROW_OWNER_PID>(what, call(AF_INET.into()))?;
    rows.append(&mut read::<MIB_UDP6ROW_OWNER_PID>(what, call(AF_INET6.into()))?);
    Ok(rows)
}

/// Reads a table: a number of rows as `u32`, then the rows.
fn read<R: PortRow>(what: &'static str, call: impl Fn(*mut c_void, *mut u32) -> u32) -> Result<Vec<EndpointRow>> {
    let mut buffer: Vec<u32> = vec![0; 1024];
    for _ in 0..ATTEMPTS {
        let mut size = (buffer.len() * size_of::<u32>()) as u32;
        match call(buffer.as_mut_ptr().cast(), &raw mut size) {
            0 => return Ok(rows::<R>(&buffer)),
            // A family that the system lacks has no endpoints.
            ERROR_NOT_SUPPORTED => return Ok(Vec::new()),
            ERROR_INSUFFICIENT_BUFFER => {}
            code => return Err(refused(what, code)),
        }
        // With room for endpoints that are made in the meantime.
        let wanted = size as usize + size as usize / 4;
        if wanted > MAX_SIZE {
            return Err(IpHelperError::TooLarge { what, limit: MAX_SIZE });
        }
        buffer.resize(wanted.div_ceil(size_of::<u32>()).max(buffer.len()), 0);
    }
    Err(refused(what, ERROR_INSUFFICIENT_BUFFER))
}

/// The rows in a buffer that begins with their number. Those that it does not hold are left out.
fn rows<R: PortRow>(buffer: &[u32]) -> Vec<EndpointRow> {
    let Some((&count, words)) = buffer.split_first() else { return Vec::new() };
    let whole = words.chunks_exact(size_of::<R>() / size_of::<u32>()).take(count as usize);
    let row = |words: &[u32]| {
        let mut row = MaybeUninit::<R>::uninit();
        // SAFETY: the chunk has the size of a row.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), row.as_mut_ptr().cast(), words.len()) };
        // SAFETY: all of it was written, and any bits are a value.
        unsafe { row.assume_init() }.row()
    };
    whole.map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listener_has_no_peer_whatever_its_row_says() {
        let row = |state: i32| MIB_TCPROW_OWNER_PID {
            dwState: state.cast_unsigned(),
            dwLocalAddr: u32::from_ne_bytes([10, 0, 0, 1]),
            dwLocalPort: u16::to_be(80).into(),
            dwRemoteAddr: u32::from_ne_bytes([10, 0, 0, 2]),
            dwRemotePort: u16::to_be(9000).into(),
            dwOwningPid: 7,
        };
        let local = Endpoint::new(Address::v4([10, 0, 0, 1]), 80);
        let listener = EndpointRow { process: Some(7), local, remote: Endpoint::default() };
        assert_eq!(row(MIB_TCP_STATE_LISTEN).row(), listener);
        let remote = Endpoint::new(Address::v4([10, 0, 0, 2]), 9000);
        assert_eq!(row(MIB_TCP_STATE_LISTEN + 3).row(), EndpointRow { remote, ..listener });
    }
}
