//! Asking the service.

use anyhow::{Context, Result, bail};
use std::io;
use std::path::Path;
use std::time::Duration;
use tickwire_link::control::{Channel, Descriptors, Push, Reply, Request};

/// The service answers from its event loop; if it has not done so after this time, it is stuck.
const PATIENCE: Duration = Duration::from_secs(5);

/// A connection to the service.
pub(crate) struct Client {
    channel: Channel,
    number: u32,
}

impl Client {
    /// Connects.
    pub(crate) fn connect(socket: &Path) -> Result<Self> {
        let channel = Channel::connect(socket).map_err(|error| {
            let advice = advice(&error);
            anyhow::Error::new(error).context(format!("{}: {advice}", socket.display()))
        })?;
        Ok(Self { channel, number: 0 })
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<(Reply, Descriptors)> {
        self.number += 1;
        self.channel.send(request, self.number, &[]).context("the service does not take requests")?;
        loop {
            let incoming = self
                .channel
                .receive(PATIENCE)
                .context("the service does not answer: see its log, or start it again")?;
            // Number 0 is a push, which concerns lanes; a tool has none.
            if incoming.decode::<Push>().is_ok() {
                continue;
            }
            let (number, reply) =
                incoming.decode::<Reply>().context("the service gave an answer that cannot be read")?;
            if number != self.number {
                bail!("the service answered another question (number {number} instead of {})", self.number);
            }
            return match reply {
                Reply::Refused { reason, .. } => bail!("the service refuses: {}", reason.text()),
                reply => Ok((reply, incoming.descriptors)),
            };
        }
    }
}

/// What to do about a socket that cannot be connected to.
fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            "this user may not ask the service: be root, or join the group that owns the socket (`usermod -aG tickwire USER`, then log in again)"
        }
        _ => "no service answers there: start `tickwire service`, or name its socket with --socket",
    }
}

/// The error for an answer that does not fit the question.
pub(crate) fn unexpected(reply: &impl std::fmt::Debug) -> anyhow::Error {
    anyhow::anyhow!("the service gave an unexpected answer ({reply:?}): is it of another version?")
}
