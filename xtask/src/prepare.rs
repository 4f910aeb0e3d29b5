//! The preparation of every task that runs the programs of a release build in the lab.

use crate::{deps, workspace};
use anyhow::Result;
use tickwire_lab::tools::DIRECTORY_VARIABLE;

/// Whether this process already runs as root, with the directory of the built programs in its
/// environment.
pub(crate) fn is_done() -> bool {
    std::env::var_os(DIRECTORY_VARIABLE).is_some()
}

/// Asks for the password of sudo if needed, installs the tools, builds the programs, calls `also`,
/// and executes this program again as root. Returns only if one of these fails.
pub(crate) fn lab(also: impl FnOnce() -> Result<()>) -> Result<()> {
    workspace::ask_for_root()?;
    deps::install(&deps::EVERYTHING)?;
    let build = workspace::build_release()?;
    also()?;
    workspace::again_as_root(&build)
}
