//! `tickwire doctor`: is this machine ready? It changes nothing.

mod installation;
mod interface;
mod kernel;
mod processor;
mod system;

use crate::args::doctor::Doctor;
use crate::client::Client;
use crate::stat;
use anyhow::{Context, Result};
use std::path::Path;
use std::process::ExitCode;
use system::System;
use tickwire_show::finding::{Finding, is_ready};
use tickwire_show::output;

/// Prints one line for each check.
pub(crate) fn run(arguments: &Doctor) -> Result<ExitCode> {
    let system = System::this();
    let mut findings = kernel::check(&system);
    findings.extend(kernel::tried(&tickwire_service::trial::trial()));
    findings.extend(installation::check(&arguments.socket.path()));
    findings.extend(processor::check(&system));
    let interfaces = interface::chosen(&system, &arguments.interfaces, &accelerated(&arguments.socket.path()));
    if interfaces.is_empty() {
        findings.push(Finding::improve("interfaces", "none looks physical", "name those to check with --interface"));
    }
    findings.extend(interfaces.iter().flat_map(|name| interface::check(&system, name)));
    let text = if arguments.json {
        serde_json::to_string(&findings).context("cannot print the findings")? + "\n"
    } else {
        findings.iter().map(|finding| format!("{finding}\n")).collect()
    };
    output::print(&text)?;
    Ok(if is_ready(&findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The interfaces that a running service accelerates; none if no service answers.
fn accelerated(socket: &Path) -> Vec<String> {
    let names = Client::connect(socket).and_then(|mut client| stat::interfaces(&mut client));
    names.unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tickwire_show::finding::Verdict;

    /// A tree of files like /proc and /sys.
    pub(crate) fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        root
    }

    pub(crate) fn verdicts(findings: &[Finding]) -> Vec<Verdict> {
        findings.iter().map(|f| f.verdict).collect()
    }
}
