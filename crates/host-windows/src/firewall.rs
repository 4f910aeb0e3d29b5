//! The questions to Windows' firewall: whether a program may receive at a port, and whether it may
//! send.
//!
//! Packets of a lane are never seen by the firewall. So it is asked before a port or a flow is
//! claimed, and its answer holds for the claim.

use crate::port_owner::PortProtocol;
use std::io;
use tickwire_stack::addr::Endpoint;

/// A port at which a program is to receive what no packet of its own has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct InboundPort {
    /// The full path of the program's file; `None`: any program.
    pub program: Option<String>,
    /// The protocol.
    pub protocol: PortProtocol,
    /// The address and port. An unspecified address is any, at all interfaces.
    pub local: Endpoint,
}

/// What the firewall says about an [`InboundPort`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InboundVerdict {
    /// All packets for it come in.
    Allowed,
    /// Some come in: those from certain addresses, or by certain interfaces.
    Restricted,
    /// None comes in.
    Blocked,
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum FirewallError {
    /// It does not answer in time.
    #[error("Windows' firewall does not answer in time")]
    Silent,
    /// Other questions are not answered yet.
    #[error("too many questions to Windows' firewall wait for an answer")]
    Busy,
    /// It is to run, and does not yet.
    #[error("the service of Windows' firewall (MpsSvc) does not run: start it, or switch it off for good")]
    Stopped,
    /// Windows refused the question.
    #[error("Windows refused to {what}: {source}")]
    Refused {
        /// What was requested.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

/// A firewall that can be asked.
pub trait Firewall: Send + Sync {
    /// Whether a program may receive at a port, by the rules of this moment. May take seconds.
    ///
    /// # Errors
    /// [`FirewallError`], if that is not known.
    fn inbound(&self, port: &InboundPort) -> Result<InboundVerdict, FirewallError>;

    /// Whether no rule may keep a program's own packets from leaving, by the rules of some seconds
    /// ago at most. `program`: the full path of its file; `None`: any program. `port`: that of the
    /// peer; `None`: any.
    ///
    /// # Errors
    /// As [`Firewall::inbound`].
    fn lets_out(&self, program: Option<&str>, protocol: PortProtocol, port: Option<u16>)
    -> Result<bool, FirewallError>;
}

/// No firewall: everything comes in.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFirewall;

impl Firewall for NoFirewall {
    fn inbound(&self, _: &InboundPort) -> Result<InboundVerdict, FirewallError> {
        Ok(InboundVerdict::Allowed)
    }

    fn lets_out(&self, _: Option<&str>, _: PortProtocol, _: Option<u16>) -> Result<bool, FirewallError> {
        Ok(true)
    }
}
