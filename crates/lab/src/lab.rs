//! A lab as a value: dropping it removes everything.

use crate::cable::{CableOptions, Switch, join, plug};
use crate::host::LabHost;
use crate::registry::Registration;
use crate::shell::is_root;
use anyhow::{Result, bail};
use std::path::PathBuf;
use std::sync::Arc;

/// A set of hosts, cables and switches that lives as long as this value and every [`LabHost`] of
/// it.
#[derive(Clone, Debug)]
pub struct Lab {
    registration: Arc<Registration>,
}

impl Lab {
    /// An empty lab.
    ///
    /// # Errors
    /// Not root, or the temporary directory is not writable.
    pub fn new() -> Result<Self> {
        if !is_root() {
            bail!("a lab is made of network namespaces, which only root may create: run this with sudo");
        }
        Ok(Self { registration: Arc::new(Registration::new()?) })
    }

    /// The lab's name, which all its namespaces begin with.
    #[must_use]
    pub fn name(&self) -> &str {
        self.registration.name()
    }

    /// A directory that is removed with the lab, readable by every user.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.registration.directory()
    }

    /// A host with only a loopback interface.
    ///
    /// # Errors
    /// The namespace cannot be made, or the name is in use in this lab.
    pub fn host(&self, name: &str) -> Result<LabHost> {
        LabHost::new(Arc::clone(&self.registration), name)
    }

    /// Connects two hosts by a cable; the interface has the given name on both (at most 15 bytes).
    ///
    /// # Errors
    /// The devices cannot be made.
    pub fn cable(&self, a: &LabHost, b: &LabHost, interface: &str, options: &CableOptions) -> Result<()> {
        join(a, b, interface, options)
    }

    /// A switch without ports.
    ///
    /// # Errors
    /// The bridge cannot be made.
    pub fn switch(&self, name: &str) -> Result<Switch> {
        Switch::new(self.host(name)?)
    }

    /// Connects a host to a switch.
    ///
    /// # Errors
    /// The devices cannot be made.
    pub fn plug(&self, host: &LabHost, switch: &Switch, interface: &str, options: &CableOptions) -> Result<()> {
        plug(host, switch, interface, options)
    }
}
