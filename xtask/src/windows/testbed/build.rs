//! The programs of the testbed: the controller, the node for Linux, and `tickwire.exe` with its
//! library.

use crate::windows::{TARGET, cross};
use crate::workspace;
use anyhow::Result;
use std::path::PathBuf;

/// How programs are built. The controller is not measured, and always of the profile for
/// development.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::windows) enum Profile {
    /// As tests are.
    Debug,
    /// As users have them.
    Release,
}

impl Profile {
    pub(super) const fn of(is_release: bool) -> Self {
        if is_release { Self::Release } else { Self::Debug }
    }

    pub(super) fn is_release(self) -> bool {
        self == Self::Release
    }

    const fn folder(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Release => "release",
        }
    }

    pub(super) fn controller(self) -> Result<PathBuf> {
        Ok(workspace::target()?.join("debug/examples/other_nodes"))
    }

    pub(super) fn linux_node(self) -> Result<PathBuf> {
        Ok(workspace::target()?.join(self.folder()).join("examples/testbed_node"))
    }

    /// A file that is built for Windows.
    pub(in crate::windows) fn windows(self, name: &str) -> Result<PathBuf> {
        Ok(workspace::target()?.join(TARGET).join(self.folder()).join(name))
    }
}

/// Builds them.
pub(in crate::windows) fn build(profile: Profile) -> Result<()> {
    let node = ["--package", "tickwire-node", "--example", "testbed_node"];
    let controller = ["--package", "tickwire-testbed", "--example", "other_nodes"];
    build_one(&controller, false, Profile::Debug)?;
    build_one(&node, false, profile)?;
    build_program(profile)
}

/// Builds what puts a Windows program on a lane: library, launcher and service.
pub(in crate::windows) fn build_lane(profile: Profile) -> Result<()> {
    build_one(&["--package", "tickwire-winsock"], true, profile)?;
    let service = ["--package", "tickwire-service-windows", "--package", "tickwire-launcher-windows", "--examples"];
    build_one(&service, true, profile)
}

/// Builds `tickwire.exe`, and its library.
pub(in crate::windows) fn build_program(profile: Profile) -> Result<()> {
    build_one(&["--package", "tickwire-winsock", "--package", "tickwire"], true, profile)
}

fn build_one(what: &[&str], for_windows: bool, profile: Profile) -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--locked"]).args(what).args(profile.is_release().then_some("--release"));
    workspace::run(if for_windows { cross(&mut cargo) } else { &mut cargo })
}
