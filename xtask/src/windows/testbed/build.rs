//! The programs of the testbed: the controller, the node for Linux, and `tickwire.exe` with its
//! library.

use crate::windows::build::{PROGRAM, Profile, example_for_linux, for_windows};
use anyhow::Result;
use std::path::PathBuf;

const CONTROLLER: &str = "other_nodes";
const NODE: &str = "testbed_node";

/// The controller is not measured, and always built as for tests.
pub(super) fn controller() -> Result<PathBuf> {
    Profile::Debug.linux_example(CONTROLLER)
}

pub(super) fn linux_node(profile: Profile) -> Result<PathBuf> {
    profile.linux_example(NODE)
}

/// Builds what runs on Linux.
pub(in crate::windows) fn build_for_linux(profile: Profile) -> Result<()> {
    example_for_linux("tickwire-testbed", CONTROLLER, Profile::Debug)?;
    example_for_linux("tickwire-node", NODE, profile)
}

/// Builds all of them.
pub(super) fn build(profile: Profile) -> Result<()> {
    build_for_linux(profile)?;
    for_windows(&PROGRAM, profile)
}
