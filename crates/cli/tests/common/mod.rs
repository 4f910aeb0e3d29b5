//! Runs the program and returns its exit status and message. No service and no root needed.

use std::process::{Command, Output};

pub(crate) fn tickwire(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwire"));
    command.args(arguments).env("TICKWIRE_SOCKET", "/nonexistent/service.sock");
    command
}

pub(crate) fn done(arguments: &[&str]) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = tickwire(arguments).output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}
