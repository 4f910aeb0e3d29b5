//! What comes before everything that runs the programs of a release build in the lab.

use crate::{deps, workspace};
use anyhow::Result;
use tickwire_lab::tools::DIRECTORY_VARIABLE;

/// Whether this process is root's already, with the built programs in its environment.
pub(crate) fn is_done() -> bool {
    std::env::var_os(DIRECTORY_VARIABLE).is_some()
}

/// Asks for root's password, if it is wanted, installs the tools, builds the programs, and whatever
/// `also` does, and becomes this program again, as root. Returns only if something of that fails.
pub(crate) fn lab(also: impl FnOnce() -> Result<()>) -> Result<()> {
    workspace::ask_for_root()?;
    deps::install(&deps::EVERYTHING)?;
    let build = workspace::build_release()?;
    also()?;
    workspace::again_as_root(&build)
}
