//! What cargo builds for Windows programs and for the lab.
//!
//! A task names all that it needs in one build. Cargo compiles a package once for each set of its
//! features, and which set that is depends on the other packages of the same build.

use super::{TARGET, cross};
use crate::workspace;
use anyhow::Result;
use std::path::PathBuf;

/// How programs are built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Profile {
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

    /// A file that is built for Windows.
    pub(super) fn windows(self, name: &str) -> Result<PathBuf> {
        Ok(workspace::target()?.join(TARGET).join(self.folder()).join(name))
    }

    /// An example that is built for Linux.
    pub(super) fn linux_example(self, name: &str) -> Result<PathBuf> {
        Ok(workspace::target()?.join(self.folder()).join("examples").join(name))
    }
}

/// What a task needs for Windows: the programs and libraries of packages, and examples of them.
pub(super) struct Needs {
    packages: &'static [&'static str],
    examples: &'static [&'static str],
}

/// `tickwire.exe`, and its library.
pub(super) const PROGRAM: Needs = Needs { packages: &["tickwire", "tickwire-winsock"], examples: &[] };

/// What puts a Windows program on a lane: library, launcher and service.
pub(super) const LANE: Needs = Needs {
    packages: &["tickwire-winsock", "tickwire-launcher-windows", "tickwire-service-windows"],
    examples: &["launch", "lab_service"],
};

/// All that the cases of the lab need.
pub(super) const LAB: Needs = Needs {
    packages: &[
        "tickwire",
        "tickwire-winsock",
        "tickwire-launcher-windows",
        "tickwire-service-windows",
        "tickwire-card-windows",
        "tickwire-timekeeper",
        "tickclock",
    ],
    examples: &["launch", "lab_service", "lab_echo", "windivert_filters", "mio_echo", "keep"],
};

/// Builds what is needed for Windows. As users have it, programs and libraries are built without
/// the features that examples add to what they depend on.
pub(super) fn for_windows(needs: &Needs, profile: Profile) -> Result<()> {
    let packages = || needs.packages.iter().flat_map(|package| ["--package", package]);
    let examples = || needs.examples.iter().flat_map(|example| ["--example", example]);
    let programs = ["--lib", "--bins"];
    if profile.is_release() && !needs.examples.is_empty() {
        build(packages().chain(programs), true, profile)?;
        return build(packages().chain(examples()), true, profile);
    }
    build(packages().chain(programs).chain(examples()), true, profile)
}

/// Builds an example of a package for Linux. As tests are, it is built with the features that
/// packages have in a test of the workspace.
pub(super) fn example_for_linux(package: &str, example: &str, profile: Profile) -> Result<()> {
    let selected: &[&str] = if profile.is_release() { &["--package", package] } else { &["--workspace"] };
    build(selected.iter().copied().chain(["--example", example]), false, profile)
}

fn build<'a>(what: impl Iterator<Item = &'a str>, for_windows: bool, profile: Profile) -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--locked"]).args(what).args(profile.is_release().then_some("--release"));
    workspace::run(if for_windows { cross(&mut cargo) } else { &mut cargo })
}
