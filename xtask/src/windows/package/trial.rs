//! The zip is unpacked into an empty prefix, and its first commands run there. (What they do on a
//! lane is tried in the lab: `cargo xtask windows lab`.)

use super::{CLOCK_IMPORTS, LIBRARY, PROGRAM, wine};
use crate::windows::lab_programs;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

pub(super) fn run(zip: &Path, name: &str) -> Result<()> {
    let prefix = zip.with_file_name("prefix");
    fs::create_dir_all(&prefix).context("cannot create a prefix")?;
    wine::make_at(&prefix)?;
    let wine = wine::Wine::at(&prefix);
    let folder = prefix.join("drive_c/Program Files");
    let mut unpack = Command::new("python3");
    workspace::run(unpack.args(["-m", "zipfile", "-e"]).arg(zip).arg(&folder))?;
    let program = folder.join(name).join(PROGRAM);
    let done = |arguments: &[&str], status: i32, words: &[&str]| -> Result<()> {
        let Output { status: got, stdout, stderr } =
            wine.run(&program).args(arguments).output().with_context(|| format!("cannot run {arguments:?}"))?;
        let said = String::from_utf8_lossy(&[stdout, stderr].concat()).into_owned();
        let is_so = got.code() == Some(status) && words.iter().all(|word| said.contains(word));
        ensure!(is_so, "{arguments:?} ended with {got}, not {status} and {words:?}: {said}");
        println!("tickwire {}: exit status {status}, as expected:\n{said}", arguments.join(" "));
        Ok(())
    };
    // The library beside the program is found to be of its build. There is neither driver nor
    // service.
    let library = format!("{LIBRARY}, of this version");
    done(&["doctor"], 1, &[&library, "MISSING  driver", "MISSING  service", "verdict: no program"])?;
    done(&["service", "--install"], 0, &["the service Tickwire is installed"])?;
    done(&["service", "--install"], 1, &["there is a service Tickwire already"])?;
    done(&["service", "--uninstall"], 0, &["the service Tickwire is removed"])?;
    let page = r"C:\ProgramData\Tickwire\clock";
    done(&["clock", "status"], 1, &[&format!("no clock daemon answers for {page}: start `tickwire service`")])?;
    done(&["clock", "read"], 1, &[&format!("there is no clock at {page}")])?;
    done(&["help", "capture"], 0, &["Exit status:"])?;
    links(&wine, &folder.join(name))?;
    // The program's own exit status, after one sentence.
    done(
        &["run", "--", "cmd.exe", "/c", "exit 3"],
        3,
        &["runs on the kernel's network stack, polled: no service answers"],
    )?;
    done(&["run", "--require", "--", "cmd.exe", "/c", "exit 3"], 69, &["was not started: no service answers"])
}

/// A C program is built with what is in the zip, and loads the library from there.
fn links(wine: &wine::Wine, folder: &Path) -> Result<()> {
    let program = folder.join("clock.exe");
    lab_programs::build_clock_with(folder, &folder.join(CLOCK_IMPORTS), &program)?;
    let output = wine.run(&program).output().context("cannot run the C program")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(2) && said.contains("expected: sample"), "the C program: {output:?}");
    println!("a C program is built with tickclock.h and {CLOCK_IMPORTS}, and loads tickclock.dll");
    Ok(())
}
