//! The stack's configuration: Linux's timeouts, on which scripts rely, and the network settings of
//! the process's own network namespace. Scripts change those by shell commands, so each script must
//! run in a namespace of its own.

use std::fs;
use tickwire_stack::addr::{Address, Mac};
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::tcp::{Algorithm, Ecn};
use tickwire_stack::time::Span;
use tickwire_stack::{Limits, StackConfig};

/// Linux's settings of IP; those of TCP apply to both families.
const SETTINGS: &str = "/proc/sys/net/ipv4";

/// Enough for any script.
pub(crate) const LIMITS: Limits =
    Limits { frames: 16_384, tcp: 256, listeners: 16, udp: 16, paths: 64, ..Limits::DEFAULT };

/// The host under test, as the flags of the library describe it: `key=value`, separated by commas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setup {
    /// `local`: the source address of connections.
    pub(crate) local: Address,
    /// `mtu`: of the interface, in bytes.
    pub(crate) mtu: u32,
    /// `push=hidden`: sent packets have no PSH.
    pub(crate) push_hidden: bool,
}

impl Default for Setup {
    fn default() -> Self {
        Self { local: Address::v4([192, 168, 0, 1]), mtu: 1500, push_hidden: false }
    }
}

impl Setup {
    /// Reads flags.
    ///
    /// # Errors
    /// The fault, in words.
    pub(crate) fn parse(flags: &str) -> Result<Self, String> {
        let mut setup = Self::default();
        for flag in flags.split(',').filter(|flag| !flag.is_empty()) {
            let (key, value) = flag.split_once('=').ok_or_else(|| format!("{flag}: expected KEY=VALUE"))?;
            match key {
                "local" => {
                    let ip: core::net::IpAddr = value.parse().map_err(|_| format!("{value}: not an address"))?;
                    setup.local = ip.into();
                }
                "mtu" => {
                    setup.mtu = value
                        .parse()
                        .ok()
                        .filter(|mtu| (68..=65_535).contains(mtu))
                        .ok_or_else(|| format!("mtu={value}: expected a number from 68 to 65535"))?;
                }
                "push" => {
                    if value != "hidden" {
                        return Err(format!("push={value}: expected hidden"));
                    }
                    setup.push_hidden = true;
                }
                _ => return Err(format!("{key}: expected local, mtu or push")),
            }
        }
        Ok(setup)
    }

    /// The path for any query: there is one interface.
    pub(crate) fn path_to(&self, query: Query) -> PathInfo {
        PathInfo {
            query,
            source: self.local,
            interface: 1,
            mtu: self.mtu,
            source_mac: Mac([2, 0, 0, 0, 0, 1]),
            next_hop_mac: Mac([2, 0, 0, 0, 0, 2]),
            state: PathState::Ready,
            ..PathInfo::default()
        }
    }

    /// The stack's configuration. Settings that the namespace lacks have Linux's defaults, not
    /// those of lanes.
    pub(crate) fn config(&self) -> StackConfig {
        let mut config = StackConfig { secret: [1, 2, 3, 4], default_mtu: self.mtu, ..StackConfig::default() };
        let tcp = &mut config.tcp;
        tcp.min_rto = Span::from_millis(200);
        tcp.max_rto = Span::from_secs(120);
        tcp.orphan_retries = 8;
        // Linux's window scale for the largest receive buffer that scripts set.
        tcp.window_shift = 8;
        let count = |name: &str, value: &mut u8| {
            if let Some(number) = numbers(name).first() {
                *value = (*number).min(127) as u8;
            }
        };
        count("tcp_syn_retries", &mut tcp.syn_retries);
        count("tcp_synack_retries", &mut tcp.synack_retries);
        count("tcp_retries2", &mut tcp.retries);
        count("tcp_keepalive_probes", &mut tcp.keep_count);
        let seconds = |name: &str, value: &mut Span| {
            if let Some(number) = numbers(name).first() {
                *value = Span::from_secs(*number);
            }
        };
        seconds("tcp_fin_timeout", &mut tcp.fin_timeout);
        seconds("tcp_keepalive_time", &mut tcp.keep_idle);
        seconds("tcp_keepalive_intvl", &mut tcp.keep_interval);
        let sizes = |name: &str, start: &mut u32, most: &mut u32| {
            if let [_, default, max] = numbers(name)[..] {
                (*start, *most) = (default.min(64 << 20) as u32, max.min(64 << 20) as u32);
            }
        };
        sizes("tcp_wmem", &mut tcp.send_buffer, &mut tcp.send_buffer_max);
        sizes("tcp_rmem", &mut tcp.receive_buffer, &mut tcp.receive_buffer_max);
        if let Some(ecn) = numbers("tcp_ecn").first().and_then(|n| Ecn::from_linux(u8::try_from(*n).ok()?)) {
            tcp.ecn = ecn;
        }
        if read("tcp_congestion_control").trim() == "reno" {
            tcp.algorithm = Algorithm::Reno;
        }
        config
    }
}

fn read(name: &str) -> String {
    fs::read_to_string(format!("{SETTINGS}/{name}")).unwrap_or_default()
}

fn numbers(name: &str) -> Vec<u64> {
    read(name).split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_read_and_wrong_ones_named() {
        assert_eq!(Setup::parse(""), Ok(Setup::default()));
        let setup = Setup::parse("local=fd00::1,mtu=1520,push=hidden").unwrap();
        assert_eq!((setup.local.to_string().as_str(), setup.mtu, setup.push_hidden), ("fd00::1", 1520, true));
        for wrong in ["mtu", "mtu=9", "mtu=x", "local=here", "push=x", "color=red"] {
            assert!(Setup::parse(wrong).is_err(), "{wrong}");
        }
    }
}
