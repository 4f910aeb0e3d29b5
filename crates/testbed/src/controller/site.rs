//! The machines that a file names.
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

use super::place::{Hosts, Place, Way};
use crate::pattern::Pattern;
use serde::Deserialize;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use tickwire_settings::Wrong;

/// Why a file of nodes cannot be used.
pub type SiteError = tickwire_settings::Error;

/// The most hosts.
const MOST_HOSTS: usize = 200;

/// Machines, as their file names them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
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

impl Site {
    /// Reads the machines for this pattern.
    ///
    /// # Errors
    /// The file cannot be read, says what cannot be meant, or leaves a producer of the pattern without a host.
    pub fn read(path: &Path, pattern: &Pattern) -> Result<Self, SiteError> {
        tickwire_settings::read(path, |site: &Self| site.check(pattern))
    }

    fn check(&self, pattern: &Pattern) -> Result<(), Wrong> {
        if self.ssh.first().is_none_or(String::is_empty) {
            return Err(Wrong::new("ssh", "no program: expected a list like [\"ssh\"]"));
        }
        if self.producers.len() > MOST_HOSTS {
            return Err(Wrong::new("producers", format!("more than {MOST_HOSTS} hosts")));
        }
        let mut taken = Vec::new();
        for (at, producer) in self.producers.iter().enumerate() {
            named(&producer.host, &format!("producers.{at}.host"))?;
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
        named(&self.consumer.host, "consumer.host")?;
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
        let place = |host: &str, address: IpAddr, own: Option<&PathBuf>| Place {
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
    // ssh would take it for an option, also behind `--` in some versions.
    if host.is_empty() || host.starts_with('-') || host.chars().any(|c| c.is_whitespace() || c.is_control()) {
        return Err(Wrong::new(key, format!("`{}` is no host: expected a name as ssh knows it", host.escape_debug())));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pattern::{Stream, Transport};
    use std::time::Duration;

    fn pattern() -> Pattern {
        let stream = |producer| Stream {
            id: u32::from(producer) * 10,
            producer,
            transport: Transport::Tcp,
            size: 100,
            period: Duration::from_millis(10),
            deadline: Duration::from_millis(10),
            phase: None,
        };
        Pattern { name: "two".into(), streams: vec![stream(1), stream(2)] }
    }

    const GOOD: &str = "[consumer]\nhost = 'daq'\naddress = '192.0.2.1'\n[[producers]]\nhost = 'a'\naddress = '192.0.2.2'\nnumbers = [1, 2]\n";

    fn parse(text: &str) -> Result<Site, SiteError> {
        tickwire_settings::parse(text, Path::new("nodes.toml"), |site: &Site| site.check(&pattern()))
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
            ("192.0.2.2", "2001:db8::1", "nodes.toml:6:11: an address of another family"),
            ("numbers", "number", "unknown key `number`"),
        ] {
            let error = parse(&GOOD.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(said), "{error} instead of {said}");
        }
    }
}
