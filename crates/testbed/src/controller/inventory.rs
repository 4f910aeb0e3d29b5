//! The machines of an experiment, from a file.
//!
//! ```toml
//! ssh = ["ssh", "-J", "gate"]            # optional: the program and its arguments
//! tickwire = "/usr/bin/tickwire"         # optional: where it is on the hosts
//!
//! [consumer]
//! host = "daq1"                          # as ssh knows it
//! address = "192.0.2.1"                  # its address on the data network
//!
//! [[producers]]
//! host = "sensors@rack2"
//! address = "192.0.2.12"
//! numbers = [1, 2, 3]                    # the producers of the pattern that it stands for
//! ```

use super::host::{Hosts, NodeHost, Way};
use crate::pattern::Pattern;
use serde::Deserialize;
use std::collections::HashSet;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tickwire_settings::Wrong;
use tickwire_show::sanitize_terminal::{is_obeyed, sanitized};

/// Why a file of nodes cannot be used.
pub type InventoryError = tickwire_settings::SettingsError;

/// The longest name of a host, in characters; names in DNS are shorter.
const LONGEST_NAME: usize = 255;
/// The most hosts.
const MOST_HOSTS: usize = 200;

/// The machines of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Inventory {
    #[serde(default = "ssh")]
    ssh: Vec<String>,
    #[serde(default = "tickwire")]
    tickwire: PathBuf,
    consumer: Machine,
    producers: Vec<Sender>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Machine {
    host: String,
    address: IpAddr,
    tickwire: Option<PathBuf>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sender {
    host: String,
    address: IpAddr,
    tickwire: Option<PathBuf>,
    numbers: Vec<u16>,
}

fn ssh() -> Vec<String> {
    vec!["ssh".into()]
}

fn tickwire() -> PathBuf {
    "tickwire".into()
}

impl Inventory {
    /// Reads the machines for this pattern.
    ///
    /// # Errors
    /// The file cannot be read, is invalid, or leaves a producer of the pattern without a host.
    pub fn read(path: &Path, pattern: &Pattern) -> Result<Self, InventoryError> {
        tickwire_settings::read(path, |site: &Self| site.check(pattern))
    }

    fn check(&self, pattern: &Pattern) -> Result<(), Wrong> {
        if self.ssh.first().is_none_or(String::is_empty) {
            return Err(Wrong::new("ssh", "no program: expected a list like [\"ssh\"]"));
        }
        if self.producers.len() > MOST_HOSTS {
            return Err(Wrong::new("producers", format!("more than {MOST_HOSTS} hosts")));
        }
        named(&self.consumer.host, "consumer.host")?;
        addressed(self.consumer.address, "consumer.address")?;
        let mut taken = Vec::new();
        let mut addresses = HashSet::from([self.consumer.address]);
        for (at, producer) in self.producers.iter().enumerate() {
            named(&producer.host, &format!("producers.{at}.host"))?;
            addressed(producer.address, &format!("producers.{at}.address"))?;
            if !addresses.insert(producer.address) {
                let what = format!(
                    "{} is another machine's, too: expected each machine once, with all producers that it stands for",
                    producer.address
                );
                return Err(Wrong::new(format!("producers.{at}.address"), what));
            }
            if producer.numbers.is_empty() {
                let what = "it stands for no producer: expected numbers of the pattern's";
                return Err(Wrong::new(format!("producers.{at}.numbers"), what));
            }
            if producer.address.is_ipv4() != self.consumer.address.is_ipv4() {
                let key = format!("producers.{at}.address");
                return Err(Wrong::new(key, "an address of another family than the consumer's"));
            }
            for (place, number) in producer.numbers.iter().enumerate() {
                let wrong = |what: String| Wrong::new(format!("producers.{at}.numbers.{place}"), what);
                if !pattern.streams.iter().any(|stream| stream.producer == *number) {
                    return Err(wrong(format!("the pattern has no producer {number}")));
                }
                if taken.contains(number) {
                    return Err(wrong(format!("producer {number} has a host already")));
                }
                taken.push(*number);
            }
        }
        match pattern.producers().iter().find(|number| !taken.contains(number)) {
            Some(missing) => {
                Err(Wrong::new("producers", format!("no host stands for producer {missing} of the pattern")))
            }
            None => Ok(()),
        }
    }

    /// The hosts of the experiment.
    #[must_use]
    pub fn hosts(&self) -> Hosts {
        let place = |host: &str, address: IpAddr, own: Option<&PathBuf>| NodeHost {
            name: host.to_owned(),
            address,
            tickwire: own.unwrap_or(&self.tickwire).clone(),
            way: Way::Ssh { command: self.ssh.clone(), destination: host.to_owned() },
        };
        let producer = |p: &Sender| (place(&p.host, p.address, p.tickwire.as_ref()), p.numbers.clone());
        let consumer = &self.consumer;
        Hosts {
            consumer: place(&consumer.host, consumer.address, consumer.tickwire.as_ref()),
            producers: self.producers.iter().map(producer).collect(),
        }
    }
}

fn named(host: &str, key: &str) -> Result<(), Wrong> {
    // ssh would parse it as an option, also after `--` in some versions.
    if host.is_empty() || host.starts_with('-') || host.chars().any(|c| c.is_whitespace() || is_obeyed(c)) {
        let shown = sanitized(host, LONGEST_NAME);
        return Err(Wrong::new(key, format!("`{shown}` is no host: expected a name as ssh knows it")));
    }
    if host.chars().count() > LONGEST_NAME {
        return Err(Wrong::new(key, format!("a name of more than {LONGEST_NAME} characters")));
    }
    Ok(())
}

/// Checks that a socket can be bound to the address on one machine, and that the address alone
/// reaches it from another.
fn addressed(address: IpAddr, key: &str) -> Result<(), Wrong> {
    let why = match address {
        address if address.is_unspecified() => "is no machine's",
        address if address.is_multicast() => "is a group's",
        IpAddr::V4(v4) if v4.is_broadcast() => "is all machines'",
        IpAddr::V6(v6) if v6.is_unicast_link_local() => "is of one link only, which it does not name",
        IpAddr::V6(v6) if v6.to_ipv4_mapped().is_some() => "is written as if it were of IPv6",
        _ => return Ok(()),
    };
    Err(Wrong::new(key, format!("{address} {why}: expected the machine's own address on the data network")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Stream, sample};

    fn pattern() -> Pattern {
        let stream = |producer| Stream { producer, ..sample(u32::from(producer) * 10) };
        Pattern { name: "two".into(), streams: vec![stream(1), stream(2)] }
    }

    const GOOD: &str = "[consumer]\nhost = 'daq'\naddress = '192.0.2.1'\n[[producers]]\nhost = 'a'\naddress = '192.0.2.2'\nnumbers = [1, 2]\n";

    fn parse(text: &str) -> Result<Inventory, InventoryError> {
        tickwire_settings::parse(text, Path::new("nodes.toml"), |site: &Inventory| site.check(&pattern()))
    }

    #[test]
    fn machines_are_those_that_the_file_names() {
        let hosts = parse(GOOD).unwrap().hosts();
        assert_eq!((hosts.consumer.name.as_str(), hosts.producers[0].1.as_slice()), ("daq", &[1, 2][..]));
    }

    #[test]
    fn what_cannot_be_meant_is_told_with_its_line() {
        for (from, to, said) in [
            ("[1, 2]", "[1]", "nodes.toml:4:1: no host stands for producer 2"),
            ("[1, 2]", "[1, 2, 3]", "nodes.toml:7:18: the pattern has no producer 3"),
            ("[1, 2]", "[1, 2, 1]", "nodes.toml:7:18: producer 1 has a host already"),
            ("'a'", "'-oProxyCommand=x'", "nodes.toml:5:8: `-oProxyCommand=x` is no host"),
            ("'a'", "'a\u{202e}b'", "nodes.toml:5:8: `a\\u{202e}b` is no host"),
            ("'a'", "'a b'", "nodes.toml:5:8: `a b` is no host"),
            ("'a'", "''", "nodes.toml:5:8: `` is no host"),
            ("'daq'", "'-F/tmp/x'", "nodes.toml:2:8: `-F/tmp/x` is no host"),
            ("192.0.2.2", "2001:db8::1", "nodes.toml:6:11: an address of another family"),
            ("192.0.2.2", "192.0.2.1", "nodes.toml:6:11: 192.0.2.1 is another machine's, too"),
            ("192.0.2.2", "0.0.0.0", "nodes.toml:6:11: 0.0.0.0 is no machine's"),
            ("192.0.2.1", "239.1.2.3", "nodes.toml:3:11: 239.1.2.3 is a group's"),
            ("192.0.2.1", "255.255.255.255", "nodes.toml:3:11: 255.255.255.255 is all machines'"),
            ("192.0.2.1", "fe80::1", "nodes.toml:3:11: fe80::1 is of one link only"),
            ("192.0.2.1", "::ffff:192.0.2.1", "nodes.toml:3:11: ::ffff:192.0.2.1 is written as if"),
            ("192.0.2.1", "nowhere", "nodes.toml:3:11: "),
            (
                "[1, 2]",
                "[1, 2]\n[[producers]]\nhost = 'b'\naddress = '192.0.2.3'\nnumbers = []",
                "nodes.toml:11:11: it stands for no producer",
            ),
            ("numbers", "number", "unknown key `number`"),
        ] {
            let error = parse(&GOOD.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(said), "{error} instead of {said}");
        }
    }
}
