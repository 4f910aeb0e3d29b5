//! The service's settings: one TOML file, every key optional, unknown keys refused.
//!
//! `packaging/tickwire.toml` shows every key with its default; a test parses it, and looks for
//! the keys that are listed there.

use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
pub use tickwire_settings::SettingsError as ConfigError;
use tickwire_settings::Wrong;

/// Where the settings are read from unless the command line names a file. This file may be absent.
pub const DEFAULT_PATH: &str = "/etc/tickwire/tickwire.toml";

/// All settings.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceConfig {
    /// Interfaces to accelerate, by name. Empty: every one that looks physical, also those that
    /// appear later.
    pub interfaces: Vec<String>,
    /// How divert is attached.
    pub attach: Attach,
    /// Other ways to attach on single interfaces, by name.
    pub attach_by_interface: BTreeMap<String, Attach>,
    /// Interfaces at which no frame with a VLAN tag arrives, by name. XDP may run there although
    /// the device hides tags.
    pub untagged: Vec<String>,
    /// The service's socket.
    pub socket: SocketConfig,
    /// Limits.
    pub limits: ServiceLimits,
    /// The size of a lane.
    pub lane: LaneConfig,
    /// What members of single groups get beyond a lane, by the group's name.
    pub groups: BTreeMap<String, GroupConfig>,
    /// The clock. Unset: the service keeps none.
    pub clock: Option<tickwire_timekeeper::TimekeeperConfig>,
}

/// How divert is attached to an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attach {
    /// What is best for the driver without disturbing others.
    #[default]
    Auto,
    /// XDP in the driver: fastest; some virtual drivers give up segmentation offload for it.
    Native,
    /// XDP after the driver: every driver, slower.
    Generic,
    /// A tc filter: every driver, disturbs others least, slowest.
    Tc,
}

/// The socket on which programs reach the service.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SocketConfig {
    /// Its path.
    pub path: PathBuf,
    /// The group that may be accelerated. Unset: the group `tickwire` if there is one, else the
    /// socket is root's only.
    pub group: Option<String>,
    /// The socket's mode. Unset: 0o660 with a group, 0o600 without.
    pub mode: Option<u32>,
}

impl Default for SocketConfig {
    fn default() -> Self {
        Self { path: PathBuf::from("/run/tickwire/service.sock"), group: None, mode: None }
    }
}

/// Limits. Past one, the new lane or socket is refused with a reason and runs on the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ServiceLimits {
    /// Lanes in all (at most 4096).
    pub lanes: u32,
    /// Lanes of one user.
    pub lanes_per_user: u32,
    /// Claims (diverted ports and flows) in all (at most 262144).
    pub flows: u32,
    /// Claims of one user.
    pub flows_per_user: u32,
    /// Memberships of multicast groups in all (at most 65536): of each group, port and interface,
    /// each socket's.
    pub memberships: u32,
    /// Memberships of one user.
    pub memberships_per_user: u32,
    /// Memberships of one lane.
    pub memberships_per_lane: u32,
    /// Memory of all lanes, in MiB.
    pub memory_mib: u32,
    /// Memory of one user's lanes, in MiB.
    pub memory_per_user_mib: u32,
    /// Connections to the service's socket in all.
    pub connections: u32,
    /// Connections of one user.
    pub connections_per_user: u32,
    /// Requests per second on one connection, on average; a program that sends more is slowed to
    /// this rate.
    pub requests_per_second: u32,
}

impl Default for ServiceLimits {
    fn default() -> Self {
        Self {
            lanes: 256,
            lanes_per_user: 64,
            flows: 65_536,
            flows_per_user: 16_384,
            memberships: 4096,
            memberships_per_user: 1024,
            memberships_per_lane: 256,
            memory_mib: 4096,
            memory_per_user_mib: 1024,
            connections: 1024,
            connections_per_user: 256,
            requests_per_second: 20_000,
        }
    }
}

/// The size of a lane, and how many are kept ready.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LaneConfig {
    /// Packet frames of 2 KiB, a power of two. Unset: the stack's default.
    pub frames: Option<u32>,
    /// TCP connections. Unset: the stack's default.
    pub tcp: Option<u32>,
    /// TCP listeners. Unset: the stack's default.
    pub listeners: Option<u32>,
    /// UDP sockets. Unset: the stack's default.
    pub udp: Option<u32>,
    /// How many lanes are kept ready for new programs, 64 at most. Unset: 4.
    /// Each takes the memory of its receive ring, 2 MiB.
    pub ready: Option<u32>,
}

/// What the members of a group get beyond a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GroupConfig {
    /// The real-time priority (`SCHED_FIFO`, 1 to 99) of threads that use a lane. Unset: none.
    pub realtime: Option<u32>,
}

impl ServiceConfig {
    /// Reads a file. Without a path, [`DEFAULT_PATH`], which may be absent.
    ///
    /// # Errors
    /// If the file cannot be read, or has a setting that is not valid.
    pub fn load(path: Option<&Path>) -> Result<Self, ConfigError> {
        let file = path.unwrap_or(Path::new(DEFAULT_PATH));
        match tickwire_settings::read(file, Self::check) {
            Err(ConfigError::Read { source, .. })
                if path.is_none() && source.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(Self::default())
            }
            other => other,
        }
    }

    /// Reads settings from `text`; `path` is only named in errors.
    ///
    /// # Errors
    /// If it has a setting that is not valid.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigError> {
        tickwire_settings::parse(text, path, Self::check)
    }

    /// The entries of `attach_by_interface` that have no effect while the host has these
    /// interfaces: the interface, and why.
    pub(crate) fn idle_attachments(&self, present: &[String]) -> Vec<(&str, &'static str)> {
        let why = |name: &String| match () {
            () if !self.interfaces.is_empty() && !self.interfaces.contains(name) => Some("it is not to be accelerated"),
            () if !present.contains(name) => Some("there is no such interface now (see `ip link`)"),
            () => None,
        };
        self.attach_by_interface.keys().filter_map(|name| Some((name.as_str(), why(name)?))).collect()
    }

    fn check(&self) -> Result<(), Wrong> {
        let limits = &self.limits;
        for (name, value, most) in [
            ("limits.lanes", limits.lanes, 4096),
            ("limits.flows", limits.flows, 262_144),
            ("limits.memberships", limits.memberships, 65_536),
            ("limits.connections", limits.connections, 65_536),
            ("limits.requests_per_second", limits.requests_per_second, 10_000_000),
            ("limits.memory_mib", limits.memory_mib, 16 << 20),
        ] {
            if value == 0 || value > most {
                return Err(Wrong::new(name, format!("{name} is {value}; expected a number from 1 to {most}")));
            }
        }
        for (name, value) in [
            ("lane.frames", self.lane.frames),
            ("lane.tcp", self.lane.tcp),
            ("lane.listeners", self.lane.listeners),
            ("lane.udp", self.lane.udp),
        ] {
            if value.is_some_and(|v| v == 0 || v > 1 << 20) {
                let message = format!("{name} is {}; expected a number from 1 to 1048576", value.unwrap_or(0));
                return Err(Wrong::new(name, message));
            }
        }
        if let Some(ready) = self.lane.ready.filter(|&ready| ready > 64) {
            return Err(Wrong::new("lane.ready", format!("lane.ready is {ready}; expected a number from 0 to 64")));
        }
        if let Some(frames) = self.lane.frames
            && (!frames.is_power_of_two() || frames < 256)
        {
            let message = format!("lane.frames is {frames}; expected a power of two, at least 256");
            return Err(Wrong::new("lane.frames", message));
        }
        if let Some(mode) = self.socket.mode
            && mode > 0o777
        {
            let message = format!("socket.mode is {mode:#o}; expected an octal number, such as 0o660, up to 0o777");
            return Err(Wrong::new("socket.mode", message));
        }
        if !self.socket.path.is_absolute() {
            let message = format!("socket.path is {}; expected an absolute path", self.socket.path.display());
            return Err(Wrong::new("socket.path", message));
        }
        if let Some(name) = self.interfaces.iter().find(|n| !is_link_name(n)) {
            return Err(Wrong::new("interfaces", format!("{name:?} is no interface name")));
        }
        if let Some(name) = self.untagged.iter().find(|n| !is_link_name(n)) {
            return Err(Wrong::new("untagged", format!("{name:?} is no interface name")));
        }
        if let Some(name) = self.attach_by_interface.keys().find(|n| !is_link_name(n)) {
            return Err(Wrong::new("attach_by_interface", format!("{name:?} is no interface name")));
        }
        for (name, group) in &self.groups {
            if let Some(priority) = group.realtime.filter(|priority| !(1..=99).contains(priority)) {
                let key = format!("groups.{name}.realtime");
                let message = format!("{key} is {priority}; expected a number from 1 to 99");
                return Err(Wrong::new(key, message));
            }
        }
        if let Some(clock) = &self.clock {
            clock.check()?;
            if clock.servers.is_empty() {
                return Err(Wrong::new("clock", "the clock needs a server to ask: expected [[clock.servers]]"));
            }
        }
        Ok(())
    }

    /// How divert is to be attached to an interface.
    #[must_use]
    pub fn attach_for(&self, interface: &str) -> Attach {
        self.attach_by_interface.get(interface).copied().unwrap_or(self.attach)
    }
}

/// Whether the kernel would take this as the name of a link.
fn is_link_name(name: &str) -> bool {
    !name.is_empty() && name.len() < 16 && !name.contains(|c: char| c == '/' || c == ':' || c.is_whitespace())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ways_to_attach_that_are_of_no_use_are_named() {
        let mut config =
            ServiceConfig::parse("[attach_by_interface]\neth0 = \"tc\"\neth9 = \"native\"\n", Path::new("t")).unwrap();
        let present = ["eth0", "eth1"].map(String::from);
        let idle = |config: &ServiceConfig| {
            config.idle_attachments(&present).into_iter().map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(idle(&config), ["eth9"]);
        config.interfaces = vec!["eth1".into()];
        assert_eq!(idle(&config), ["eth0", "eth9"]);
    }

    fn parse(text: &str) -> Result<ServiceConfig, String> {
        ServiceConfig::parse(text, Path::new("t.toml")).map_err(|e| e.to_string())
    }

    #[test]
    fn nothing_said_means_the_defaults() {
        assert_eq!(parse("").unwrap(), ServiceConfig::default());
    }

    #[test]
    fn unknown_keys_are_refused_with_their_place() {
        let error = parse("attach = \"native\"\n\n[limits]\n  lains = 3\n").unwrap_err();
        assert!(error.starts_with("t.toml:4:3: "), "{error}");
        assert!(error.contains("lains"), "{error}");
        let error = parse("atach = \"native\"").unwrap_err();
        assert!(error.starts_with("t.toml:1:1: ") && error.contains("attach"), "{error}");
    }

    #[test]
    fn wrong_values_say_what_was_expected() {
        let error = parse("attach = \"fast\"").unwrap_err();
        assert!(error.starts_with("t.toml:1:10: ") && error.contains("native"), "{error}");
        assert!(parse("[limits]\nlanes = -1").unwrap_err().starts_with("t.toml:2:9: "));
        for (text, place, part) in [
            ("[limits]\nlanes = 0", "2:9", "from 1 to 4096"),
            ("[lane]\nframes = 1000", "2:10", "a power of two"),
            ("[socket]\n\nmode = 0o1777", "3:8", "up to 0o777"),
            ("socket.path = \"x\"", "1:15", "an absolute path"),
            ("interfaces = [\"a b\"]", "1:14", "no interface name"),
            ("interfaces = \"eth0\"", "1:14", "interfaces is the text \"eth0\"; expected a list"),
            ("attach = 5", "1:10", "one of \"auto\", \"native\""),
            ("limits = 5", "1:10", "expected a table of settings"),
            ("[limits]\nlanes = \"many\"", "2:9", "expected a whole number"),
            ("[limits]\nlanes = 1.5", "2:9", "limits.lanes is the number 1.5; expected a whole number"),
            ("[socket]\npath = 1", "2:8", "text in quotes"),
            ("[attach_by_interface]\neth1 = true", "2:8", "one of \"auto\""),
            ("attach_by_interface = 1", "1:23", "a table of names"),
            ("attach = ", "1:10", "value"),
            ("[clock]\npol = 1", "2:1", "unknown key `pol`"),
            ("[clock]\npoll = \"1\"", "2:8", "expected a number"),
            ("[clock]\npoll = 0", "2:8", "clock.poll must be 0.05 to 86400 seconds"),
            ("[clock]\nshm_unit = 256", "2:12", "from 0 to 255"),
            ("[clock]\nstep_threshold = 0", "2:18", "0.001 to 10 seconds"),
            ("[clock]\nsmeared = 1", "2:11", "true or false"),
            ("[clock]\ntransmit = \"x\"", "2:12", "`nonce` or `counter`"),
            ("[clock]\nmetrics = \"9100\"", "2:11", "socket address"),
            ("[clock]\n[[clock.servers]]\nhost = \"a\"\nport = 70000", "4:8", "from 0 to 65535"),
            ("\n[clock]\npoll = 4", "2:1", "[[clock.servers]]"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.starts_with(&format!("t.toml:{place}: ")) && error.contains(part), "{text}: {error}");
            assert!(!error.contains('\n'), "one line: {error}");
        }
    }

    #[test]
    fn single_interfaces_may_differ() {
        let config = parse("attach = \"generic\"\n[attach_by_interface]\neth1 = \"tc\"\n").unwrap();
        assert_eq!((config.attach_for("eth0"), config.attach_for("eth1")), (Attach::Generic, Attach::Tc));
    }

    #[test]
    fn a_missing_file_is_an_error_only_if_it_was_named() {
        assert!(ServiceConfig::load(Some(Path::new("/nonexistent/tickwire.toml"))).is_err());
    }

    #[test]
    fn the_packaged_example_states_the_defaults() {
        let text = include_str!("../../../packaging/tickwire.toml");
        assert_eq!(parse(text).unwrap(), ServiceConfig::default());
        // The commented settings are real ones: without their "#" the file still parses, and names
        // every key.
        let uncommented: String = text
            .lines()
            .map(|line| {
                let setting = |rest: &&str| rest.starts_with(|c: char| c.is_alphabetic() || c == '[');
                line.strip_prefix("#").filter(setting).unwrap_or(line)
            })
            .fold(String::new(), |all, line| all + line + "\n");
        parse(&uncommented).unwrap();
        // A clock that runs alone knows the service's settings by name.
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), &uncommented).unwrap();
        tickwire_timekeeper::TimekeeperConfig::read(file.path()).unwrap();
        for key in [
            "interfaces",
            "attach",
            "untagged",
            "path",
            "group",
            "mode",
            "lanes",
            "lanes_per_user",
            "flows",
            "flows_per_user",
            "memberships",
            "memberships_per_user",
            "memberships_per_lane",
            "memory_mib",
            "memory_per_user_mib",
            "connections",
            "connections_per_user",
            "requests_per_second",
            "realtime",
            "frames",
            "tcp",
            "listeners",
            "udp",
            "ready",
            "poll",
            "longest_poll",
            "transmit",
            "hardware_stamps",
            "page",
            "metrics",
            "tai_offset",
            "smeared",
            "state",
            "steer_system_clock",
            "step_threshold",
            "shm_unit",
            "host",
            "port",
            "asymmetry",
            "interleaved",
            "leap_seconds",
            "record",
            "listen",
            "allow",
            "rate",
            "burst",
        ] {
            assert!(uncommented.lines().any(|l| l.starts_with(&format!("{key} ="))), "{key} is not in the example");
        }
        // These stay comments: a program that is built without NTS refuses them.
        for key in ["nts", "nts_port", "nts_ca"] {
            assert!(text.lines().any(|l| l.starts_with(&format!("#     {key} ="))), "{key} is not in the example");
        }
    }
}
