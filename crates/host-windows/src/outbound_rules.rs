//! The rules of Windows' firewall about packets that leave. A lane's packets pass it unseen, and
//! there is no question to it about them as there is about those that arrive. So its rules are read
//! as they are stored ([MS-GPFAS] section 2.2.2).
//!
//! What may hold for a program counts: the kernel decides whether it does, for its own sockets.

use crate::port_owner::PortProtocol;
use std::ops::RangeInclusive;

/// `DefaultOutboundAction`: what no rule allows is blocked.
const BLOCK: u32 = 1;

/// The fields with the peer's ports, each of which a rule may have several times.
const PEERS_PORTS: [&str; 2] = ["RPort", "RPort2_10"];

/// The settings of one profile of networks. A setting that is not there has its usual value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FirewallProfile {
    /// `EnableFirewall`.
    pub(crate) is_on: Option<u32>,
    /// `DefaultOutboundAction`.
    pub(crate) outbound: Option<u32>,
}

impl FirewallProfile {
    fn blocks_by_default(self) -> bool {
        self.is_on != Some(0) && self.outbound == Some(BLOCK)
    }
}

/// A rule against packets that leave.
#[derive(Clone, Debug, PartialEq, Eq)]
struct BlockRule {
    /// The program's file, in lower case; `None`: any.
    program: Option<String>,
    /// The number of the protocol; `None`: any.
    protocol: Option<u8>,
    /// The peer's ports; none: any.
    ports: Vec<RangeInclusive<u16>>,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OutboundRules {
    blocks_by_default: bool,
    rules: Vec<BlockRule>,
}

impl OutboundRules {
    /// Adds a profile. Which one holds changes with the network: each of them counts.
    pub(crate) fn add_profile(&mut self, profile: FirewallProfile) {
        self.blocks_by_default |= profile.blocks_by_default();
    }

    /// Adds a rule as it is stored, if it is one against packets that leave. `expand` replaces the
    /// variables in a path.
    pub(crate) fn add_rule(&mut self, stored: &str, expand: impl Fn(&str) -> String) {
        let fields = || stored.split('|').filter_map(|field| field.split_once('='));
        let value = |name: &str| fields().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value);
        let is = |name, wanted: &str| value(name).is_some_and(|value| value.eq_ignore_ascii_case(wanted));
        // One of a packaged app is for no other program.
        if !is("Action", "Block") || !is("Active", "TRUE") || !is("Dir", "Out") || value("AppPkgId").is_some() {
            return;
        }
        let program = value("App").map(|path| expand(path).to_lowercase());
        let protocol = value("Protocol").and_then(|number| number.parse().ok());
        let of_ports = fields().filter(|(name, _)| PEERS_PORTS.iter().any(|known| known.eq_ignore_ascii_case(name)));
        let ports = of_ports.map(|(_, text)| port_range(text)).collect::<Option<_>>().unwrap_or_default();
        self.rules.push(BlockRule { program, protocol, ports });
    }

    /// Whether nothing here may keep a program's packets from leaving. `program`: the path of its
    /// file, if it is known. `port`: that of the peer, if there is one only.
    pub(crate) fn lets_out(&self, program: Option<&str>, protocol: PortProtocol, port: Option<u16>) -> bool {
        let program = program.map(str::to_lowercase);
        let number = match protocol {
            PortProtocol::Tcp => 6,
            PortProtocol::Udp => 17,
        };
        let may_hold = |rule: &BlockRule| {
            let is_of_program = rule.program.is_none() || program.is_none() || rule.program == program;
            let is_of_port = |port| rule.ports.is_empty() || rule.ports.iter().any(|ports| ports.contains(&port));
            is_of_program && rule.protocol.is_none_or(|of_rule| of_rule == number) && port.is_none_or(is_of_port)
        };
        !self.blocks_by_default && !self.rules.iter().any(may_hold)
    }
}

/// Ports of a rule: one, or a range. `None`: a name that stands for some (`RPC`).
fn port_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some(first.parse().ok()?..=last.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROGRAM: Option<&str> = Some(r"C:\Daq\Daq.exe");

    fn rules(stored: &[&str]) -> OutboundRules {
        let mut rules = OutboundRules::default();
        for one in stored {
            rules.add_rule(one, |path| path.replace("%DAQ%", r"C:\daq"));
        }
        rules
    }

    fn lets_out(stored: &str, program: Option<&str>) -> [bool; 2] {
        [PortProtocol::Tcp, PortProtocol::Udp].map(|protocol| rules(&[stored]).lets_out(program, protocol, None))
    }

    #[test]
    fn a_rule_against_a_programs_packets_keeps_them_in() {
        let of_program = r"v2.30|Action=Block|Active=TRUE|Dir=Out|App=%DAQ%\daq.exe|Name=No way out|";
        assert_eq!(lets_out(of_program, PROGRAM), [false; 2]);
        assert_eq!(lets_out(of_program, Some(r"C:\other.exe")), [true; 2]);
        assert_eq!(lets_out(of_program, None), [false; 2], "it may be this one");
        let of_ports = r"v2.10|Action=Block|Active=TRUE|Dir=Out|Protocol=6|RPort=445|RPort2_10=137-139|Name=No files|";
        let to = |port| rules(&[of_ports]).lets_out(PROGRAM, PortProtocol::Tcp, Some(port));
        assert_eq!([444, 445, 446, 137, 139, 140].map(to), [true, false, true, false, false, true]);
        assert_eq!(lets_out(of_ports, PROGRAM), [false, true], "to any port");
        let unknown = rules(&["|Action=Block|Active=TRUE|Dir=Out|RPort=RPC|RPort=7|"]);
        assert!(!unknown.lets_out(PROGRAM, PortProtocol::Tcp, Some(9)));
        let of_all = "v2.10|Action=Block|Active=TRUE|Dir=Out|Protocol=17|RPort=53|Name=No DNS|";
        assert_eq!(lets_out(of_all, PROGRAM), [true, false]);
    }

    #[test]
    fn other_rules_say_nothing_about_packets_that_leave() {
        for other in [
            "v2.30|Action=Block|Active=TRUE|Dir=In|Name=x|",
            "v2.30|Action=Allow|Active=TRUE|Dir=Out|Name=x|",
            "v2.30|Action=Block|Active=FALSE|Dir=Out|Name=x|",
            "v2.30|Action=Block|Active=TRUE|Dir=Out|AppPkgId=S-1-15-2-1|Name=x|",
            "",
            "|||=|",
        ] {
            assert_eq!(lets_out(other, PROGRAM), [true; 2], "{other}");
        }
    }

    #[test]
    fn a_profile_that_blocks_by_default_keeps_all_in_unless_it_is_off() {
        for (is_on, outbound, lets_out) in [
            (None, None, true),
            (Some(1), Some(0), true),
            (Some(1), Some(BLOCK), false),
            (None, Some(BLOCK), false),
            (Some(0), Some(BLOCK), true),
        ] {
            let mut rules = OutboundRules::default();
            rules.add_profile(FirewallProfile { is_on: Some(1), outbound: None });
            rules.add_profile(FirewallProfile { is_on, outbound });
            assert_eq!(rules.lets_out(PROGRAM, PortProtocol::Tcp, Some(80)), lets_out, "{is_on:?} {outbound:?}");
        }
    }
}
