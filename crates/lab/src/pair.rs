//! The lab of most tests: two hosts and one cable.

use crate::cable::CableOptions;
use crate::{Lab, LabHost};
use anyhow::Result;

/// Hosts `a` and `b`, connected at `eth0`, with an address of each family.
#[derive(Clone, Debug)]
pub struct LabPair {
    /// The lab, for more hosts.
    pub lab: Lab,
    /// The first host.
    pub a: LabHost,
    /// The second host.
    pub b: LabHost,
}

/// The interface of both hosts.
pub(crate) const INTERFACE: &str = "eth0";

impl LabPair {
    /// Two hosts on a plain cable.
    ///
    /// # Errors
    /// Not root, or a device cannot be made.
    pub fn new() -> Result<Self> {
        Self::with(&CableOptions::default())
    }

    /// Two hosts on a cable of the given kind.
    ///
    /// # Errors
    /// Not root, or a device cannot be made.
    pub fn with(options: &CableOptions) -> Result<Self> {
        let lab = Lab::new()?;
        let (a, b) = (lab.host("a")?, lab.host("b")?);
        lab.cable(&a, &b, INTERFACE, options)?;
        Self::with_addresses(lab, a, b)
    }

    /// Assigns the addresses to two hosts of a lab that are already connected.
    pub(crate) fn with_addresses(lab: Lab, a: LabHost, b: LabHost) -> Result<Self> {
        let pair = Self { lab, a, b };
        for (host, v4, v6) in [(&pair.a, pair.a_v4(), pair.a_v6()), (&pair.b, pair.b_v4(), pair.b_v6())] {
            host.address(INTERFACE, &format!("{v4}/24"))?;
            host.address(INTERFACE, &format!("{v6}/64"))?;
        }
        Ok(pair)
    }

    /// The IPv4 address of `a`.
    #[must_use]
    pub fn a_v4(&self) -> String {
        "10.77.0.1".to_owned()
    }

    /// The IPv4 address of `b`.
    #[must_use]
    pub fn b_v4(&self) -> String {
        "10.77.0.2".to_owned()
    }

    /// The IPv6 address of `a`.
    #[must_use]
    pub fn a_v6(&self) -> String {
        "fd77::1".to_owned()
    }

    /// The IPv6 address of `b`.
    #[must_use]
    pub fn b_v6(&self) -> String {
        "fd77::2".to_owned()
    }
}
