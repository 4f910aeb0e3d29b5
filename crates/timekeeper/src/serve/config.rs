//! The server's configuration: the `[clock.serve]` table of the configuration file. Every key is
//! optional.

use serde::{Deserialize, Deserializer, de};
use std::net::{IpAddr, SocketAddr};
use tickwire_ntp::server::Network;
use tickwire_settings::Wrong;

/// NTP's port (RFC 5905 §7.2).
pub(super) const NTP: u16 = 123;

/// All settings of the server.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Serve {
    /// Addresses and ports to listen on; none: port 123 of all addresses.
    #[serde(deserialize_with = "listened")]
    pub listen: Vec<SocketAddr>,
    /// Networks whose clients are served; none: all clients.
    #[serde(deserialize_with = "parsed")]
    pub allow: Vec<Network>,
    /// Requests per second for each client, on average; 0: no limit.
    pub rate: f64,
    /// Requests in a burst for each client.
    pub burst: u32,
}

impl Default for Serve {
    fn default() -> Self {
        // A Tickwire client asks at most 20 times a second, and 8 times in a burst.
        Self { listen: Vec::new(), allow: Vec::new(), rate: 20.0, burst: 64 }
    }
}

impl Serve {
    /// Checks the values.
    ///
    /// # Errors
    /// The first invalid one, and what is valid.
    pub fn check(&self) -> Result<(), Wrong> {
        let wrong = |key: &str, wanted: &str| Err(Wrong::new(key, format!("{key} {wanted}")));
        if self.rate != 0.0 && !(0.001..=1e6).contains(&self.rate) {
            return wrong("clock.serve.rate", "must be 0.001 to 1000000 requests per second, or 0 for no limit");
        }
        if self.burst == 0 {
            return wrong("clock.serve.burst", "must be at least 1");
        }
        if self.listen.len() > 64 {
            return wrong("clock.serve.listen", "must be 64 addresses at most");
        }
        Ok(())
    }
}

/// An address as `ADDRESS` or `ADDRESS:PORT`, `[ADDRESS]:PORT` with IPv6.
///
/// # Errors
/// What was expected.
pub fn listen(text: &str) -> Result<SocketAddr, String> {
    text.parse().or_else(|_| text.parse::<IpAddr>().map(|address| (address, NTP).into())).map_err(|_| {
        format!("{text:?}: expected an address of this host, as 192.0.2.1, 192.0.2.1:1123 or [2001:db8::1]:1123")
    })
}

fn listened<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<SocketAddr>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.iter().map(|text| listen(text).map_err(de::Error::custom)).collect()
}

fn parsed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Network>, D::Error> {
    Vec::<String>::deserialize(deserializer)?.iter().map(|text| text.parse().map_err(de::Error::custom)).collect()
}
