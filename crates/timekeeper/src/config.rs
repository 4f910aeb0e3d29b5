//! What the user wants of the clock: the `[clock]` table of the configuration file. Every key is optional.

use serde::Deserialize;
use std::net::SocketAddr;
use std::path::PathBuf;

/// All settings of the clock.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The servers to ask.
    pub servers: Vec<Server>,
    /// Seconds between requests.
    pub poll: f64,
    /// At most so many, for servers that are silent or want to be asked less often.
    pub longest_poll: f64,
    /// What stands in a request's transmit stamp.
    pub transmit: Transmit,
    /// Where the page is.
    pub page: PathBuf,
    /// Where Prometheus metrics are served, if at all: an address and port of this host.
    pub metrics: Option<SocketAddr>,
    /// TAI - UTC in seconds, if the host's time zone data do not tell.
    pub tai_offset: Option<i32>,
    /// The servers smear leap seconds.
    pub smeared: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            poll: 1.0,
            longest_poll: 1024.0,
            transmit: Transmit::Nonce,
            page: tickclock::DEFAULT_PATH.into(),
            metrics: None,
            tai_offset: None,
            smeared: false,
        }
    }
}

/// A server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    /// Its name or address.
    pub host: String,
    /// Its port.
    #[serde(default = "ntp_port")]
    pub port: u16,
    /// How many microseconds requests take longer than answers, if that is known. Half of it corrects the clock.
    #[serde(default)]
    pub asymmetry: f64,
    /// Whether to ask for the true stamps of answers (RFC 9769).
    #[serde(default = "yes")]
    pub interleaved: bool,
}

const fn ntp_port() -> u16 {
    123
}

const fn yes() -> bool {
    true
}

impl Server {
    /// A server as `HOST` or `HOST:PORT`, `[ADDRESS]:PORT` with IPv6.
    #[must_use]
    pub fn named(name: &str) -> Self {
        let split = match name.rsplit_once(':') {
            Some((host, port)) if !host.contains(':') || host.ends_with(']') => {
                port.parse().ok().map(|port| (host, port))
            }
            _ => None,
        };
        let (host, port) = split.unwrap_or((name, ntp_port()));
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        Self { host: host.into(), port, asymmetry: 0.0, interleaved: true }
    }
}

/// What stands in a request's transmit stamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Transmit {
    /// A number that nobody can guess.
    #[default]
    Nonce,
    /// The counter, as in the paper of 2015.
    Counter,
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
        ] {
            let server = Server::named(name);
            assert_eq!((server.host.as_str(), server.port), (host, port), "{name}");
        }
    }
}
