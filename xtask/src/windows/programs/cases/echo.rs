//! Programs that echo, and programs that check what is echoed.

use super::{file, round_trip, script};
use crate::windows::lab_programs;
use crate::windows::programs::hosts::{ProgramRun, windows_path};
use crate::windows::programs::outcome::CaseFigure;
use crate::windows::programs::package::{self, WindowsPackage};
use anyhow::{Result, ensure};
use std::time::Duration;
use tickwire_lab::Process;

const PORT: u16 = 7;

/// Round trips of each kind, and the bytes of a stream.
const ROUND_TRIPS: u64 = 500;
const BYTES: u64 = 4_000_000;

/// Each round trip of a datagram and of a message, and the stream both ways.
pub(super) const LEAST: u64 = 4 * ROUND_TRIPS + 2 * BYTES / 1448;

const TIMEOUT: Duration = Duration::from_secs(60);

/// A runtime, and the program that it runs.
pub(super) struct Runtime {
    package: WindowsPackage,
    executable: &'static str,
    /// Below the package's folder, or a script.
    program: EchoProgram,
    environment: &'static [(&'static str, &'static str)],
}

enum EchoProgram {
    OfPackage(&'static str),
    Script(&'static str),
}

pub(super) const NODE: Runtime = Runtime {
    package: package::NODE,
    executable: "package/bin/node.exe",
    program: EchoProgram::Script("echo.js"),
    // Wine's prefixes have an old version of Windows.
    environment: &[("NODE_SKIP_PLATFORM_CHECK", "1")],
};
pub(super) const BUN: Runtime = Runtime {
    package: package::BUN,
    executable: "package/bin/bun.exe",
    program: EchoProgram::Script("echo.js"),
    environment: &[],
};
pub(super) const DOTNET: Runtime = Runtime {
    package: package::DOTNET,
    executable: "dotnetcore2/bin/dotnet.exe",
    program: EchoProgram::OfPackage("Echo.dll"),
    environment: &[("DOTNET_SYSTEM_GLOBALIZATION_INVARIANT", "1"), ("DOTNET_CLI_TELEMETRY_OPTOUT", "1")],
};

impl Runtime {
    fn command(&self, run: &ProgramRun, words: &[&str]) -> Result<std::process::Command> {
        let program = match self.program {
            EchoProgram::OfPackage(below) => file(&self.package, below)?,
            EchoProgram::Script(name) => script(name).into(),
        };
        let program = windows_path(&program);
        let mut command =
            run.windows(&file(&self.package, self.executable)?, &[&[program.as_str()], words].concat())?;
        command.envs(self.environment.iter().copied());
        Ok(command)
    }
}

/// The runtime as a client of an echo on a Linux kernel.
pub(super) fn client(run: &ProgramRun, runtime: &Runtime) -> Result<CaseFigure> {
    let (there, port) = (run.there(), PORT.to_string());
    let _server = run.peer_server(&["python3", &script("echo.py"), "server", &there, &port], "tcp", PORT)?;
    let words = ["client", &there, &port, &ROUND_TRIPS.to_string(), &BYTES.to_string()];
    let printed = Process::spawn(runtime.command(run, &words)?)?.success(TIMEOUT)?;
    ensure!(printed.contains("done"), "it ended early: {printed}");
    round_trip(&printed)
}

/// The runtime as a server of a client on a Linux kernel, which checks the echo and measures.
pub(super) fn server(run: &ProgramRun, runtime: &Runtime) -> Result<CaseFigure> {
    let (here, port) = (run.here(), PORT.to_string());
    let mut server = run.server(runtime.command(run, &["server", &here, &port])?, "tcp", PORT)?;
    server.wait_for("ready", TIMEOUT)?;
    let words = ["client", &here, &port, &ROUND_TRIPS.to_string(), &BYTES.to_string()];
    let printed = run.peer_client(&[&["python3", &script("echo.py")], &words[..]].concat())?;
    round_trip(&printed)
}

/// The lab's own program with blocking calls.
pub(super) fn plain_client(run: &ProgramRun) -> Result<CaseFigure> {
    let (there, port) = (run.there(), PORT.to_string());
    let _server = run.peer_server(&["python3", &script("echo.py"), "server", &there, &port], "tcp", PORT)?;
    let printed = run.client(&lab_programs::program("plain")?, &["client", &there, &port, "1000"])?;
    ensure!(printed.contains("done"), "it ended early: {printed}");
    round_trip(&printed)
}
