//! Asking the service.

use anyhow::{Context, Result, bail};
use nix::unistd::Group;
use std::io;
use std::os::unix::fs::MetadataExt;
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
            let advice = advice(&error, socket);
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
fn advice(error: &io::Error, socket: &Path) -> String {
    if error.kind() != io::ErrorKind::PermissionDenied {
        return "no service answers there: start `tickwire service`, or name its socket with --socket".into();
    }
    let way = match group(socket) {
        Some(group) => format!("join the group that owns the socket (`usermod -aG {group} USER`, then log in again)"),
        None => "have a group made that may (`groupadd --system tickwire`, then start the service again)".into(),
    };
    format!("this user may not ask the service: be root, or {way}")
}

/// The group whose members may open the socket, if there is one beside root's.
fn group(socket: &Path) -> Option<String> {
    let found = std::fs::metadata(socket).ok()?;
    let may = found.gid() != 0 && found.mode() & 0o020 != 0;
    Some(Group::from_gid(may.then(|| found.gid().into())?).ok()??.name)
}

/// The error for an answer that does not fit the question.
pub(crate) fn unexpected(reply: &impl std::fmt::Debug) -> anyhow::Error {
    anyhow::anyhow!("the service gave an unexpected answer ({reply:?}): is it of another version?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown};

    #[test]
    fn the_advice_to_join_a_group_names_the_one_that_may() {
        let directory = tempfile::tempdir().unwrap();
        let socket = directory.path().join("s.sock");
        std::fs::write(&socket, "").unwrap();
        let denied = io::ErrorKind::PermissionDenied.into();
        let mode = |mode| std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(mode)).unwrap();
        if nix::unistd::geteuid().is_root() {
            // A group that every Debian has.
            let adm = Group::from_name("adm").unwrap().unwrap().gid;
            chown(&socket, None, Some(adm.as_raw())).unwrap();
            mode(0o660);
            assert!(advice(&denied, &socket).contains("`usermod -aG adm USER`"));
        }
        mode(0o600);
        assert!(!advice(&denied, &socket).contains("usermod"), "nobody but root");
        assert!(advice(&io::ErrorKind::NotFound.into(), &socket).contains("no service answers"));
    }
}
