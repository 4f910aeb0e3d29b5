//! The clock's configuration: the `[clock]` table of the configuration file. Every key is optional.

use crate::leap_table::{self, TableError};
use crate::nts;
use crate::os;
use crate::serve::Serve;
pub use crate::server_config::PolledServer;
use crate::server_config::host_name;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use thiserror::Error;
pub use tickwire_settings::{SettingsError as ConfigError, Wrong};

/// All settings of the clock.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimekeeperConfig {
    /// The servers to poll.
    #[serde(deserialize_with = "servers")]
    pub servers: Vec<PolledServer>,
    /// Seconds between requests.
    pub poll: f64,
    /// At most so many, for servers that are silent or limit the rate.
    pub longest_poll: f64,
    /// The content of a request's transmit timestamp.
    pub transmit: TransmitSetting,
    /// Whether to use the timestamps of network cards.
    pub hardware_stamps: HardwareStamps,
    /// Where the page is.
    pub page: PathBuf,
    /// The file in which the daemon keeps the counter's period across its own restarts. Unset:
    /// beside the page.
    pub state: Option<PathBuf>,
    /// Where Prometheus metrics are served, if at all: an address and port of this host.
    pub metrics: Option<SocketAddr>,
    /// The table of leap seconds: IERS' `leap-seconds.list` or tzdata's `leapseconds`; unset: the
    /// one of the host's time zone data.
    pub leap_seconds: Option<PathBuf>,
    /// TAI - UTC in seconds, if there is no such table.
    pub tai_offset: Option<i32>,
    /// Where to record all exchanges, for `tickwire clock replay`: a file that does not exist yet.
    pub record: Option<PathBuf>,
    /// All servers spread leap seconds over a day (see [`PolledServer::smeared`]).
    pub smeared: bool,
    /// Whether to steer the system clock.
    pub steer_system_clock: bool,
    /// Offset in seconds beyond which the system clock is stepped at the start, not slewed.
    pub step_threshold: f64,
    /// The unit of NTP's shared memory to feed, if any: ntpd and chronyd can read it.
    pub shm_unit: Option<u8>,
    /// Settings of `tickwire clock serve`.
    pub serve: Serve,
}

impl Default for TimekeeperConfig {
    fn default() -> Self {
        Self {
            servers: Vec::new(),
            poll: 1.0,
            longest_poll: 1024.0,
            transmit: TransmitSetting::Nonce,
            hardware_stamps: HardwareStamps::Auto,
            page: tickclock::service_path(),
            state: None,
            metrics: None,
            leap_seconds: None,
            tai_offset: None,
            record: None,
            smeared: false,
            steer_system_clock: false,
            step_threshold: 0.1,
            shm_unit: None,
            serve: Serve::default(),
        }
    }
}

/// The configuration file of the service, which has the clock's settings, too:
/// `/etc/tickwire/tickwire.toml`, and on Windows `Tickwire\tickwire.toml` in the machine's folder
/// for program data.
#[must_use]
pub fn default_file() -> PathBuf {
    os::default_file()
}

/// The whole file. The other settings are the service's, which interprets them; a clock that runs
/// alone only distinguishes them from misspelt names.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct File {
    clock: TimekeeperConfig,
    interfaces: IgnoredAny,
    attach: IgnoredAny,
    attach_by_interface: IgnoredAny,
    untagged: IgnoredAny,
    groups: IgnoredAny,
    socket: IgnoredAny,
    limits: IgnoredAny,
    lane: IgnoredAny,
}

impl TimekeeperConfig {
    /// The `[clock]` table of a file.
    ///
    /// # Errors
    /// It cannot be read, or is wrong.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        tickwire_settings::read(file, |file: &File| file.clock.check()).map(|file| file.clock)
    }

    /// The `[clock]` table of the default file, which need not exist.
    ///
    /// # Errors
    /// It is there, but cannot be read, or is wrong.
    pub fn read_default() -> Result<Self, ConfigError> {
        match Self::read(&default_file()) {
            Err(ConfigError::Read { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            other => other,
        }
    }

    /// Checks the values.
    ///
    /// # Errors
    /// The first invalid one.
    pub fn check(&self) -> Result<(), Wrong> {
        let wrong = |key: &str, wanted: &str| Err(Wrong::new(key, format!("{key} {wanted}")));
        if !(0.05..=86_400.0).contains(&self.poll) {
            return wrong("clock.poll", "must be 0.05 to 86400 seconds");
        }
        if !(self.poll..=864_000.0).contains(&self.longest_poll) {
            return wrong("clock.longest_poll", "must be at least clock.poll, and at most 864000 seconds");
        }
        if self.servers.len() > 64 {
            return wrong("clock.servers", "must be 64 at most");
        }
        for (number, server) in self.servers.iter().enumerate() {
            let wrong = |key: &str, message: String| Err(Wrong::new(format!("clock.servers.{number}.{key}"), message));
            if let Err(what) = host_name(&server.host) {
                // As on the command line.
                let both = PolledServer::named(&server.host).is_ok();
                let hint = if both { " (its port has a key of its own: port = 123)" } else { "" };
                return wrong("host", format!("{what}{hint}"));
            }
            if server.port == 0 {
                return wrong("port", "found the port 0; expected one from 1 to 65535".into());
            }
            if !(-1e6..=1e6).contains(&server.asymmetry) {
                return wrong("asymmetry", "the asymmetry must be within a second (1000000 us)".into());
            }
            if server.nts && !nts::BUILT_IN {
                return wrong("nts", "this program is built without NTS (its cargo feature `nts`)".into());
            }
            if server.nts_port == 0 {
                return wrong("nts_port", "found the port 0; expected one from 1 to 65535".into());
            }
            if server.nts_ca.is_some() && !server.nts {
                return wrong("nts_ca", "certificates are of use with `nts = true` only".into());
            }
            if server.nts_ca.as_ref().is_some_and(|file| !file.is_absolute()) {
                return wrong("nts_ca", "must be an absolute path".into());
            }
        }
        if self.tai_offset.is_some_and(|offset| !(0..=1000).contains(&offset)) {
            return wrong("clock.tai_offset", "must be 0 to 1000 seconds; since 2017 it is 37");
        }
        if !(0.001..=10.0).contains(&self.step_threshold) {
            return wrong("clock.step_threshold", "must be 0.001 to 10 seconds");
        }
        if !self.page.is_absolute() {
            return wrong("clock.page", "must be an absolute path");
        }
        if self.state.as_ref().is_some_and(|state| !state.is_absolute()) {
            return wrong("clock.state", "must be an absolute path");
        }
        self.check_supported()?;
        self.serve.check()
    }
}

impl TimekeeperConfig {
    /// Checks that this operating system has what is asked for.
    ///
    /// # Errors
    /// The first setting that is Linux's only, on another system.
    pub(crate) fn check_supported(&self) -> Result<(), Wrong> {
        let linux_only = [
            (self.steer_system_clock, "clock.steer_system_clock", "the system clock is steered"),
            (self.shm_unit.is_some(), "clock.shm_unit", "NTP's shared memory is fed"),
            (
                self.hardware_stamps == HardwareStamps::Enable,
                "clock.hardware_stamps",
                "network cards are set to stamp packets",
            ),
        ];
        match linux_only.iter().find(|(is_set, ..)| *is_set && cfg!(not(target_os = "linux"))) {
            Some((_, key, what)) => Err(Wrong::new(*key, format!("{key}: {what} on Linux only; remove this line"))),
            None => Ok(()),
        }
    }

    /// Checks the files that it names and that must exist from the start.
    ///
    /// # Errors
    /// The table of leap seconds cannot be read or is invalid, or a file of certificates has none
    /// that can be trusted.
    pub fn check_files(&self) -> Result<(), FileError> {
        self.leap_seconds.as_deref().map_or(Ok(()), |path| leap_table::parse(path).map(|_| ()))?;
        self.check_trust(|server| server.nts_ca.is_some())
    }

    /// Checks that there are trusted certificates for those of the servers that are polled with
    /// NTS.
    pub(crate) fn check_trust(&self, of: impl Fn(&PolledServer) -> bool) -> Result<(), FileError> {
        for server in self.servers.iter().filter(|server| server.nts && of(server)) {
            nts::check_roots(server.nts_ca.as_deref())
                .map_err(|failure| FileError::Trust(server.host.clone(), failure.to_string()))?;
        }
        Ok(())
    }
}

/// Why a file that the configuration needs cannot be used.
#[derive(Debug, Error)]
pub enum FileError {
    /// The table of leap seconds.
    #[error(transparent)]
    LeapSeconds(#[from] TableError),
    /// The trusted certificates for a server.
    #[error("the server {0} cannot be asked with NTS: {1}")]
    Trust(String, String),
}

/// A list of servers. For names only, or one table that is no list, the error shows the right
/// syntax.
fn servers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PolledServer>, D::Error> {
    struct List;

    impl<'de> Visitor<'de> for List {
        type Value = Vec<PolledServer>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of servers, each as [[clock.servers]] with a line host = \"ntp.example\"")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
            let mut servers = Vec::new();
            while let Some(server) = list.next_element()? {
                servers.push(server);
            }
            Ok(servers)
        }
    }
    deserializer.deserialize_seq(List)
}

/// The content of a request's transmit timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum TransmitSetting {
    /// An unpredictable number.
    #[default]
    Nonce,
    /// The counter, as in the paper of 2015.
    Counter,
}

impl TryFrom<String> for TransmitSetting {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        match word.as_str() {
            "nonce" => Ok(Self::Nonce),
            "counter" => Ok(Self::Counter),
            _ => Err(format!("unknown value `{word}`, expected `nonce` or `counter`")),
        }
    }
}

/// Whether to use the timestamps of network cards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum HardwareStamps {
    /// If a card is set to make them already.
    #[default]
    Auto,
    /// Also set cards to make them, and restore the setting at the end. Needs CAP_NET_ADMIN.
    Enable,
    /// Not at all.
    Never,
}

impl TryFrom<String> for HardwareStamps {
    type Error = String;

    fn try_from(word: String) -> Result<Self, String> {
        match word.as_str() {
            "auto" => Ok(Self::Auto),
            "enable" => Ok(Self::Enable),
            "never" => Ok(Self::Never),
            _ => Err(format!("unknown value `{word}`, expected `auto`, `enable` or `never`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_checked() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("tickwire.toml");
        let read = |text: &str| {
            std::fs::write(&file, text).unwrap();
            TimekeeperConfig::read(&file).map_err(|error| error.to_string())
        };
        assert_eq!(read("interfaces = ['eth0']\n").unwrap(), TimekeeperConfig::default());
        let config = read("[clock]\npoll = 4\n[[clock.servers]]\nhost = 'a.example'\nasymmetry = -2.5\n").unwrap();
        assert_eq!(
            (config.poll, config.servers[0].host.as_str(), config.servers[0].asymmetry),
            (4.0, "a.example", -2.5)
        );
        assert!(
            read("[clock]\nservers = 3\n")
                .unwrap_err()
                .contains("tickwire.toml:2:11: clock.servers is the number 3; expected a list")
        );
        assert!(read("[clock]\npol = 3\n").unwrap_err().contains("tickwire.toml:2:1: unknown key `pol`, expected "));
        for (text, place, part) in [
            ("[clok]\npoll = 3\n", "1:2", "unknown key `clok`, expected "),
            ("[clock]\ntai_offset = 100000\n", "2:14", "clock.tai_offset must be 0 to 1000 seconds"),
            (
                "[clock]\n[[clock.servers]]\nhost = 'a'\n[[clock.servers]]\nhost = 'http://b'\n",
                "5:8",
                "is no name of a host",
            ),
            ("[clock]\n[[clock.servers]]\nhost = ''\n", "3:8", "is no name of a host"),
            ("[clock]\n[[clock.servers]]\nhost = 'a:123'\n", "3:8", "2001:db8::1 (its port has a key of its own"),
            ("[clock]\nmetrics = 'localhost:9101'\n", "2:11", "this is no socket address; expected one such as"),
            ("[clock]\n[[clock.servers]]\nhost = 'a'\nport = 0\n", "4:8", "from 1 to 65535"),
            ("[clock]\n[[clock.servers]]\nhost = 'a'\nasymmetry = 1e9\n", "4:13", "within a second"),
            ("[clock]\n[[clock.servers]]\nhost = 'a'\nnts_port = 0\n", "4:12", "from 1 to 65535"),
            ("[clock]\n[[clock.servers]]\nhost = 'a'\nnts_ca = '/ca.pem'\n", "4:10", "with `nts = true` only"),
            ("[clock]\n[[clock.servers]]\nport = 1\n", "2:1", "the key `host` is missing"),
            (
                "[clock]\nservers = ['a', 'b']\n",
                "2:12",
                "clock.servers.0 is the text \"a\"; expected a server as [[clock.servers]]",
            ),
            (
                "[clock.servers]\nhost = 'a'\n",
                "1:1",
                "clock.servers is a table; expected a list of servers, each as [[clock.servers]]",
            ),
            (
                "[clock]\nsteer_system_clock = 'yes'\n",
                "2:22",
                "clock.steer_system_clock is the text \"yes\"; expected true or false",
            ),
            (
                "[clock]\nsteer_system_clock = yes\n",
                "2:22",
                "clock.steer_system_clock is the text \"yes\"; expected true or false",
            ),
            (
                "[clock]\nhardware_stamps = never\n",
                "2:19",
                "clock.hardware_stamps is text without quotes; expected \"never\"",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(&format!("tickwire.toml:{place}: ")) && error.contains(part), "{error}");
        }
        assert!(read("[clock]\npoll = nan\n").unwrap_err().contains("clock.poll must be"));
        assert!(read("[clock]\npage = 'clock'\n").unwrap_err().contains("clock.page must be an absolute path"));
        assert!(read("[clock]\ntransmit = 'x'\n").unwrap_err().contains("expected `nonce` or `counter`"));
        assert_eq!(read("[clock]\ntransmit = 'counter'\n").unwrap().transmit, TransmitSetting::Counter);
        let enable = read("[clock]\nhardware_stamps = 'enable'\n");
        let linux_only =
            ["steer_system_clock = true", "shm_unit = 2"].map(|line| read(&format!("[clock]\n{line}\n")).err());
        if cfg!(windows) {
            for error in linux_only.into_iter().chain([enable.err()]) {
                assert!(error.as_ref().is_some_and(|error| error.contains("on Linux only")), "{error:?}");
            }
        } else {
            assert_eq!(linux_only, [None, None]);
            assert_eq!(enable.unwrap().hardware_stamps, HardwareStamps::Enable);
        }
        let error = read("[clock]\nhardware_stamps = 'on'\n").unwrap_err();
        assert!(error.contains("toml:2:19: ") && error.contains("expected `auto`, `enable` or `never`"), "{error}");
        let server = read("[clock]\n[[clock.servers]]\nhost = 'a'\nnts = true\nnts_ca = '/ca.pem'\n");
        if nts::BUILT_IN {
            let config = server.unwrap();
            assert_eq!((config.servers[0].nts, config.servers[0].nts_port), (true, 4460));
            assert!(config.check_files().unwrap_err().to_string().contains("/ca.pem: No such file"));
        } else {
            assert!(server.unwrap_err().contains("4:7: this program is built without NTS"));
        }
        let serve = read("[clock.serve]\nlisten = ['192.0.2.1', '[::1]:99']\nallow = ['10.0.0.0/8']\nrate = 0\n")
            .unwrap()
            .serve;
        assert_eq!(serve.listen, ["192.0.2.1:123".parse().unwrap(), "[::1]:99".parse().unwrap()]);
        assert!(serve.allow[0].contains("10.9.8.7".parse().unwrap()) && serve.rate == 0.0 && serve.burst == 64);
        let error = read("[clock.serve]\nlisten = ['eth0']\n").unwrap_err();
        assert!(error.contains("toml:2:10: ") && error.contains("expected an address of this host"), "{error}");
        assert!(read("[clock.serve]\nallow = ['lan']\n").unwrap_err().contains("is no network"));
        assert!(read("[clock.serve]\nrate = -1\n").unwrap_err().contains("clock.serve.rate must be"));
        assert!(
            TimekeeperConfig::read(Path::new("/nowhere")).unwrap_err().to_string().ends_with("cannot read /nowhere")
        );
    }
}
