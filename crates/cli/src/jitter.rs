//! `tickwire jitter`: latency profiles of transmission.

use crate::args::jitter::{Jitter, JitterLoad};
use crate::study::{Study, command, step, tell};
use anyhow::Result;
use std::net::SocketAddr;
use std::process::ExitCode;
use tickwire_jitter::{JitterOptions, JitterStudyError, MachineLoad, Sender, Target, Wait, html, study, table};
use tickwire_show::output;
use tickwire_show::usage::UsageError;

pub(crate) fn run(arguments: &Jitter) -> Result<ExitCode> {
    if let Some(to) = arguments.send {
        return send(to, arguments);
    }
    let options = options(arguments);
    let begun = Study::begin(arguments.html.as_deref(), arguments.json)?;
    tell(&format!("this takes about {} s", options.estimate().as_secs().max(1)));
    let found = study(&options, step).map_err(|error| match error {
        JitterStudyError::Usage { option, what } => UsageError::of(option, what).into(),
        error => anyhow::Error::from(error),
    })?;
    begun.end(|| html(&found, &command()), || &found, || table(&found))?;
    Ok(ExitCode::SUCCESS)
}

fn options(arguments: &Jitter) -> JitterOptions {
    let target = match (&arguments.interface, arguments.to) {
        (Some(interface), Some(to)) => Target::Card { interface: interface.clone(), to },
        _ => Target::Lab,
    };
    let load = |load: &JitterLoad| match load {
        JitterLoad::None => MachineLoad::None,
        JitterLoad::Cpu => MachineLoad::Cpu,
        JitterLoad::Disk => MachineLoad::Disk,
        JitterLoad::CpuDisk => MachineLoad::CpuDisk,
        JitterLoad::DiskSerial => MachineLoad::DiskSerial,
    };
    JitterOptions {
        samples: arguments.samples,
        size: arguments.size,
        target,
        serial: arguments.serial.clone(),
        loads: arguments.loads.iter().map(load).collect(),
        directory: std::env::current_dir().unwrap_or_else(|_| ".".into()),
    }
}

/// The sender of a lab: one run, reported in one line.
fn send(to: SocketAddr, arguments: &Jitter) -> Result<ExitCode> {
    let mut sender = Sender::open(to, arguments.size)?;
    if arguments.stamps {
        sender.stamp(None)?;
    }
    let wait = if arguments.sleep { Wait::Sleep } else { Wait::Watch };
    let (messages, socket) = sender.transmit(wait, arguments.samples)?;
    output::print(&(serde_json::to_string(&messages)? + "\n"))?;
    // The parent process inspects the socket's lane now. It closes our standard input afterwards,
    // or when it dies.
    std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    drop(socket);
    Ok(ExitCode::SUCCESS)
}
