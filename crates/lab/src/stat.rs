//! The output of `tickwire stat --json`, as far as tests need it.

use crate::host::LabHost;
use anyhow::{Context, Result};
use nix::unistd::{Pid, getpgid};
use serde_json::Value;

/// One reading of a host's counters.
#[derive(Clone, Debug)]
pub struct Stat {
    /// The whole document.
    pub json: Value,
}

impl Stat {
    /// Queries the host's service.
    ///
    /// # Errors
    /// It does not answer, or not in JSON.
    pub fn read(host: &LabHost) -> Result<Self> {
        let tickwire = crate::tools::tickwire()?;
        let text = host.run(&[&tickwire.to_string_lossy(), "stat", "--json"])?;
        Ok(Self { json: serde_json::from_str(&text).context("`tickwire stat --json` did not print JSON")? })
    }

    /// Packets that divert has sent to lanes since the service started.
    #[must_use]
    pub fn diverted(&self) -> u64 {
        self.number("/host/counters/diverted")
    }

    /// All lanes.
    #[must_use]
    pub fn all_lanes(&self) -> &[Value] {
        self.json["lanes"].as_array().map(Vec::as_slice).unwrap_or_default()
    }

    /// The lanes of programs of this name.
    #[must_use]
    pub fn lanes(&self, program: &str) -> Vec<&Value> {
        self.all_lanes().iter().filter(|lane| lane["program"] == program).collect()
    }

    /// The lanes of the program with this process number.
    #[must_use]
    pub fn lanes_of(&self, process: u32) -> Vec<&Value> {
        self.all_lanes().iter().filter(|lane| lane["pid"] == process).collect()
    }

    /// The lanes of the programs in the process group led by `leader`. Each program that the lab
    /// starts leads one.
    #[must_use]
    pub fn lanes_of_group(&self, leader: u32) -> Vec<&Value> {
        let group = |pid: i64| Some(getpgid(Some(Pid::from_raw(i32::try_from(pid).ok()?))).ok()?.as_raw());
        self.all_lanes()
            .iter()
            .filter(|lane| lane["pid"].as_i64().and_then(group).map(i64::from) == Some(leader.into()))
            .collect()
    }

    /// A number by its JSON pointer (`/host/counters/diverted`); zero if absent.
    #[must_use]
    pub fn number(&self, pointer: &str) -> u64 {
        self.json.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
    }
}
