//! `tickwire doctor`: is this machine ready? It changes nothing.

mod finding;
mod installation;
mod interface;
mod kernel;
mod processor;
mod system;

use crate::args::doctor::Doctor;
use crate::client::Client;
use crate::{output, stat};
use anyhow::{Context, Result};
use finding::{Finding, Verdict};
use std::path::Path;
use std::process::ExitCode;
use system::System;

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
    let ready = findings.iter().all(|finding| finding.verdict != Verdict::Missing);
    Ok(if ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The interfaces that a running service accelerates; none if no service answers.
fn accelerated(socket: &Path) -> Vec<String> {
    let names = Client::connect(socket).and_then(|mut client| stat::interfaces(&mut client));
    names.unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

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

    #[test]
    fn a_finding_is_one_line_with_its_advice() {
        let finding = Finding::improve("eth0 coalescing", "50 us", "turn it off");
        assert_eq!(finding.to_string(), "improve  eth0 coalescing: 50 us; turn it off");
        assert_eq!(Finding::good("kernel", "6.18").to_string(), "good     kernel: 6.18");
    }
}
