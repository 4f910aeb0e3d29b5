//! `cargo xtask lab`: two hosts to experiment with.

use crate::prepare;
use anyhow::{Context, Result};
use std::io::IsTerminal;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use tickwire_lab::{CableOptions, LabPair, Service, tools};

/// How the lab is made.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Make the hosts only, start no service
    #[arg(long)]
    bare: bool,

    /// MTU of the cable
    #[arg(long, default_value_t = 1500, value_parser = clap::value_parser!(u32).range(1280..=9000))]
    mtu: u32,

    /// Leave checksum and segmentation offload on
    #[arg(long)]
    offload: bool,

    /// Run this in host a instead of a shell; a shell whose input is no terminal runs that as its
    /// script. `on-peer COMMAND` runs a command in host b
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Makes the lab, runs the command or a shell in host a, removes the lab. The exit status is that
/// of the command or script.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !prepare::is_done() {
        return prepare::lab(|| Ok(())).map(|()| ExitCode::SUCCESS);
    }
    with_build(options, &tools::tickwire()?)
}

fn with_build(options: &Options, tickwire: &Path) -> Result<ExitCode> {
    let pair = LabPair::with(&CableOptions { mtu: options.mtu, offload: options.offload, ..CableOptions::default() })?;
    let _services = if options.bare { Vec::new() } else { start(&pair, tickwire)? };
    let shell = std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into());
    let (program, arguments) = match options.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => (shell.clone(), Vec::new()),
    };
    for (host, v4, v6) in [(&pair.a, pair.a_v4(), pair.a_v6()), (&pair.b, pair.b_v4(), pair.b_v6())] {
        eprintln!("host {}: {v4}, {v6}", host.name());
        eprintln!("    ip netns exec {} env TICKWIRE_SOCKET={} {shell}", host.namespace(), host.socket().display());
    }
    eprintln!("program: {}", tickwire.display());
    let interactive = options.command.is_empty() && std::io::stdin().is_terminal();
    let mut command: Command = pair.a.command(&program);
    let mut path = vec![on_peer(&pair)?];
    path.extend(tickwire.parent().map(Path::to_path_buf));
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    command.env("PATH", std::env::join_paths(path)?);
    command.args(arguments).env("PEER", pair.b_v4());
    if interactive {
        prompt(&pair, &shell, &mut command)?;
        // The exit status of an interactive shell is ignored; that of a command or a script is
        // passed on.
        command.status()?;
        return Ok(ExitCode::SUCCESS);
    }
    let status = command.status().with_context(|| format!("cannot run {program}"))?;
    let code = status.code().or_else(|| status.signal().map(|signal| 128 + signal));
    Ok(ExitCode::from(code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)))
}

/// Makes a folder with the program `on-peer`, which runs commands in host b from a shell of host a.
fn on_peer(pair: &LabPair) -> Result<PathBuf> {
    let folder = pair.a.directory().join("bin");
    std::fs::create_dir(&folder)?;
    let (namespace, socket, peer) = (pair.b.namespace(), pair.b.socket(), pair.a_v4());
    let script = format!(
        "#!/bin/sh\nexec ip netns exec {namespace} env TICKWIRE_SOCKET={} PEER={peer} \"$@\"\n",
        socket.display()
    );
    let file = folder.join("on-peer");
    std::fs::write(&file, script)?;
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755))?;
    Ok(folder)
}

/// Makes the shell's prompt name the host.
fn prompt(pair: &LabPair, shell: &str, command: &mut Command) -> Result<()> {
    if Path::new(shell).file_name().is_some_and(|name| name == "bash") {
        // The user's `.bashrc` would override a prompt in the environment.
        let file = pair.a.directory().join("bashrc");
        std::fs::write(&file, "[ -r ~/.bashrc ] && . ~/.bashrc\nPS1=\"(host a) $PS1\"\n")?;
        command.arg("--rcfile").arg(file);
    } else {
        command.env("PS1", "(host a) # ");
    }
    Ok(())
}

fn start(pair: &LabPair, tickwire: &Path) -> Result<Vec<Service>> {
    let options = tickwire_lab::ServiceOptions { program: Some(tickwire.to_path_buf()), ..Default::default() };
    [&pair.a, &pair.b].into_iter().map(|host| Service::start_with(host, &options)).collect()
}
