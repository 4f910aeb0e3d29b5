//! The tests of libuv: one program, which runs the named test and its servers as processes of their
//! own.

use super::Options;
use super::programs::{Suite, Tally, Test};
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// The name of the built program.
const PROGRAM: &str = "uv_run_tests";

/// Tests that are worse by design.
const KNOWN: &[(&str, &str)] = &[];

/// The program in the folder that libuv was built in.
fn program(folder: &Path) -> Result<PathBuf> {
    let program = folder.join(PROGRAM);
    if !program.is_file() {
        bail!(
            "{} is not there: libuv's tests have to be built first (docs/compatibility.md says how)",
            program.display()
        );
    }
    Ok(program.canonicalize()?)
}

/// The requested tests, from the folder in which libuv was built.
pub(super) fn tests(folder: &Path, options: &Options) -> Result<Vec<Test>> {
    let program = program(folder)?;
    let list = tickwire_lab::run(&["env", "UV_RUN_AS_ROOT=1", &program.to_string_lossy(), "--list"])?;
    listed(&program, &list, options)
}

/// The requested ones of the tests that the program lists.
fn listed(program: &Path, list: &str, options: &Options) -> Result<Vec<Test>> {
    // A test's servers follow its name. Tests of files (`fs_`) are left out.
    let names = list.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| !name.starts_with("fs_"));
    options.choose(names.map(|name| test(program, name)).collect())
}

/// Runs the tests from the folder in which libuv was built.
pub(super) fn run(folder: &Path, options: &Options) -> Result<()> {
    let tests = tests(folder, options)?;
    // The lab runs as root.
    let environment = vec![("UV_RUN_AS_ROOT", "1".into())];
    Suite { read, environment, known: KNOWN }.compare(&tests, options.only.is_empty())
}

fn test(program: &Path, name: &str) -> Test {
    let group = name.split('_').next().unwrap_or(name).to_owned();
    Test { name: name.to_owned(), group, program: program.to_owned(), arguments: vec![name.into()] }
}

fn read(said: &str, well: bool) -> Tally {
    let mut tally = Tally::default();
    let how = match well {
        _ if said.contains("# SKIP") => &mut tally.skipped,
        true => &mut tally.ok,
        false => &mut tally.failed,
    };
    *how = 1;
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_no_test_has_are_refused() {
        let list = "tcp_ping_pong  tcp4_echo_server\nudp_connect\nfs_read\n";
        let chosen = |only: &[&str]| {
            let options =
                Options { ltp: None, libuv: None, only: only.iter().map(|word| (*word).to_owned()).collect() };
            let names = |tests: Vec<Test>| tests.into_iter().map(|test| test.name).collect::<Vec<_>>();
            listed(Path::new(PROGRAM), list, &options).map(names).map_err(|error| error.to_string())
        };
        assert_eq!(chosen(&[]).unwrap(), ["tcp_ping_pong", "udp_connect"]);
        assert_eq!(chosen(&["ping"]).unwrap(), ["tcp_ping_pong"]);
        assert_eq!(chosen(&["read", "echo"]).unwrap_err(), "no test's name contains read or echo");
    }
}
