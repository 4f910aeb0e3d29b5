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

pub use accelerated_host::{AcceleratedHost, AcceleratedNic};

use self::core::Core;
use mailbox::Mailbox;
use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;
use tickwire_card_windows::card::PacketCard;
use tickwire_lane_windows::control::{ListenError, PipeListener, ServerChannel};
use tickwire_lane_windows::event::{WakeEvent, wait_for};
use tickwire_lane_windows::{clock, pulled_socket};

/// At most so many programs are connected at a time.
const MOST_CLIENTS: usize = 512;

/// What a service is made of.
pub struct ServiceParts {
    /// The name of its pipe.
    pub pipe: String,
    /// Which users may connect: a SID, or an abbreviation of SDDL (`AU`: all that have logged in).
    pub users: String,
    /// The network card that it accelerates.
    pub card: Box<dyn PacketCard>,
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
    /// Programs have put something into transmit rings, or the service ends.
    doorbell: WakeEvent,
    is_ending: AtomicBool,
}

impl Shared {
    /// The core, for one request. A request that has failed inside it leaves it usable: what it had
    /// begun ends with its lane.
    fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

struct ClientThread {
    mailbox: Arc<Mailbox>,
    thread: JoinHandle<()>,
}

/// A service that runs until it is dropped. Its lanes end with it.
pub struct WindowsService {
    listener: PipeListener,
    shared: Arc<Shared>,
    clients: Vec<ClientThread>,
    doorbell_thread: Option<JoinHandle<()>>,
}

impl WindowsService {
    /// Starts it.
    ///
    /// # Errors
    /// [`ServiceStartError`].
    pub fn start(parts: ServiceParts) -> Result<Self, ServiceStartError> {
        pulled_socket::start_winsock()?;
        let listener = PipeListener::new(&parts.pipe, &parts.users)?;
        let core = Core::start(parts.card, parts.host)?;
        let waker = core.packets_waker();
        let shared = Arc::new(Shared { core: Mutex::new(core), doorbell: WakeEvent::new()?, is_ending: false.into() });
        let rung = Arc::clone(&shared);
        let doorbell_thread = std::thread::Builder::new().name("doorbell".into()).spawn(move || {
            while let Ok(Some(_)) = wait_for(&[rung.doorbell.as_handle()], None)
                && !rung.is_ending.load(SeqCst)
            {
                waker.wake();
            }
        })?;
        Ok(Self { listener, shared, clients: Vec::new(), doorbell_thread: Some(doorbell_thread) })
    }

    /// Accepts programs until `stop` is signalled.
    ///
    /// # Errors
    /// If Windows cannot wait, or the network card is gone.
    pub fn run(&mut self, stop: BorrowedHandle<'_>) -> io::Result<()> {
        loop {
            let found = wait_for(&[stop, self.listener.event()], Some(Duration::from_secs(1)))?;
            if found == Some(0) {
                return Ok(());
            }
            if self.shared.core().has_lost_card() {
                return Err(io::Error::other("the network card, or its driver, is gone"));
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
        if self.clients.len() >= MOST_CLIENTS {
            tracing::warn!(process = channel.process_id(), "too many programs are connected: closing the connection");
            return;
        }
        let begin = || {
            let mailbox = Arc::new(Mailbox::new()?);
            let (shared, own) = (Arc::clone(&self.shared), Arc::clone(&mailbox));
            let thread = std::thread::Builder::new()
                .name("client".into())
                .spawn(move || client::serve(&shared, channel, &own))?;
            io::Result::Ok(ClientThread { mailbox, thread })
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
        for client in self.clients.drain(..) {
            let _ = client.thread.join();
        }
        self.shared.is_ending.store(true, SeqCst);
        self.shared.doorbell.set();
        if let Some(thread) = self.doorbell_thread.take() {
            let _ = thread.join();
        }
    }
}

/// The time of lanes in nanoseconds.
fn now_ns() -> u64 {
    clock::now().as_nanos()
}
