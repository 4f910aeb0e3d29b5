//! Access control: networks of allowed clients, as address prefixes.

use core::fmt;
use core::net::IpAddr;
use core::str::FromStr;
use thiserror::Error;

/// A network: an address and the length of its prefix in bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    address: IpAddr,
    length: u8,
}

/// The text is not a valid network.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0:?} is no network: expected an address, or ADDRESS/LENGTH as 192.0.2.0/24 or 2001:db8::/32")]
pub struct BadNetwork(String);

impl Network {
    /// Whether an address is in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(other)) => (ours.to_bits() ^ other.to_bits()).leading_zeros() >= self.bits(),
            (IpAddr::V6(ours), IpAddr::V6(other)) => (ours.to_bits() ^ other.to_bits()).leading_zeros() >= self.bits(),
            _ => false,
        }
    }

    fn bits(&self) -> u32 {
        self.length.into()
    }
}

impl FromStr for Network {
    type Err = BadNetwork;

    fn from_str(text: &str) -> Result<Self, BadNetwork> {
        let bad = || BadNetwork(text.to_owned());
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse().map_err(|_| bad())?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().map_err(|_| bad())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let length = length.unwrap_or(most);
        if length > most { Err(bad()) } else { Ok(Self { address, length }) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_or_out() {
        for (network, address, inside) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.0", false),
            ("0.0.0.0/0", "203.0.113.9", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("0.0.0.0/0", "::ffff:203.0.113.9", true),
            ("2001:db8::/33", "2001:db8:7fff::1", true),
            ("2001:db8::/33", "2001:db8:8000::1", false),
            ("::/0", "fe80::1", true),
            ("::/0", "10.0.0.1", false),
        ] {
            let found = network.parse::<Network>().unwrap().contains(address.parse().unwrap());
            assert_eq!(found, inside, "{address} in {network}");
        }
    }

    #[test]
    fn what_is_no_network_says_what_was_expected() {
        for text in ["", "lan", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0/8", "::/129", "10.0.0.0/8/8"] {
            let error = text.parse::<Network>().unwrap_err().to_string();
            assert!(error.contains("192.0.2.0/24"), "{text}: {error}");
        }
        assert_eq!("10.0.0.0/8".parse::<Network>().unwrap().to_string(), "10.0.0.0/8");
    }
}
