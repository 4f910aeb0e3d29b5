//! Answers to requests, and the reasons that they give.

use std::os::fd::OwnedFd;
use tickwire_host::PathRefusal;
use tickwire_lane::control::{Reason, Reply};
use tickwire_registry::ClaimId;

/// An answer to be sent.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl Answer {
    /// The claims that it gives to the program.
    pub(crate) fn claims(&self) -> Vec<ClaimId> {
        match &self.reply {
            Reply::Claimed { claim, .. } => vec![claim.0],
            Reply::Ports { ports, .. } => ports.as_slice().iter().map(|port| port.claim.0).collect(),
            _ => Vec::new(),
        }
    }
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, descriptors: Vec::new() }
    }
}

/// A refusal.
pub(crate) fn refused(reason: Reason) -> Answer {
    Reply::Refused { reason, interface: 0 }.into()
}

/// The reason to give to a program for a path that is not for lanes.
pub(crate) fn reason_of(why: Option<PathRefusal>) -> Reason {
    match why {
        None => Reason::None,
        Some(PathRefusal::Loopback) => Reason::Loopback,
        Some(PathRefusal::Broadcast) => Reason::Broadcast,
        Some(PathRefusal::Interface(_)) => Reason::Interface,
        Some(PathRefusal::Source) => Reason::Source,
        Some(PathRefusal::NoRoute) => Reason::NoRoute,
        Some(PathRefusal::NoNeighbour) => Reason::NoNeighbour,
    }
}
