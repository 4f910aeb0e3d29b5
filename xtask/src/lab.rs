//! `cargo xtask lab`: two hosts to play with.

use crate::{deps, workspace};
use anyhow::Result;
use std::io::{IsTerminal, Read};
use std::process::Command;
use tickwire_lab::tools::DIRECTORY_VARIABLE;
use tickwire_lab::{CableOptions, Pair, Service, tools};

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

    /// Run this in host a instead of a shell
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Makes the lab, runs the command or a shell in host a, removes the lab.
pub(crate) fn run(options: &Options) -> Result<()> {
    if std::env::var_os(DIRECTORY_VARIABLE).is_none() {
        deps::install(&deps::EVERYTHING)?;
        let build = workspace::build_release()?;
        return workspace::again_as_root(&build);
    }
    with_build(options, &tools::tickwire()?)
}

fn with_build(options: &Options, tickwire: &std::path::Path) -> Result<()> {
    let pair = Pair::with(&CableOptions { mtu: options.mtu, offload: options.offload, rate: None })?;
    let _services = if options.bare { Vec::new() } else { start(&pair, tickwire)? };
    let (shell, arguments) = match options.command.split_first() {
        Some((program, arguments)) => (program.clone(), arguments.to_vec()),
        None => (std::env::var("SHELL").unwrap_or_else(|_| "/bin/sh".into()), Vec::new()),
    };
    for (host, v4, v6) in [(&pair.a, pair.a_v4(), pair.a_v6()), (&pair.b, pair.b_v4(), pair.b_v6())] {
        eprintln!("host {}: {v4}, {v6}", host.name());
        eprintln!("    ip netns exec {} env TICKWIRE_SOCKET={} {shell}", host.namespace(), host.socket().display());
    }
    eprintln!("program: {}", tickwire.display());
    if options.command.is_empty() && !std::io::stdin().is_terminal() {
        eprintln!("the lab stays until the end of standard input, or Ctrl-C");
        std::io::stdin().read_to_end(&mut Vec::new())?;
        return Ok(());
    }
    // The shell's own exit status is nobody's business, a command's is.
    let mut command: Command = pair.a.command(&shell);
    if let Some(directory) = tickwire.parent() {
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", directory.display()));
    }
    command.args(arguments).env("PEER", pair.b_v4());
    if options.command.is_empty() {
        command.status().map(drop).map_err(Into::into)
    } else {
        workspace::run(&mut command)
    }
}

fn start(pair: &Pair, tickwire: &std::path::Path) -> Result<Vec<Service>> {
    let options = tickwire_lab::ServiceOptions { program: Some(tickwire.to_path_buf()), ..Default::default() };
    [&pair.a, &pair.b].into_iter().map(|host| Service::start_with(host, &options)).collect()
}
