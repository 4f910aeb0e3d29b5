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
    pub(super) fn windows(self, name: &str) -> Result<PathBuf> {
        Ok(workspace::target()?.join(TARGET).join(self.folder()).join(name))
    }
}

/// Builds them.
pub(in crate::windows) fn build(profile: Profile) -> Result<()> {
    let builds: [(&[&str], bool, Profile); 4] = [
        (&["--package", "tickwire-testbed", "--example", "other_nodes"], false, Profile::Debug),
        (&["--package", "tickwire-node", "--example", "testbed_node"], false, profile),
        (&["--package", "tickwire-winsock"], true, profile),
        (&["--package", "tickwire", "--bin", "tickwire"], true, profile),
    ];
    for (what, for_windows, profile) in builds {
        let mut cargo = workspace::cargo();
        cargo.args(["build", "--locked"]).args(what).args(profile.is_release().then_some("--release"));
        workspace::run(if for_windows { cross(&mut cargo) } else { &mut cargo })?;
    }
    Ok(())
}
