//! The service: it accepts programs, and gives them lanes and claims.
//!
//! | module | purpose |
//! |---|---|
//! | `accelerated_host` | addresses of the network card, and paths by it |
//! | `core` | lanes and claims, and the thread that moves packets: one owner for all of it |
//! | `lane_grant` | a new lane: its memory and events, and what its program gets of them |
//! | `capture` | a capture: whose packets, its memory, and what its reader gets |
//! | `client` | one program's connection, on a thread of its own |
//! | `recheck` | claims that the firewall would not let in any more |
//! | `handle_thread` | calls of Windows about handles of programs |
//! | `mailbox` | what other threads have for a client |

mod accelerated_host;
mod capture;
mod client;
mod core;
mod handle_thread;
mod lane_grant;
mod mailbox;
mod recheck;

pub use accelerated_host::AcceleratedHost;

use self::core::Core;
use crate::users::{Resource, User, UserShare, Users};
use mailbox::Mailbox;
use recheck::Recheck;
use std::io;
use std::ops::RangeInclusive;
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tickwire_card_windows::card::PacketCard;
use tickwire_host_windows::{ChangedTables, Changes, Firewall};
use tickwire_lane::control::{Push, Reason};
use tickwire_lane_windows::control::{ListenError, PipeListener, ServerChannel};
use tickwire_lane_windows::event::wait_for;
use tickwire_lane_windows::process_user::user_of;
use tickwire_lane_windows::{clock, pulled_socket};

/// At most so many programs are connected at a time.
const MOST_CLIENTS: usize = 512;

/// At most so many of them are of one process.
const MOST_OF_PROCESS: usize = 8;

/// How often the service looks after its card and the driver. Addresses and routes are read so
/// often where Windows announces no changes.
const REFRESH: Duration = Duration::from_secs(1);

/// How often they are read where Windows announces changes, in case one is missing.
const REFRESH_ANNOUNCED: Duration = Duration::from_secs(10);

/// The shortest time from one reading to the next. It doubles, up to [`REFRESH`], while changes go
/// on: any router of the link can cause them.
const SOONEST: Duration = Duration::from_millis(50);

/// For so long the end of the service waits for its threads.
const LONGEST_STOP: Duration = Duration::from_secs(5);

/// What a service is made of.
pub struct ServiceParts {
    /// The name of its pipe.
    pub pipe: String,
    /// Which users may connect: a SID, or an abbreviation of SDDL (`AU`: all that have logged in).
    pub users: String,
    /// The network card that it accelerates.
    pub card: Box<dyn PacketCard>,
    /// The name of its driver, for display.
    pub driver: &'static str,
    /// The host that the card is in.
    pub host: AcceleratedHost,
    /// What is asked before a port is claimed.
    pub firewall: Arc<dyn Firewall>,
    /// The block of ports that is offered for connections; `None`: Windows chooses all ports.
    pub ports: Option<RangeInclusive<u16>>,
}

/// Why a service did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServiceStartError {
    /// Its pipe cannot be made.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Windows refuses something else.
    #[error("the service cannot start: {0}")]
    Windows(#[from] io::Error),
}

/// What the threads of a service share.
struct Shared {
    core: Mutex<Core>,
    firewall: Arc<dyn Firewall>,
    users: Users,
}

impl Shared {
    /// The core, for one request. A request that has failed inside it leaves it usable: what it had
    /// begun ends with its lane.
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the thread of a connection has from the beginning.
struct ClientOf {
    user: User,
    /// The connection counts for the user.
    _share: UserShare,
}

struct ClientThread {
    process: u32,
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

/// A service that runs until it is dropped. Its lanes end with it.
pub struct WindowsService {
    listener: PipeListener,
    shared: Arc<Shared>,
    clients: Vec<ClientThread>,
    _recheck: Recheck,
}

impl WindowsService {
    /// Starts it.
    ///
    /// # Errors
    /// [`ServiceStartError`].
    pub fn start(parts: ServiceParts) -> Result<Self, ServiceStartError> {
        pulled_socket::start_winsock()?;
        let listener = PipeListener::new(&parts.pipe, &parts.users)?;
        let core = Core::start(parts.card, parts.driver, parts.host, parts.ports)?;
        let shared = Arc::new(Shared { core: Mutex::new(core), firewall: parts.firewall, users: Users::default() });
        let recheck = Recheck::start(&shared)?;
        Ok(Self { listener, shared, clients: Vec::new(), _recheck: recheck })
    }

    /// Accepts programs until `stop` is signalled.
    ///
    /// # Errors
    /// If Windows cannot wait, or the network card is gone.
    pub fn run(&mut self, stop: BorrowedHandle<'_>) -> io::Result<()> {
        let changes = Changes::start();
        let often = if changes.is_some() { REFRESH_ANNOUNCED } else { REFRESH };
        let (mut looked, mut refreshed) = (Instant::now(), Instant::now());
        // What has changed since the tables were read first was not announced.
        let (mut has_changed, mut pause) = (changes.is_some(), SOONEST);
        loop {
            let announced = changes.as_ref().map(AsHandle::as_handle);
            let events: Vec<_> = [stop, self.listener.event()].into_iter().chain(announced).collect();
            if wait_for(&events, Some(if has_changed { pause } else { REFRESH }))? == Some(0) {
                return Ok(());
            }
            has_changed |= changes.as_ref().is_some_and(|changes| changes.take() != ChangedTables::default());
            if refreshed.elapsed() >= if has_changed { pause } else { often } {
                // (After a failure it is tried again, ever later.)
                let is_calm = !has_changed || refreshed.elapsed() >= 2 * REFRESH;
                pause = if is_calm { SOONEST } else { (2 * pause).min(REFRESH) };
                has_changed = !self.shared.core().refresh();
                refreshed = Instant::now();
            }
            // Not for each program that connects: the core may be busy with others' claims.
            if looked.elapsed() >= REFRESH {
                if self.shared.core().has_lost_card() {
                    return Err(io::Error::other("the network card, or its driver, is gone"));
                }
                self.shared.core().leave_ports();
                looked = Instant::now();
            }
            self.clients.retain(|client| !client.thread.is_finished());
            match self.listener.accept() {
                Ok(Some(channel)) => self.serve(channel),
                Ok(None) => (),
                Err(error) => tracing::warn!(%error, "a program could not connect"),
            }
        }
    }

    /// Whether there may be one more connection of a process.
    fn share_of(&self, process: u32, user: &User) -> Result<UserShare, Reason> {
        let of_process = self.clients.iter().filter(|client| client.process == process).count();
        if self.clients.len() >= MOST_CLIENTS || of_process >= MOST_OF_PROCESS {
            return Err(Reason::ConnectionLimit);
        }
        self.shared.users.take(&user.id, Resource::Connection)
    }

    /// Serves a program on a thread of its own.
    fn serve(&mut self, mut channel: ServerChannel) {
        let process = channel.process_id();
        let user = user_of(channel.process())
            .map(|user| User { id: user.sid.into(), is_administrator: user.is_administrator });
        let user = user.inspect_err(|error| tracing::debug!(process, %error, "a program's user is not known"));
        let user = user.unwrap_or_else(|_| User::unknown());
        let share = match self.share_of(process, &user) {
            Ok(share) => share,
            Err(reason) => {
                tracing::warn!(process, %reason, "a connection is closed");
                // If the program does not hear it, it sees the end.
                let _ = channel.send(&Push::Closing { reason }, 0, &[]);
                return;
            }
        };
        let client = ClientOf { user, _share: share };
        let begin = || {
            let mailbox = Arc::new(Mailbox::new()?);
            let (shared, own) = (Arc::clone(&self.shared), Arc::clone(&mailbox));
            let thread = std::thread::Builder::new()
                .name("client".into())
                .spawn(move || client::serve(&shared, channel, own, client))?;
            io::Result::Ok(ClientThread { process, mailbox, thread })
        };
        match begin() {
            Ok(client) => self.clients.push(client),
            Err(error) => tracing::warn!(%error, "a program could not connect"),
        }
    }
}

impl Drop for WindowsService {
    fn drop(&mut self) {
        for client in &self.clients {
            client.mailbox.end();
        }
        // One that Windows keeps waiting, in a call about a handle that a program has passed, is
        // not waited for.
        let begin = Instant::now();
        while begin.elapsed() < LONGEST_STOP && self.clients.iter().any(|client| !client.thread.is_finished()) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}

/// The time of lanes in nanoseconds.
fn now_ns() -> u64 {
    clock::now().as_nanos()
}
