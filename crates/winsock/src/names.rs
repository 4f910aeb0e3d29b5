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

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::Address;
    use windows_sys::Win32::Networking::WinSock::{AF_INET, AF_INET6, WSAEFAULT};

    #[test]
    fn a_name_counts_if_all_of_it_is_there_whatever_length_the_program_says() {
        for (family, size) in [(AF_INET, 16), (AF_INET6, 28)] {
            let mut bytes = [0x5a_u8; 256];
            bytes[..2].copy_from_slice(&family.to_ne_bytes());
            for len in -300..=256 {
                // SAFETY: no more bytes than there are are read; a length below zero reads none.
                let found = unsafe { endpoint(bytes.as_ptr().cast(), len) };
                assert_eq!(found.is_some(), len >= size, "{len} bytes of family {family}");
            }
            for len in [i32::MIN, -1, 0, 28, i32::MAX] {
                // SAFETY: nothing is read at null.
                assert_eq!(unsafe { endpoint(std::ptr::null(), len) }, None);
            }
        }
        for family in (0..=u8::MAX).map(u16::from).filter(|family| ![AF_INET, AF_INET6].contains(family)) {
            let mut bytes = [0_u8; 32];
            bytes[..2].copy_from_slice(&family.to_ne_bytes());
            // SAFETY: so many bytes are there.
            assert_eq!(unsafe { endpoint(bytes.as_ptr().cast(), 32) }, None);
        }
    }

    #[test]
    fn a_name_is_put_where_there_is_room_for_all_of_it_and_nothing_beyond() {
        let there = Endpoint::new(Address::v4([10, 1, 2, 3]), 80);
        for (family, size) in [(Family::V4, 16), (Family::V6, 28)] {
            for room in [i32::MIN, -1, 0, 1, size - 1, size, size + 1, i32::MAX] {
                let (mut bytes, mut len) = ([0x5a_u8; 64], room);
                // SAFETY: there is room for the longest name.
                let done = unsafe { put((family, there), bytes.as_mut_ptr().cast(), &raw mut len) };
                assert_eq!(done, if room < size { Err(WinsockError(WSAEFAULT)) } else { Ok(()) }, "{room}");
                assert!(bytes[size as usize..].iter().all(|byte| *byte == 0x5a));
                assert_eq!(len, if room < size { room } else { size });
            }
        }
    }
}
