//! A host on which a node can be started.

use super::proof::Proof;
use super::starter::NodeProgram;
use super::timeouts::Timeouts;
use anyhow::{Result, bail};
use std::net::IpAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use tickwire_lab::{LabHost, Processors};

/// One host of an experiment.
#[derive(Clone, Debug)]
pub struct NodeHost {
    /// Its name.
    pub name: String,
    /// Its address on the data network.
    pub address: IpAddr,
    /// The program `tickwire` there; it is not used where another one starts the node.
    pub tickwire: PathBuf,
    /// How to run a command there.
    pub(super) way: Way,
}

/// How to run a command on a host.
#[derive(Clone, Debug)]
pub(super) enum Way {
    /// In a host of the lab.
    Lab {
        /// The host.
        host: LabHost,
        /// Its processors; none: those of the controller.
        processors: Processors,
    },
    /// In a host of the lab, where another program starts the node.
    LabWith {
        /// The host.
        host: LabHost,
        /// The node's processors; none: those of the controller.
        processors: Processors,
        /// That program.
        program: NodeProgram,
    },
    /// Over the system's `ssh`, with the user's own keys and configuration.
    Ssh {
        /// The program and its arguments before the destination.
        command: Vec<String>,
        /// The user's name for the host.
        destination: String,
    },
}

/// All hosts of an experiment.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// The receiver.
    pub consumer: NodeHost,
    /// The senders, each with the numbers of its producers.
    pub producers: Vec<(NodeHost, Vec<u16>)>,
}

impl NodeHost {
    /// `tickwire WORDS` on that host, as a command of this machine.
    pub(super) fn tickwire(&self, words: &[&str]) -> Command {
        match &self.way {
            Way::Lab { host, processors } | Way::LabWith { host, processors, .. } => {
                let own = self.tickwire.to_string_lossy();
                let mut command = host.command_on(processors, &own);
                // Ctrl-C ends the lab, which then kills its processes. (An `ssh` stays in the
                // terminal's process group, because it may prompt for a password.)
                command.args(words).process_group(0);
                command
            }
            Way::Ssh { command, destination } => {
                let (program, arguments) = command.split_first().map_or(("ssh", &[][..]), |(p, a)| (p, a));
                let mut ssh = Command::new(program);
                // ssh joins its arguments with blanks, and passes them to the user's shell there.
                let remote: Vec<String> = std::iter::once(self.tickwire.to_string_lossy().as_ref())
                    .chain(words.iter().copied())
                    .map(quoted)
                    .collect();
                ssh.args(arguments).args(["-T", "--", destination]).arg(remote.join(" "));
                ssh
            }
        }
    }

    /// The socket of the host's service, if it is on this machine.
    pub(super) fn service(&self) -> Option<PathBuf> {
        match &self.way {
            Way::Lab { host, .. } => Some(host.socket()),
            Way::LabWith { .. } | Way::Ssh { .. } => None,
        }
    }

    /// Whether a node there can run on a lane.
    pub(super) const fn can_be_accelerated(&self) -> bool {
        !matches!(&self.way, Way::LabWith { program: NodeProgram::Node(_), .. })
    }

    /// What the lane of a node that has ended has carried.
    ///
    /// # Errors
    /// Its starter has not said so, or it has none: [`Self::is_proven_at_end`].
    pub(super) fn proof_at_end(&self) -> Result<Proof> {
        match &self.way {
            Way::LabWith { host, program, .. } => program.proof(host),
            Way::Lab { .. } | Way::Ssh { .. } => bail!("{}: nothing says what its lane has carried", self.name),
        }
    }

    /// Whether what a node's lane has carried is known at the node's end only, from
    /// [`Self::proof_at_end`]. Else the host's service can be asked at any time.
    pub(super) const fn is_proven_at_end(&self) -> bool {
        matches!(self.way, Way::LabWith { .. })
    }

    /// The timeouts of a node there: a starter ends later than its node.
    pub(super) fn timeouts(&self, usual: &Timeouts) -> Timeouts {
        let ends = if self.is_proven_at_end() { usual.ends.max(Timeouts::STARTER_ENDS) } else { usual.ends };
        Timeouts { ends, ..*usual }
    }

    /// The command of the node, on the kernel or under `tickwire run`.
    pub(super) fn node(&self, accelerated: Option<&Acceleration>) -> Command {
        if let Way::LabWith { host, processors, program } = &self.way {
            let mut command = program.command(host, processors, accelerated.is_some());
            command.process_group(0);
            return command;
        }
        let node = ["testbed", "node"];
        let Some(acceleration) = accelerated else { return self.tickwire(&node) };
        let own = self.tickwire.to_string_lossy();
        let mut words = vec!["run", "--require"];
        if let Some(spin) = &acceleration.spin {
            words.extend(["--spin", spin]);
        }
        words.extend(["--", &own]);
        words.extend(node);
        self.tickwire(&words)
    }
}

/// How a node is accelerated.
#[derive(Clone, Debug, Default)]
pub(super) struct Acceleration {
    /// As `tickwire run --spin`.
    pub spin: Option<String>,
}

/// Quotes one word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_reach_the_program_behind_a_shell_as_they_are() {
        assert_eq!(quoted("/usr/bin/tickwire"), "/usr/bin/tickwire");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn a_node_is_started_by_ssh_as_people_have_it() {
        let place = NodeHost {
            name: "daq".into(),
            address: "192.0.2.1".parse().unwrap(),
            tickwire: "/opt/tick wire".into(),
            way: Way::Ssh { command: vec!["ssh".into(), "-oBatchMode=yes".into()], destination: "me@daq".into() },
        };
        let words = |command: &Command| -> Vec<String> {
            std::iter::once(command.get_program())
                .chain(command.get_args())
                .map(|w| w.to_string_lossy().into_owned())
                .collect()
        };
        let plain = ["ssh", "-oBatchMode=yes", "-T", "--", "me@daq", "'/opt/tick wire' testbed node"];
        assert_eq!(words(&place.node(None)), plain);
        let fast = place.node(Some(&Acceleration { spin: Some("never".into()) }));
        assert_eq!(words(&fast)[5], "'/opt/tick wire' run --require --spin never -- '/opt/tick wire' testbed node");
    }
}
