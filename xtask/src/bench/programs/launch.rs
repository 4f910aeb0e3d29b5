//! How a program is started, and where.

use super::ways::End;
use std::path::{Path, PathBuf};
use tickwire_lab::LabHost;

/// How to detect that a server accepts requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ready {
    /// The port is bound: `tcp` or `udp`.
    Port(&'static str, u16),
    /// It prints this, on either output, after the port is bound.
    Says(&'static str, &'static str, u16),
    /// It cannot be detected: the client searches for the server itself.
    Searched,
}

/// A program with its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Launch {
    pub(super) words: Vec<String>,
    pub(super) environment: Vec<(&'static str, String)>,
    /// The unprivileged user that it runs as, if not root.
    pub(super) user: Option<&'static str>,
}

impl Launch {
    pub(super) fn new<S: Into<String>>(words: impl IntoIterator<Item = S>) -> Self {
        let words = words.into_iter().map(Into::into).collect();
        Self { words, environment: Vec::new(), user: None }
    }

    pub(super) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.environment.push((name, value.into()));
        self
    }

    pub(super) fn user(mut self, user: &'static str) -> Self {
        self.user = Some(user);
        self
    }
}

/// The parameters of a measurement for a program.
#[derive(Clone, Debug)]
pub(super) struct Site {
    /// The host that the program is started on.
    pub(super) host: LabHost,
    /// The server's address.
    pub(super) address: String,
    /// How long the client measures.
    pub(super) seconds: u32,
    /// A directory that the measurements of all ways share, which goes away with the lab.
    pub(super) shared: PathBuf,
    /// Where sources and installed libraries are; see [`super::install`].
    pub(super) installed: PathBuf,
}

impl Site {
    /// A directory of the host's own, which goes away with the lab.
    pub(super) fn directory(&self) -> PathBuf {
        self.host.directory()
    }

    /// A program or file of [`super::install`].
    pub(super) fn path(&self, name: impl AsRef<Path>) -> String {
        self.installed.join(name).to_string_lossy().into_owned()
    }

    /// The arguments of our own small programs: `serve ADDRESS PORT`, `ask ADDRESS PORT SECONDS`.
    pub(super) fn role(&self, end: End, port: u16) -> Vec<String> {
        let (address, port) = (self.address.clone(), port.to_string());
        match end {
            End::Server => vec!["serve".into(), address, port],
            End::Client => vec!["ask".into(), address, port, self.seconds.to_string()],
        }
    }
}
