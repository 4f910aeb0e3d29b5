//! The socket on which programs reach the service, and the lock that prevents a second service in
//! the namespace.

use crate::config::SocketConfig;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, getsockopt, listen, socket, sockopt,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;
use tickwire_lane_linux::sys_socket;

/// The group whose members may be accelerated if the configuration names none.
const DEFAULT_GROUP: &str = "tickwire";

/// An abstract name, of which each network namespace has its own set; it goes away with its holder.
const LOCK_NAME: &[u8] = b"tickwire-service";

/// Where the usual socket is: made if it is missing, and removed at the end.
const OWN_DIRECTORY: &str = "/run/tickwire";

/// Descriptors that programs passed before they were accepted are closed within this time, or at
/// the end of the process.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Why the service cannot be reached.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    /// Another service answers.
    #[error("another Tickwire service already {0}; stop it first, or run this one in another network namespace")]
    Taken(String),
    /// The configured group does not exist.
    #[error("there is no group \"{0}\"; create it (groupadd --system {0}) or set socket.group to another")]
    NoGroup(String),
    /// The directory of its path does not exist.
    #[error("there is no directory {0}; make it or set socket.path (--socket) to another path")]
    NoDirectory(PathBuf),
    /// The path holds something that is no socket.
    #[error("{0} exists and is no socket; remove it or set socket.path to another path")]
    NotASocket(PathBuf),
    /// The system refused.
    #[error("cannot {what} {path}")]
    System {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

/// The lock of a network namespace, which one service at a time can hold.
#[derive(Debug)]
pub(crate) struct NamespaceLock {
    _listener: Option<UnixListener>,
}

impl NamespaceLock {
    /// Takes the lock.
    pub(crate) fn take() -> Result<Self, EndpointError> {
        let system =
            |what| move |source| EndpointError::System { what, path: PathBuf::from("the service lock"), source };
        let name = SocketAddr::from_abstract_name(LOCK_NAME).map_err(system("name"))?;
        match UnixListener::bind_addr(&name) {
            Ok(listener) => Ok(Self { _listener: Some(listener) }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                // Any user can take an abstract name, but only root's counts.
                let holder = UnixStream::connect_addr(&name)
                    .ok()
                    .and_then(|stream| getsockopt(&stream, sockopt::PeerCredentials).ok());
                match holder {
                    Some(holder) if holder.uid() != 0 => {
                        tracing::warn!(
                            uid = holder.uid(),
                            pid = holder.pid(),
                            "a user holds the service's lock name; ignored"
                        );
                        Ok(Self { _listener: None })
                    }
                    _ => Err(EndpointError::Taken("runs in this network namespace".into())),
                }
            }
            Err(source) => Err(system("take")(source)),
        }
    }
}

/// The listening socket; its file is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct Endpoint {
    /// Of type `SOCK_SEQPACKET`; accepting is the same for all types.
    listener: UnixListener,
    path: PathBuf,
    mode: u32,
    group: Option<String>,
    inode: u64,
    made_directory: Option<PathBuf>,
}

impl Endpoint {
    /// Makes the socket as configured. No program can connect before [`Endpoint::listen`].
    pub(crate) fn open(config: &SocketConfig) -> Result<Self, EndpointError> {
        Self::open_with(config, Path::new(OWN_DIRECTORY))
    }

    /// As [`Endpoint::open`], where this directory is the service's own, which it makes.
    fn open_with(config: &SocketConfig, own: &Path) -> Result<Self, EndpointError> {
        let path = &config.path;
        let system = |what| {
            let path = path.clone();
            move |source| EndpointError::System { what, path, source }
        };
        let group = group_of(config)?;
        let made_directory = make_directory(path, own)?;
        remove_stale(path)?;
        let listener = seqpacket().map_err(system("make a socket for"))?;
        // So that a refused connection can be closed at once: closing a socket that a client passed
        // may block.
        if let Err(error) = sys_socket::take_descriptors(listener.as_fd(), false) {
            tracing::debug!(%error, "programs may pass descriptors before they are let in (Linux 6.16 prevents that)");
        }
        let address = UnixAddr::new(path).map_err(|e| system("use the path")(e.into()))?;
        bind(listener.as_raw_fd(), &address).map_err(|e| system("bind")(e.into()))?;
        let inode = std::fs::symlink_metadata(path).map_err(system("look at"))?.ino();
        let mode = config.mode.unwrap_or(if group.is_some() { 0o660 } else { 0o600 });
        let name = group.as_ref().map(|(name, _)| name.clone());
        let endpoint = Self { listener: listener.into(), path: path.clone(), mode, group: name, inode, made_directory };
        // Owner and mode are set before the socket listens, so that no program connects in between.
        if let Some((_, gid)) = &group {
            chown(path, None, Some(*gid)).map_err(system("set the group of"))?;
        }
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).map_err(system("set the mode of"))?;
        Ok(endpoint)
    }

    /// Lets programs connect.
    pub(crate) fn listen(&self) -> Result<(), EndpointError> {
        listen(&self.listener, Backlog::MAXALLOWABLE).map_err(|error| EndpointError::System {
            what: "listen on",
            path: self.path.clone(),
            source: error.into(),
        })?;
        let (path, mode) = (self.path.display(), format!("{:#o}", self.mode));
        match &self.group {
            Some(group) => tracing::info!(%path, group, mode, "listening"),
            None => tracing::info!(
                %path, mode,
                "listening; without a group \"{DEFAULT_GROUP}\" only the mode decides which users may be accelerated \
                 (groupadd --system {DEFAULT_GROUP}, or set socket.group or socket.mode)"
            ),
        }
        Ok(())
    }

    /// The listening socket.
    pub(crate) fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// Stops listening. Waiting programs are disconnected at once, also if closing what they passed
    /// blocks.
    pub(crate) fn close(self) {
        let (closing, closed) = channel::<()>();
        let thread = std::thread::Builder::new().name("endpoint".into()).spawn(move || {
            drop(self);
            drop(closing);
        });
        if thread.is_ok() {
            let _ = closed.recv_timeout(TIMEOUT);
        }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        let ours = std::fs::symlink_metadata(&self.path).is_ok_and(|m| m.ino() == self.inode);
        if ours {
            let _ = std::fs::remove_file(&self.path);
        }
        if let Some(directory) = &self.made_directory {
            let _ = std::fs::remove_dir(directory); // fails, rightly, if it is not empty
        }
    }
}

fn seqpacket() -> io::Result<OwnedFd> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    Ok(socket(AddressFamily::Unix, SockType::SeqPacket, flags, None)?)
}

fn group_of(config: &SocketConfig) -> Result<Option<(String, u32)>, EndpointError> {
    let name = config.group.as_deref().unwrap_or(DEFAULT_GROUP);
    match nix::unistd::Group::from_name(name) {
        Ok(Some(group)) => Ok(Some((name.to_owned(), group.gid.as_raw()))),
        _ if config.group.is_some() => Err(EndpointError::NoGroup(name.to_owned())),
        _ => Ok(None),
    }
}

/// Makes the socket's directory if it is missing and is the service's own; returns the one it made.
fn make_directory(path: &Path, own: &Path) -> Result<Option<PathBuf>, EndpointError> {
    let Some(directory) = path.parent() else { return Ok(None) };
    if directory.is_dir() {
        return Ok(None);
    }
    // Any other missing directory is rather a typing error.
    if directory != own {
        return Err(EndpointError::NoDirectory(directory.to_owned()));
    }
    let system = |source| EndpointError::System { what: "make the directory", path: directory.to_owned(), source };
    match std::fs::create_dir(directory) {
        // Another daemon has made it since.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && directory.is_dir() => return Ok(None),
        made => made.map_err(system)?,
    }
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o755)).map_err(system)?;
    Ok(Some(directory.to_owned()))
}

/// Removes the socket of a service that is gone; refuses if one answers, or if it is something
/// else.
fn remove_stale(path: &Path) -> Result<(), EndpointError> {
    use std::os::unix::fs::FileTypeExt;
    let Ok(found) = std::fs::symlink_metadata(path) else { return Ok(()) };
    if !found.file_type().is_socket() {
        return Err(EndpointError::NotASocket(path.to_owned()));
    }
    let answers = seqpacket().is_ok_and(|probe| {
        UnixAddr::new(path)
            .is_ok_and(|address| !matches!(connect(probe.as_raw_fd(), &address), Err(nix::errno::Errno::ECONNREFUSED)))
    });
    if answers {
        return Err(EndpointError::Taken(format!("listens on {}", path.display())));
    }
    std::fs::remove_file(path).map_err(|source| EndpointError::System {
        what: "remove the stale socket",
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(path: PathBuf) -> SocketConfig {
        SocketConfig { path, group: None, mode: Some(0o640) }
    }

    #[test]
    fn the_socket_appears_with_its_mode_and_goes_with_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let own = root.path().join("run");
        let path = own.join("service.sock");
        let endpoint = Endpoint::open_with(&config(path.clone()), &own).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
        endpoint.listen().unwrap();
        assert!(matches!(Endpoint::open(&config(path.clone())), Err(EndpointError::Taken(_))));
        drop(endpoint);
        assert!(!path.exists() && !path.parent().unwrap().exists());
    }

    #[test]
    fn a_directory_that_is_not_there_is_a_slip_of_the_pen() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("rum").join("service.sock");
        let error = Endpoint::open(&config(path.clone())).unwrap_err();
        assert!(matches!(&error, EndpointError::NoDirectory(directory) if path.parent() == Some(directory)), "{error}");
        assert!(!path.parent().unwrap().exists());
    }

    #[test]
    fn a_stale_socket_is_replaced_and_a_file_is_not() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("service.sock");
        let stale = seqpacket().unwrap();
        bind(stale.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        drop(stale);
        let endpoint = Endpoint::open(&config(path.clone())).unwrap();
        drop(endpoint);
        std::fs::write(&path, "x").unwrap();
        assert!(matches!(Endpoint::open(&config(path.clone())), Err(EndpointError::NotASocket(_))));
        assert!(path.exists());
    }

    #[test]
    fn an_unknown_group_is_named() {
        let root = tempfile::tempdir().unwrap();
        let config = SocketConfig { group: Some("no-such-group".into()), ..config(root.path().join("s")) };
        let error = Endpoint::open(&config).unwrap_err().to_string();
        assert!(error.contains("groupadd --system no-such-group"), "{error}");
    }
}
