//! Conversion of socket addresses between C's bytes and [`Endpoint`].

use crate::errno::{Errno, Result};
use tickwire_stack::addr::{Address, Endpoint};

/// The longest socket address (`sockaddr_in6`).
pub(crate) const MAX: usize = 28;

/// Reads an address; `None` for `AF_UNSPEC`. `v6`: of an IPv6 socket.
pub(crate) fn parse(bytes: &[u8], v6: bool) -> Result<Option<Endpoint>> {
    let invalid = Errno(libc::EINVAL);
    let [f0, f1, ..] = *bytes else { return Err(invalid) };
    let port = || bytes.get(2..4).map(|b| u16::from_be_bytes([b[0], b[1]])).ok_or(invalid);
    match i32::from(u16::from_ne_bytes([f0, f1])) {
        libc::AF_UNSPEC => Ok(None),
        libc::AF_INET if !v6 => {
            let octets = bytes.get(4..16).and_then(|b| b.first_chunk()).ok_or(invalid)?;
            Ok(Some(Endpoint::new(Address::v4(*octets), port()?)))
        }
        libc::AF_INET6 if v6 => {
            let octets = bytes.get(8..24).and_then(|b| b.first_chunk()).ok_or(invalid)?;
            Ok(Some(Endpoint::new(Address(*octets), port()?)))
        }
        _ => Err(Errno(libc::EAFNOSUPPORT)),
    }
}

/// Writes an address as a socket of that family reports it.
pub(crate) fn emit(endpoint: Endpoint, v6: bool) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(MAX);
    match (endpoint.address.to_v4(), v6) {
        (Some(octets), false) => {
            bytes.extend((libc::AF_INET as u16).to_ne_bytes());
            bytes.extend(endpoint.port.to_be_bytes());
            bytes.extend(octets);
            bytes.resize(16, 0);
        }
        _ => {
            bytes.extend((libc::AF_INET6 as u16).to_ne_bytes());
            bytes.extend(endpoint.port.to_be_bytes());
            bytes.extend([0; 4]); // flow information
            bytes.extend(endpoint.address.0);
            bytes.resize(MAX, 0);
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

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
