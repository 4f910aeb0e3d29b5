//! Asking the service.

use anyhow::{Result, bail};
use std::os::windows::io::BorrowedHandle;
use std::time::Duration;
use tickwire_lane::control::{Reply, Request};
use tickwire_lane_windows::control::{ClientChannel, ConnectError, Handles};

/// After this time without an answer the service is stuck.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the service.
pub(crate) struct Client(ClientChannel);

impl Client {
    /// Connects.
    pub(crate) fn connect(pipe: &str) -> Result<Self, ConnectError> {
        ClientChannel::connect(pipe, TIMEOUT).map(Self)
    }

    /// Sends a request, and waits for the reply.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<(Reply, Handles)> {
        match self.0.request(request, &[], TIMEOUT)? {
            (Reply::Refused { reason, .. }, _) => bail!("the service refuses: {reason}"),
            answer => Ok(answer),
        }
    }

    /// Events of which one is set when something has come that no request awaits, also if the
    /// service has gone.
    pub(crate) fn events(&self) -> [BorrowedHandle<'_>; 2] {
        self.0.events()
    }

    /// Whether the service is still there. What has come that no request awaits is dropped.
    pub(crate) fn is_connected(&mut self) -> bool {
        loop {
            match self.0.take() {
                Ok(Some(_)) => (),
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }
}

/// The error for a reply of the wrong type.
pub(crate) fn unexpected(reply: &Reply) -> anyhow::Error {
    anyhow::anyhow!("the service gave an unexpected answer ({reply:?}): is it of another version?")
}
