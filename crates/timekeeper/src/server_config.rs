//! The configuration of one server that is polled: an entry of `[[clock.servers]]` in the
//! configuration file, or a name from the command line.

use serde::Deserialize;
use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use tickwire_clock::ensemble::SourceConfig;

/// The settings of one server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a server as [[clock.servers]] with a line host = \"ntp.example\"")]
pub struct PolledServer {
    /// Its name or address.
    pub host: String,
    /// Its port.
    #[serde(default = "ntp_port")]
    pub port: u16,
    /// How many microseconds requests take longer than replies, if that is known. Half of it
    /// corrects the clock.
    #[serde(default)]
    pub asymmetry: f64,
    /// Whether it spreads leap seconds over a day, as time.google.com does. Such servers are not
    /// mixed with others (RFC 8633 §3.7.1): they are followed only while no other is heard, and not
    /// at all around a leap second. If all servers are of this kind, they are followed without
    /// these limits, and no leap second is applied.
    #[serde(default)]
    pub smeared: bool,
    /// Whether to request the true transmit timestamps of replies (RFC 9769).
    #[serde(default = "yes")]
    pub interleaved: bool,
    /// Whether replies must be authenticated by NTS (RFC 8915). The server that gives the keys may
    /// name another host and port for the time; otherwise `port` is used.
    #[serde(default)]
    pub nts: bool,
    /// The TCP port for key establishment.
    #[serde(default = "nts_port")]
    pub nts_port: u16,
    /// The trusted certificates (PEM) for this server, and no others; unset: those that the host
    /// trusts.
    #[serde(default)]
    pub nts_ca: Option<PathBuf>,
}

/// The longest name that DNS has (RFC 1035 §2.3.4).
const LONGEST_NAME: usize = 253;

/// Checks that this can be the name or address of a host, before it is looked up.
pub(crate) fn host_name(host: &str) -> Result<(), String> {
    // A link-local address includes the interface: fe80::1%eth0.
    let address = host.split_once('%').map_or(host, |(address, _)| address);
    let letter = |c: char| c.is_ascii_alphanumeric() || "-._".contains(c);
    let name = !host.is_empty() && host.len() <= LONGEST_NAME && host.chars().all(letter);
    if name || host.parse::<IpAddr>().is_ok() || address.parse::<Ipv6Addr>().is_ok() {
        return Ok(());
    }
    Err(format!(
        "{host:?} is no name of a host: expected a name or an address, as ntp.example, 192.0.2.1 or 2001:db8::1"
    ))
}

/// Of NTP (RFC 5905 §7.2).
const NTP_PORT: u16 = 123;

const fn ntp_port() -> u16 {
    NTP_PORT
}

const fn nts_port() -> u16 {
    tickwire_ntp::nts::records::PORT
}

const fn yes() -> bool {
    true
}

impl PolledServer {
    /// A server as `HOST` or `HOST:PORT`, `[ADDRESS]:PORT` with IPv6.
    ///
    /// # Errors
    /// What is wrong with it, and what was expected.
    pub fn named(name: &str) -> Result<Self, String> {
        // A URL is not a host with an odd port.
        if name.contains('/') {
            host_name(name)?;
        }
        let (host, port) = match name.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, Some(port)),
            _ => (name, None),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        host_name(host)?;
        let wrong = |port: &str| format!("{port:?} is no port: expected a number from 1 to 65535, as in {host}:123");
        let port = port.map(|port| port.parse().ok().filter(|number| *number != 0).ok_or_else(|| wrong(port)));
        let port = port.transpose()?.unwrap_or(ntp_port());
        Ok(Self {
            host: host.into(),
            port,
            asymmetry: 0.0,
            smeared: false,
            interleaved: true,
            nts: false,
            nts_port: nts_port(),
            nts_ca: None,
        })
    }

    /// Its name in logs and reports: the host as configured, with the port if that is not the usual
    /// one.
    pub(crate) fn label(&self) -> String {
        match (self.port, self.host.contains(':')) {
            (NTP_PORT, _) => self.host.clone(),
            (port, true) => format!("[{}]:{port}", self.host),
            (port, false) => format!("{}:{port}", self.host),
        }
    }

    /// What the clock has to know of it.
    pub(crate) fn known(&self, all_smeared: bool) -> SourceConfig {
        SourceConfig { asymmetry: self.asymmetry * 1e3, smeared: self.smeared || all_smeared }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_servers() {
        for (name, host, port) in [
            ("ntp.example", "ntp.example", 123),
            ("ntp.example:1123", "ntp.example", 1123),
            ("192.0.2.1:99", "192.0.2.1", 99),
            ("2001:db8::1", "2001:db8::1", 123),
            ("[2001:db8::1]:99", "2001:db8::1", 99),
            ("[fe80::1%eth0]:99", "fe80::1%eth0", 99),
        ] {
            let server = PolledServer::named(name).unwrap();
            assert_eq!((server.host.as_str(), server.port), (host, port), "{name}");
        }
        for (name, part) in [
            ("", "\"\" is no name"),
            (":123", "\"\" is no name"),
            ("a.example:99999", "\"99999\" is no port"),
            ("a.example:", "\"\" is no port"),
            ("a.example:0", "\"0\" is no port"),
            ("http://foo", "\"http://foo\" is no name"),
            ("a b", "is no name"),
            ("a/b:123", "is no name"),
            ("[]", "is no name"),
            ("2001:db8::g", "is no name"),
        ] {
            let error = PolledServer::named(name).unwrap_err();
            assert!(error.contains(part), "{name}: {error}");
        }
    }
}
