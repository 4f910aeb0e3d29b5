//! The service: it accepts programs, and gives them lanes and claims.
//!
//! | module | purpose |
//! |---|---|
//! | `accelerated_host` | addresses of the network card, and paths by it |
//! | `core` | lanes and claims, and the thread that moves packets: one owner for all of it |
//! | `lane_grant` | a new lane: its memory and events, and what its program gets of them |
//! | `client` | one program's connection, on a thread of its own |
//! | `mailbox` | what other threads have for a client |

mod accelerated_host;
mod client;
mod core;
mod lane_grant;
mod mailbox;

pub use accelerated_host::AcceleratedHost;

use self::core::Core;
use mailbox::Mailbox;
use std::io;
use std::os::windows::io::BorrowedHandle;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tickwire_card_windows::card::PacketCard;
use tickwire_lane_windows::control::{ListenError, PipeListener, ServerChannel};
use tickwire_lane_windows::event::wait_for;
use tickwire_lane_windows::{clock, pulled_socket};

/// At most so many programs are connected at a time.
const MOST_CLIENTS: usize = 512;

/// At most so many of them are of one process.
const MOST_OF_PROCESS: usize = 8;

/// How often addresses and routes are read again.
const REFRESH: Duration = Duration::from_secs(1);

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
}

impl Shared {
    /// The core, for one request. A request that has failed inside it leaves it usable: what it had
    /// begun ends with its lane.
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
}

impl WindowsService {
    /// Starts it.
    ///
    /// # Errors
    /// [`ServiceStartError`].
    pub fn start(parts: ServiceParts) -> Result<Self, ServiceStartError> {
        pulled_socket::start_winsock()?;
        let listener = PipeListener::new(&parts.pipe, &parts.users)?;
        let core = Core::start(parts.card, parts.driver, parts.host)?;
        let shared = Arc::new(Shared { core: Mutex::new(core) });
        Ok(Self { listener, shared, clients: Vec::new() })
    }

    /// Accepts programs until `stop` is signalled.
    ///
    /// # Errors
    /// If Windows cannot wait, or the network card is gone.
    pub fn run(&mut self, stop: BorrowedHandle<'_>) -> io::Result<()> {
        let mut refreshed = Instant::now();
        loop {
            let found = wait_for(&[stop, self.listener.event()], Some(REFRESH))?;
            if found == Some(0) {
                return Ok(());
            }
            if self.shared.core().has_lost_card() {
                return Err(io::Error::other("the network card, or its driver, is gone"));
            }
            if refreshed.elapsed() >= REFRESH {
                self.shared.core().refresh();
                refreshed = Instant::now();
            }
            self.clients.retain(|client| !client.thread.is_finished());
            match self.listener.accept() {
                Ok(Some(channel)) => self.serve(channel),
                Ok(None) => (),
                Err(error) => tracing::warn!(%error, "a program could not connect"),
            }
        }
    }

    /// Serves a program on a thread of its own.
    fn serve(&mut self, channel: ServerChannel) {
        let process = channel.process_id();
        let of_process = self.clients.iter().filter(|client| client.process == process).count();
        if self.clients.len() >= MOST_CLIENTS || of_process >= MOST_OF_PROCESS {
            tracing::warn!(process, "too many connections: closing this one");
            return;
        }
        let begin = || {
            let mailbox = Arc::new(Mailbox::new()?);
            let (shared, own) = (Arc::clone(&self.shared), Arc::clone(&mailbox));
            let thread = std::thread::Builder::new()
                .name("client".into())
                .spawn(move || client::serve(&shared, channel, &own))?;
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
