//! The socket addresses that a socket of one family takes and reports.

use crate::errno::{Errno, Result};
use tickwire_linux_abi::sockaddr::{self, SocketName};
use tickwire_stack::addr::Endpoint;

/// Reads an address; `None` for `AF_UNSPEC`. `v6`: of an IPv6 socket.
pub(crate) fn parse(bytes: &[u8], v6: bool) -> Result<Option<Endpoint>> {
    match SocketName::parse(bytes) {
        SocketName::Unspecified => Ok(None),
        SocketName::Inet { endpoint, v6: is_v6, .. } if is_v6 == v6 => Ok(Some(endpoint)),
        SocketName::Short => Err(Errno(libc::EINVAL)),
        SocketName::Inet { .. } | SocketName::Other => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Writes an address as a socket of that family reports it.
pub(crate) fn emit(endpoint: Endpoint, v6: bool) -> Vec<u8> {
    let (bytes, len) = sockaddr::emit(endpoint, v6, 0);
    bytes[..len].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::Address;

    #[test]
    fn addresses_of_both_families_come_back_as_they_went_in() {
        let v4 = Endpoint::new(Address::v4([192, 0, 2, 1]), 8080);
        let v6 = Endpoint::new(Address([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]), 443);
        for (endpoint, of_v6) in [(v4, false), (v4, true), (v6, true)] {
            assert_eq!(parse(&emit(endpoint, of_v6), of_v6), Ok(Some(endpoint)));
        }
    }

    #[test]
    fn what_is_too_short_or_of_another_family_is_refused() {
        let v4 = emit(Endpoint::new(Address::v4([192, 0, 2, 1]), 8080), false);
        for len in 0..16 {
            assert_eq!(parse(&v4[..len], false), Err(Errno(libc::EINVAL)), "{len}");
        }
        assert_eq!(parse(&v4, true), Err(Errno(libc::EAFNOSUPPORT)));
        assert_eq!(parse(&[0; 16], false), Ok(None));
    }
}
