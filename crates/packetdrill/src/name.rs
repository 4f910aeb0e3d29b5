//! The socket addresses that a socket of one family takes and reports.

use crate::errno::{Errno, Result};
use tickwire_linux_abi::sockaddr::{self, SocketName};
use tickwire_stack::addr::{Address, Endpoint};

/// Whether the address of `connect` is `AF_UNSPEC`, of which two bytes suffice. That is looked at
/// before the state of the socket, and the rest ([`remote`]) only if it is not yet connected.
pub(crate) fn is_unspecified(bytes: &[u8]) -> Result<bool> {
    match bytes.len() {
        0 | 1 => Err(Errno(libc::EINVAL)),
        _ => Ok(SocketName::parse(bytes) == SocketName::Unspecified),
    }
}

/// Reads the address of `connect`, which is not `AF_UNSPEC`. `v6`: of an IPv6 socket.
pub(crate) fn remote(bytes: &[u8], v6: bool) -> Result<Endpoint> {
    of_family(bytes, v6)
}

/// Reads the address of `bind`. An IPv4 socket also takes an `AF_UNSPEC` of no address, as Linux
/// does.
pub(crate) fn local(bytes: &[u8], v6: bool) -> Result<Endpoint> {
    match bytes {
        [f0, f1, p0, p1, 0, 0, 0, 0, ..] if !v6 && u16::from_ne_bytes([*f0, *f1]) == libc::AF_UNSPEC as u16 => {
            long_enough(bytes, v6)?;
            Ok(Endpoint::new(Address::ANY_V4, u16::from_be_bytes([*p0, *p1])))
        }
        _ => of_family(bytes, v6),
    }
}

fn of_family(bytes: &[u8], v6: bool) -> Result<Endpoint> {
    long_enough(bytes, v6)?;
    match SocketName::parse(bytes) {
        SocketName::Inet { endpoint, v6: is_v6, .. } if is_v6 == v6 => Ok(endpoint),
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Linux compares the length with that of the socket's own family, and only then the family.
fn long_enough(bytes: &[u8], v6: bool) -> Result<()> {
    if bytes.len() < sockaddr::least_len(v6) { Err(Errno(libc::EINVAL)) } else { Ok(()) }
}

/// Writes an address as a socket of that family reports it.
pub(crate) fn emit(endpoint: Endpoint, v6: bool) -> Vec<u8> {
    let (bytes, len) = sockaddr::emit(endpoint, v6, 0);
    bytes[..len].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_both_families_come_back_as_they_went_in() {
        let v4 = Endpoint::new(Address::v4([192, 0, 2, 1]), 8080);
        let v6 = Endpoint::new(Address([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), 443);
        for (endpoint, of_v6) in [(v4, false), (v4, true), (v6, true)] {
            let bytes = emit(endpoint, of_v6);
            assert_eq!((remote(&bytes, of_v6), local(&bytes, of_v6)), (Ok(endpoint), Ok(endpoint)));
        }
    }

    /// What `bind` and `connect` answer to an address of this family and length.
    fn answers(family: i32, len: usize, v6: bool) -> [i32; 2] {
        let mut bytes = [0; 28];
        bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
        let number = |error: Errno| error.0;
        [local(&bytes[..len], v6).map_or_else(number, |_| 0), remote(&bytes[..len], v6).map_or_else(number, |_| 0)]
    }

    #[test]
    fn the_length_is_compared_before_the_family() {
        for (v6, own, other, least) in
            [(false, libc::AF_INET, libc::AF_INET6, 16), (true, libc::AF_INET6, libc::AF_INET, 24)]
        {
            for len in 0..=28 {
                let refused = if len < least { libc::EINVAL } else { libc::EAFNOSUPPORT };
                assert_eq!(answers(other, len, v6), [refused; 2], "other family, {len}");
                assert_eq!(answers(libc::AF_UNIX, len, v6), [refused; 2], "AF_UNIX, {len}");
                assert_eq!(answers(own, len, v6), [if len < least { libc::EINVAL } else { 0 }; 2], "own family, {len}");
            }
        }
    }

    #[test]
    fn an_unspecified_family_dissolves_and_binds_to_any_address_of_ipv4() {
        assert_eq!(
            [1, 2, 15].map(|len| is_unspecified(&[0; 15][..len])),
            [Err(Errno(libc::EINVAL)), Ok(true), Ok(true)]
        );
        assert_eq!([15, 16].map(|len| answers(libc::AF_UNSPEC, len, false)[0]), [libc::EINVAL, 0]);
        assert_eq!([23, 24].map(|len| answers(libc::AF_UNSPEC, len, true)[0]), [libc::EINVAL, libc::EAFNOSUPPORT]);
        let addressed = [0, 0, 0, 80, 127, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(local(&addressed, false), Err(Errno(libc::EAFNOSUPPORT)));
        assert_eq!(is_unspecified(&addressed), Ok(true));
    }
}
