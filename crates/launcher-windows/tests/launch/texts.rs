//! Arguments, environment, folder and standard handles arrive as they were.

use crate::program::{Bed, CODE, VARIABLE, command};
use std::ffi::OsString;
use std::io::Write;
use std::os::windows::ffi::OsStringExt;
use std::process::Stdio;
use tickwire_launcher_windows::Launch;

#[test]
fn arguments_are_read_as_they_were_given() {
    let mut bed = Bed::new("report");
    let texts =
        ["", " ", "a b", "\"", "\\", "a\\", "a b\\", "\\\"", "\\\\\" \\", "ä😀", "a\tb", "--x=\"y z\"", "%PATH%"];
    let mut arguments: Vec<OsString> = texts.map(OsString::from).into();
    // Half of a character, as names of files may have.
    arguments.push(OsString::from_wide(&[0xd83d, 0x20, 0x41]));
    bed.launch.arguments.clone_from(&arguments);
    let program = bed.launch.start().unwrap();
    assert_eq!(program.wait().unwrap(), CODE);
    let report = bed.report();
    assert_eq!(report.arguments[0], bed.launch.program);
    assert_eq!(report.arguments[1..], arguments);
    assert_eq!(report.folder, std::env::current_dir().unwrap());
}

#[test]
fn variables_are_added_and_removed() {
    let variable = |value: Option<&str>| {
        let mut bed = Bed::new("report");
        // Names do not differ by upper and lower case.
        bed.launch.environment.push((VARIABLE.into(), Some("first".into())));
        bed.launch.environment.push((VARIABLE.to_lowercase().into(), value.map(OsString::from)));
        assert_eq!(bed.launch.start().unwrap().wait().unwrap(), CODE);
        bed.report().variable
    };
    assert_eq!(variable(Some("ä=b c")).as_deref(), Some("ä=b c"));
    assert_eq!(variable(None), None);
}

#[test]
fn standard_handles_are_those_of_the_launcher() {
    let bed = Bed::new("launcher echo");
    let piped = || Stdio::piped();
    let mut launcher = command(&bed).stdin(piped()).stdout(piped()).stderr(piped()).spawn().unwrap();
    launcher.stdin.take().unwrap().write_all(b"hello\n").unwrap();
    let output = launcher.wait_with_output().unwrap();
    assert_eq!(output.status.code().unwrap().cast_unsigned(), CODE);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "out hello\n");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "err hello\n");
}

#[test]
fn a_program_is_found_by_its_name() {
    let bed = Bed::new("report");
    let folder = bed.folder.path();
    std::fs::copy(&bed.launch.program, folder.join("found.exe")).unwrap();
    let launch = Launch { program: folder.join("found"), ..bed.launch.clone() };
    assert_eq!(launch.start().unwrap().wait().unwrap(), CODE);
    assert_eq!(bed.report().arguments, [folder.join("found")]);
}
