//! Programs that start nodes of the lab in place of `tickwire`, for a host whose programs are of
//! another operating system.
//!
//! A node program is started as it is, and runs on the kernel's sockets. A *starter* also has the
//! node run on a lane, and says what the lane has carried:
//!
//! ```text
//! STARTER... --directory DIRECTORY [--processors LIST] [--lane]
//! ```
//!
//! It runs inside of the host, and its input, output and errors are the node's. LIST are the
//! processors of the node, as `taskset -c` has them. With `--lane` the node runs on a lane. When it
//! has ended, the starter writes what the lane has carried, a [`Proof`] as JSON, to [`LANE`] in
//! DIRECTORY, and ends.

use super::proof::Proof;
use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use tickwire_lab::{LabHost, Processors};

/// The file for what a lane has carried.
pub const LANE: &str = "lane.json";

/// The longest file, in bytes.
const LONGEST: u64 = 64 << 10;

/// How the nodes of a lab are started.
#[derive(Clone, Debug)]
pub struct LabNodes {
    /// The node program of producers.
    pub node: PathBuf,
    /// The starter of the consumer, and its first arguments.
    pub starter: Vec<String>,
    /// The producers that the starter starts, too.
    pub started: Vec<u16>,
    /// What the starter's nodes run on, in words.
    pub machine: String,
    /// How the starter's nodes read the machine's counter, in words.
    pub clock: String,
}

impl LabNodes {
    /// What starts a producer's node.
    pub(super) fn producer(&self, number: u16) -> NodeProgram {
        if self.started.contains(&number) {
            NodeProgram::Starter(self.starter.clone())
        } else {
            NodeProgram::Node(self.node.clone())
        }
    }
}

/// What starts the node of a host of the lab.
#[derive(Clone, Debug)]
pub(super) enum NodeProgram {
    /// The node itself.
    Node(PathBuf),
    /// A starter, and its first arguments.
    Starter(Vec<String>),
}

impl NodeProgram {
    /// The command of the node.
    pub(super) fn command(&self, host: &LabHost, processors: &Processors, on_lane: bool) -> Command {
        let words = match self {
            Self::Node(program) => return host.command_on(processors, &program.to_string_lossy()),
            Self::Starter(words) => words,
        };
        let (program, arguments) = words.split_first().map_or(("false", &[][..]), |(p, a)| (p.as_str(), a));
        let mut command = host.command(program);
        command.args(arguments).arg("--directory").arg(host.directory());
        if !processors.is_empty() {
            command.args(["--processors", &processors.list()]);
        }
        command.args(on_lane.then_some("--lane"));
        command
    }

    /// What the lane of a node that has ended has carried.
    ///
    /// # Errors
    /// The starter has not said so.
    pub(super) fn proof(&self, host: &LabHost) -> Result<Proof> {
        let path = host.directory().join(LANE);
        // The next node's is another.
        let proof = read(&path).with_context(|| format!("{}: {} is no proof", host.name(), path.display()));
        let _ = std::fs::remove_file(path);
        proof
    }
}

fn read(path: &Path) -> Result<Proof> {
    let mut text = Vec::new();
    File::open(path)?.take(LONGEST + 1).read_to_end(&mut text)?;
    ensure!(text.len() as u64 <= LONGEST, "it is longer than {LONGEST} bytes");
    Ok(serde_json::from_slice(&text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_starter_says_is_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LANE);
        assert!(read(&path).is_err(), "it says nothing");
        let said = |text: &str| {
            std::fs::write(&path, text).unwrap();
            read(&path)
        };
        let proof = Proof { diverted: 9, sent: 8, lost: 0, on_lane: 2, sockets: 3 };
        let good = r#"{"diverted":9,"sent":8,"lost":0,"on_lane":2,"sockets":3}"#;
        assert_eq!(said(good).unwrap(), proof);
        for bad in ["", "{}", "[]", r#"{"diverted":-1,"sent":8,"lost":0,"on_lane":2,"sockets":3}"#] {
            assert!(said(bad).is_err(), "{bad}");
        }
        assert!(said(&good.replace('}', &format!("{}}}", " ".repeat(70_000)))).is_err());
    }
}
