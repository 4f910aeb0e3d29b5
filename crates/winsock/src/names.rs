//! Socket addresses, as programs pass and get them.

use crate::hook::boundary::WinsockError;
use crate::program_memory::{check_readable, check_writable};
use tickwire_stack::addr::{Endpoint, Family};
use tickwire_windows_abi::sockaddr;
use windows_sys::Win32::Networking::WinSock::{SOCKADDR, SOCKADDR_INET};

/// An address that a program passes. `None`: it is of another family than IPv4 and IPv6, or too
/// short.
///
/// # Safety
/// So many bytes may be read there.
pub(crate) unsafe fn endpoint(name: *const SOCKADDR, len: i32) -> Option<Endpoint> {
    let mut copy = sockaddr::none();
    let len = usize::try_from(len).ok().filter(|_| !name.is_null())?.min(size_of::<SOCKADDR_INET>());
    check_readable(name, len).ok()?;
    // SAFETY: as the caller promises; there is room for so many bytes.
    unsafe { std::ptr::copy_nonoverlapping(name.cast::<u8>(), (&raw mut copy).cast::<u8>(), len) };
    sockaddr::endpoint(&copy).filter(|found| len >= sockaddr::size(found.address.family()))
}

/// As [`put`], where the program cannot do without the address.
///
/// # Errors
/// [`WinsockError::FAULT`] also if there is no place for it.
///
/// # Safety
/// As for [`put`].
pub(crate) unsafe fn put_name(
    address: (Family, Endpoint),
    name: *mut SOCKADDR,
    len: *mut i32,
) -> Result<(), WinsockError> {
    if name.is_null() || len.is_null() {
        return Err(WinsockError::FAULT);
    }
    // SAFETY: as the caller promises.
    unsafe { put(address, name, len) }
}

/// Puts an address where a program wants it, as a socket of this family has it, if there is room
/// for all of it.
///
/// # Safety
/// `len` is null or points to the number of bytes that may be written at `name`.
pub(crate) unsafe fn put(
    (family, endpoint): (Family, Endpoint),
    name: *mut SOCKADDR,
    len: *mut i32,
) -> Result<(), WinsockError> {
    if name.is_null() || len.is_null() {
        return Ok(());
    }
    let (made, size) = sockaddr::for_socket(family, endpoint);
    check_readable(len, size_of::<i32>())?;
    check_writable(name, size as usize)?;
    // SAFETY: as the caller promises.
    unsafe {
        if *len < size {
            return Err(WinsockError::FAULT);
        }
        std::ptr::copy_nonoverlapping((&raw const made).cast::<u8>(), name.cast::<u8>(), size as usize);
        *len = size;
    }
    Ok(())
}
