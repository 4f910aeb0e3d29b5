//! `cargo xtask suites`: third-party tests of sockets, on the kernel and on Tickwire, compared case
//! by case.
//!
//! Such a test connects to itself, and traffic within a host stays on the kernel. So the lab's
//! other host is a mirror: it sends back packets to an address of its own, with source and
//! destination exchanged. The tests reach themselves by that address, and every packet crosses the
//! cable, and the lane, twice.
//!
//! CPython's tests come as a package of Debian's. The other suites are not part of this project: an
//! option names the directory in which one was built.

mod cpython;
mod libuv;
mod ltp;
mod programs;
mod topology;
mod tries;

use crate::{deps, prepare, workspace};
use anyhow::{Result, bail};
use programs::Test;
use std::path::PathBuf;

/// Which tests.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// The folder of the Linux Test Project, built: run its tests of network system calls
    #[arg(long, value_name = "DIR", conflicts_with = "libuv")]
    ltp: Option<PathBuf>,

    /// The folder in which libuv's tests were built: run these
    #[arg(long, value_name = "DIR")]
    libuv: Option<PathBuf>,

    /// Only tests whose name contains one of these
    only: Vec<String>,
}

impl Options {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| name.contains(only))
    }

    /// The requested ones of the tests; an error if there are none.
    fn choose(&self, mut tests: Vec<Test>) -> Result<Vec<Test>> {
        tests.retain(|test| self.wants(&test.name));
        if tests.is_empty() {
            bail!("no test's name contains {}", self.only.join(" or "));
        }
        Ok(tests)
    }
}

/// Runs the tests both ways and reports each case that is worse on Tickwire.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !prepare::is_done() {
        // Checked before the build, which takes long.
        match (&options.ltp, &options.libuv) {
            (Some(folder), _) => ltp::tests(folder, options).map(drop)?,
            (None, Some(folder)) => libuv::tests(folder, options).map(drop)?,
            (None, None) => cpython::chosen(options).map(drop)?,
        }
        workspace::ask_for_root()?;
        deps::install(&deps::EVERYTHING)?;
        if options.ltp.is_none() && options.libuv.is_none() {
            cpython::tests()?;
        }
        let build = workspace::build_release()?;
        return workspace::again_as_root(&build);
    }
    match (&options.ltp, &options.libuv) {
        (Some(folder), _) => ltp::run(folder, options),
        (None, Some(folder)) => libuv::run(folder, options),
        (None, None) => cpython::run(options),
    }
}
