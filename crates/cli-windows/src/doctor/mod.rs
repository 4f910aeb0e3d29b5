//! `tickwire doctor`: would a program be accelerated on this machine? It changes nothing.
//!
//! | module | purpose |
//! |---|---|
//! | `machine` | Windows and the processor |
//! | `service` | the service, and what it says about its network card |

mod machine;
mod service;

use crate::args::Doctor;
use crate::run::services;
use crate::{driver, installation};
use anyhow::{Context, Result};
use std::process::ExitCode;
use tickwire_show::finding::{Finding, Verdict, is_ready};
use tickwire_show::output;

/// Prints one line for each check, and the verdict.
pub(crate) fn run(arguments: &Doctor) -> Result<ExitCode> {
    let mut findings = vec![machine::windows(), machine::counter(), library(), driver::check()];
    findings.extend(service::check(arguments.socket.pipe()));
    findings.extend(services::findings());
    let text = if arguments.json {
        serde_json::to_string(&findings).context("cannot print the findings")? + "\n"
    } else {
        let lines: String = findings.iter().map(|finding| format!("{finding}\n")).collect();
        lines + &verdict(&findings) + "\n"
    };
    output::print(&text)?;
    Ok(if is_ready(&findings) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn library() -> Finding {
    match installation::library() {
        Ok(path) => Finding::good("library", format!("{}, of this version", path.display())),
        Err(error) => Finding::missing("library", "cannot be used", error.to_string()),
    }
}

/// The last line.
fn verdict(findings: &[Finding]) -> String {
    let missing: Vec<_> = findings
        .iter()
        .filter(|finding| finding.verdict == Verdict::Missing)
        .map(|finding| finding.check.as_str())
        .collect();
    if missing.is_empty() {
        return "verdict: a program that is started by `tickwire run` is accelerated".into();
    }
    format!("verdict: no program is accelerated until this is mended: {}", missing.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_names_what_is_missing() {
        let good = Finding::good("library", "here");
        assert!(verdict(&[good]).contains("is accelerated"));
        let findings = [Finding::missing("service", "none", "start it"), Finding::missing("driver", "none", "get it")];
        assert!(verdict(&findings).ends_with(": service, driver"));
    }
}
