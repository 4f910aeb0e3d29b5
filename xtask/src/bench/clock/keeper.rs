//! Clock daemons: ours and its rivals.

use super::topology::program;
use crate::deps::{CHRONY, NTPSEC};
use crate::windows::{self, WineHost};
use crate::{deps, workspace};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use tickwire_lab::{LabHost, Process};

/// A clock daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Keeper {
    /// Ours, read from its page.
    Tickwire,
    /// Ours as a Windows program under Wine, whose page is read in the same way.
    TickwireWindows,
    /// chronyd, which steers the kernel's clock.
    Chronyd,
    /// ClockBound 3, read by its own library; it asks every 16 s whatever the scenario says, and
    /// steers the kernel's clock too.
    Clockbound,
    /// ntpd of NTPsec, which steers the kernel's clock.
    Ntpsec,
}

/// The release of ClockBound, and where it is installed below the build directory.
const CLOCKBOUND: &str = "3.0.0-rc.0";
const OTHER_CLOCKS: &str = "other-clocks";

impl Keeper {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tickwire => "tickwire",
            Self::TickwireWindows => "tickwire, Windows",
            Self::Chronyd => "chronyd",
            Self::Clockbound => "clockbound",
            Self::Ntpsec => "ntpsec",
        }
    }

    /// Whether the system clock has to be set back after it.
    pub(super) fn steers(self) -> bool {
        !self.is_ours()
    }

    /// Whether it is read from a page of ours.
    pub(super) fn is_ours(self) -> bool {
        matches!(self, Self::Tickwire | Self::TickwireWindows)
    }

    /// Installs it, or builds ours for Windows; as the building user.
    pub(super) fn install(self) -> Result<()> {
        match self {
            Self::Tickwire => Ok(()),
            Self::TickwireWindows => windows::build_clock_daemon(),
            Self::Chronyd => deps::install(&[CHRONY]),
            Self::Ntpsec => deps::install(&[NTPSEC]),
            Self::Clockbound => {
                if clockbound()?.exists() {
                    return Ok(());
                }
                let mut cargo = workspace::cargo();
                cargo.args(["install", "--locked", "--features", "daemon", "--version", CLOCKBOUND, "--root"]);
                workspace::run(cargo.arg(other_clocks()?).arg("clock-bound"))
            }
        }
    }

    /// What has to run on a host before it starts there.
    pub(super) fn prepare(self, host: &LabHost) -> Result<Option<WineHost>> {
        (self == Self::TickwireWindows).then(|| WineHost::without_card(host)).transpose()
    }

    /// Starts it on a host, so that it follows `server`; in Wine, if that was prepared for it.
    pub(super) fn start(
        self,
        host: &LabHost,
        wine: Option<&WineHost>,
        directory: &Path,
        server: &str,
        poll: u32,
    ) -> Result<Process> {
        let file = |name: &str| directory.join(name).to_string_lossy().into_owned();
        let log2 = poll.ilog2();
        let configured = |name: &str, text: &str| -> Result<String> {
            std::fs::write(file(name), text).with_context(|| format!("cannot write {name}"))?;
            Ok(file(name))
        };
        match self {
            Self::Tickwire => {
                host.spawn(&[&program("truth")?, "keep", server, &file("page"), "--poll", &poll.to_string()])
            }
            Self::TickwireWindows => {
                let page = windows::windows_path(&directory.join("page"));
                let wine = wine.context("Wine was not prepared")?;
                let poll = poll.to_string();
                let options = ["clock", "run", "--server", server, "--poll", &poll, "--page", &page];
                wine.spawn(&windows::clock_daemon()?, &options)
            }
            Self::Chronyd => {
                let text = format!(
                    "server {server} minpoll {log2} maxpoll {log2} iburst xleave\ncmdport 0\nbindcmdaddress /\n\
                     pidfile {}\n",
                    file("chronyd.pid")
                );
                host.spawn(&["chronyd", "-d", "-u", "root", "-f", &configured("chrony.conf", &text)?])
            }
            Self::Clockbound => {
                let text = format!("[[sources.ntp]]\nserver = \"{server}\"\n");
                let clockbound = clockbound()?.to_string_lossy().into_owned();
                host.spawn(&[&clockbound, "--configuration", &configured("clockbound.toml", &text)?])
            }
            Self::Ntpsec => {
                let text = format!(
                    "server {server} iburst minpoll {log2} maxpoll {log2}\ndriftfile {}\nlogfile {}\n",
                    file("ntp.drift"),
                    file("ntp.log")
                );
                host.spawn(&["ntpd", "-n", "-g", "-c", &configured("ntp.conf", &text)?, "-p", &file("ntp.pid")])
            }
        }
    }
}

fn other_clocks() -> Result<PathBuf> {
    Ok(workspace::target()?.join(OTHER_CLOCKS))
}

fn clockbound() -> Result<PathBuf> {
    Ok(other_clocks()?.join("bin/clockbound"))
}
