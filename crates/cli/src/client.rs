//! Asking the service.

use anyhow::{Context, Result, anyhow, bail};
use nix::unistd::Group;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tickwire_lane::control::{Push, Reason, Reply, Request};
use tickwire_lane_linux::control::{Channel, Descriptors, why_unconnected};

/// The service answers from its event loop. After this time without an answer it is stuck.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A connection to the service.
pub(crate) struct Client {
    channel: Channel,
    /// Its path, for error messages.
    socket: PathBuf,
    number: u32,
}

impl Client {
    /// Connects.
    pub(crate) fn connect(socket: &Path) -> Result<Self> {
        let channel = Channel::connect(socket).map_err(|error| anyhow!(why_not(socket, &error)))?;
        Ok(Self { channel, socket: socket.to_path_buf(), number: 0 })
    }

    /// Sends a request, and waits for the reply.
    pub(crate) fn ask(&mut self, request: &Request) -> Result<(Reply, Descriptors)> {
        self.number += 1;
        self.channel.send(request, self.number, &[]).map_err(|error| self.why_silent(&error))?;
        loop {
            let incoming = self.channel.receive(TIMEOUT).map_err(|error| self.why_silent(&error))?;
            // Number 0 is a push, which concerns lanes; a tool has no lane.
            if incoming.decode::<Push>().is_ok() {
                continue;
            }
            let (number, reply) = incoming.decode::<Reply>().with_context(|| {
                format!("what answers at {} cannot be understood: is it the service?", self.socket.display())
            })?;
            if number != self.number {
                bail!("the service answered another question (number {number} instead of {})", self.number);
            }
            return match reply {
                Reply::Refused { reason, .. } => bail!("the service refuses: {}", reason.text()),
                reply => Ok((reply, incoming.descriptors)),
            };
        }
    }

    fn why_silent(&self, error: &io::Error) -> anyhow::Error {
        if error.kind() == io::ErrorKind::TimedOut {
            return anyhow!(stuck(&self.socket));
        }
        anyhow!("the service at {} ended the connection ({error}): see its log", self.socket.display())
    }
}

/// Why no service answers at this path, and what to do about it.
pub(crate) fn why_not(socket: &Path, error: &io::Error) -> String {
    let shown = socket.display();
    match why_unconnected(socket, error) {
        Reason::NotPermitted => {
            let way = match group(socket) {
                Some(group) => {
                    format!("join the group that owns the socket (`usermod -aG {group} USER`, then log in again)")
                }
                None => {
                    "have a group made that may (`groupadd --system tickwire`, then start the service again)".into()
                }
            };
            format!("this user may not use the service at {shown}: be root, or {way}")
        }
        Reason::Silent => stuck(socket),
        Reason::NotService => format!(
            "what is at {shown} is not the service's socket: name that by --socket, or start `tickwire service`"
        ),
        _ => format!("no service at {shown} ({error}): start `tickwire service`, or name its socket by --socket"),
    }
}

fn stuck(socket: &Path) -> String {
    format!("the service at {} does not answer: it may be stuck (see its log, or start it again)", socket.display())
}

/// The group whose members may open the socket, if there is one other than root's.
fn group(socket: &Path) -> Option<String> {
    let found = std::fs::metadata(socket).ok()?;
    let may = found.gid() != 0 && found.mode() & 0o020 != 0;
    Some(Group::from_gid(may.then(|| found.gid().into())?).ok()??.name)
}

/// The error for a reply of the wrong type.
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
            // A group that every Debian system has.
            let adm = Group::from_name("adm").unwrap().unwrap().gid;
            chown(&socket, None, Some(adm.as_raw())).unwrap();
            mode(0o660);
            assert!(why_not(&socket, &denied).contains("`usermod -aG adm USER`"));
        }
        mode(0o600);
        assert!(!why_not(&socket, &denied).contains("usermod"), "only root may connect");
        assert!(why_not(&socket, &io::ErrorKind::NotFound.into()).contains("no service at"));
    }
}
