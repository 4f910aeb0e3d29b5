//! `cargo xtask suites`: other people's tests of sockets, on the kernel and on Tickwire, compared
//! case by case.
//!
//! Such a test talks with itself, and what stays on a host is the kernel's. So in the lab a mirror
//! is the other host: it sends back what comes to an address of its own, with source and
//! destination exchanged, and the tests reach themselves by that address. Everything crosses the
//! cable, and the lane, twice.
//!
//! CPython's tests come as a package of Debian's. The other suites are not part of this project;
//! who has built one says where.

mod bed;
mod cpython;
mod libuv;
mod ltp;
mod programs;
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

    /// Those of the tests that were asked for; an error if there are none.
    fn choose(&self, mut tests: Vec<Test>) -> Result<Vec<Test>> {
        tests.retain(|test| self.wants(&test.name));
        if tests.is_empty() {
            bail!("no test's name contains {}", self.only.join(" or "));
        }
        Ok(tests)
    }
}

/// Runs the tests both ways and tells of each case that is worse on Tickwire.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !prepare::is_done() {
        // Before anything takes long.
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
