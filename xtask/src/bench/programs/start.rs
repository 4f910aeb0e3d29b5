//! Starting programs on the hosts of the lab.

use super::launch::{Launch, Site};
use anyhow::{Context, Result};
use std::process::Command;
use std::time::Duration;
use tickwire_lab::{LabHost, Process, tools};

/// How a program is started.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct How {
    /// Under `tickwire run`.
    pub(super) accelerated: bool,
    /// On this processor only.
    pub(super) processor: Option<&'static str>,
}

/// The command that starts a program inside the host.
pub(super) fn command(host: &LabHost, launch: &Launch, how: &How) -> Result<Command> {
    let tickwire = tools::tickwire()?.to_string_lossy().into_owned();
    let words = words(launch, how, &tickwire);
    let (first, rest) = words.split_first().context("an empty command")?;
    let mut command = host.command(first);
    // Python sources are in the target directory, in which root must not leave files.
    command.args(rest).env("PYTHONDONTWRITEBYTECODE", "1");
    command.envs(launch.environment.iter().map(|(name, value)| (name, value)));
    Ok(command)
}

fn words(launch: &Launch, how: &How, tickwire: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut add = |more: &[&str]| words.extend(more.iter().map(|&word| word.to_owned()));
    if let Some(processor) = how.processor {
        add(&["taskset", "-c", processor]);
    }
    if let Some(user) = launch.user {
        add(&["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--"]);
    }
    if how.accelerated {
        add(&[tickwire, "run", "--require", "--"]);
    }
    words.extend(launch.words.iter().cloned());
    words
}

/// Runs a program on the kernel to its end, inside the host.
pub(super) fn once(site: &Site, launch: &Launch, timeout: Duration) -> Result<String> {
    Process::spawn(command(&site.host, launch, &How::default())?)?.success(timeout)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_taken_on_before_the_program_is_accelerated() {
        let launch = Launch::new(["postgres", "-D", "data"]).user("postgres");
        let how = How { accelerated: true, processor: Some("1") };
        let expected = "taskset -c 1 setpriv --reuid postgres --regid postgres --clear-groups -- \
                        tickwire run --require -- postgres -D data";
        assert_eq!(words(&launch, &how, "tickwire").join(" "), expected);
        assert_eq!(words(&launch.clone(), &How::default(), "tickwire").first().unwrap(), "setpriv");
    }
}
