//! What calls on a socket do. A program's handle is a socket of the kernel; what this library does
//! for it is in [`Socket`].
//!
//! | module | purpose |
//! |---|---|
//! | `error` | errors of Winsock |
//! | `opening` | bind, listen, accept, connect: how a socket comes to the lane |
//! | `transfer` | sending and receiving |
//! | `events` | what happens while no thread waits |
//! | `noticing` | what is the case at a socket, and telling the program of it |
//! | `kernel_polling` | polling the kernel's sockets before a call sleeps |
//! | `kernel_row` | sockets that stay on the kernel are shown |
//! | `options` | the options of a socket |
//! | `readiness` | which sockets are ready |
//! | `request` | overlapped requests, completion ports |
//! | `poll` | waiting for sockets by polls of the driver |
//! | `table` | which handles are sockets of IP |
//! | `closing` | shutdown and close |
//! | `losing` | a claim that the service has ended |

mod closing;
mod error;
pub(crate) mod events;
pub(crate) mod kernel_polling;
mod kernel_row;
mod losing;
mod noticing;
mod opening;
mod options;
pub(crate) mod poll;
pub(crate) mod readiness;
pub(crate) mod request;
pub(crate) mod table;
mod transfer;

pub(crate) use crate::hook::boundary::WinsockError;
pub(crate) use transfer::{ReceiveFlags, Received, is_of_kernel};

pub(crate) use crate::real::Kind;

use crate::notice::Notices;
use crate::real::Handle;
use options::Settings;
use request::Requests;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tickwire_lane::control::{Claim, Reason};
use tickwire_stack::addr::Family;
use tickwire_stack::{ListenerId, TcpId, UdpId};

/// The outcome of a call: of this library's, or the kernel is to do it.
pub(crate) type Outcome<T> = Result<Handled<T>, WinsockError>;

/// What has done a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Handled<T> {
    /// This library has.
    Ours(T),
    /// The kernel is to do it: the socket is the kernel's.
    Kernel,
}

impl<T> Handled<T> {
    /// As the C boundary has it: `None` if the kernel is to do it.
    pub(crate) fn ours(self) -> Option<T> {
        match self {
            Self::Ours(value) => Some(value),
            Self::Kernel => None,
        }
    }
}

/// What a socket is at present.
#[derive(Clone, Copy, Debug)]
pub(crate) enum State {
    /// It has been made, and perhaps bound.
    Idle,
    /// The kernel has it.
    Kernel {
        /// Its row in the lane's table.
        row: Option<usize>,
        /// Why.
        reason: Reason,
    },
    /// A UDP socket on the lane.
    Udp {
        /// In the stack.
        id: UdpId,
        /// Its port.
        claim: Claim,
    },
    /// A listener on the lane.
    Listener {
        /// In the stack.
        id: ListenerId,
        /// Its port.
        claim: Claim,
    },
    /// A connection on the lane.
    Tcp {
        /// In the stack.
        id: TcpId,
        /// Its flow; `None` for one that a listener has accepted.
        claim: Option<Claim>,
    },
}

/// A port, counted by those that use it.
#[derive(Debug, Default)]
pub(crate) struct PortInUse {
    /// The claim under which a listener's connections are accepted.
    listeners: OnceLock<Claim>,
}

/// A socket of IP.
#[derive(Debug)]
pub(crate) struct Socket {
    /// The program's handle.
    pub(crate) handle: Handle,
    /// Its family.
    pub(crate) family: Family,
    /// Its kind.
    pub(crate) kind: Kind,
    state: Mutex<State>,
    /// Stands for the socket's port: a connection that a listener has accepted has the listener's.
    port: Mutex<Arc<PortInUse>>,
    /// Overlapped requests.
    pub(crate) requests: Mutex<Requests>,
    /// How often the kernel has told that it has something for its half, and how often it had when
    /// it was found to have nothing.
    kernel_told: AtomicU32,
    kernel_heard: AtomicU32,
    /// What is received reports ports that are not there (`SIO_UDP_CONNRESET`).
    reports_unreachable: AtomicBool,
    is_nonblocking: AtomicBool,
    /// It is on the lane, and the kernel has a part of it, too: [`Socket::has_kernel_half`].
    has_kernel_half: AtomicBool,
    /// Its connection has been established.
    is_established: AtomicBool,
    /// When that was seen first.
    established_at: Mutex<Option<Instant>>,
    /// The program has shut a direction of its connection, or of its datagrams.
    is_receive_shut: AtomicBool,
    is_send_shut: AtomicBool,
    settings: Mutex<Settings>,
    /// The error by which the connection has ended, once a call has returned it.
    failure: AtomicI32,
    /// The listener of which a request accepts for this socket; 0: there is none.
    accepts_of: AtomicUsize,
    /// The network events that the program asks for.
    notices: Notices,
    /// In milliseconds; 0: without end.
    receive_timeout: AtomicU32,
    send_timeout: AtomicU32,
}

impl Socket {
    /// A socket that the kernel has made.
    pub(crate) fn new(handle: Handle, family: Family, kind: Kind) -> Self {
        Self {
            handle,
            family,
            kind,
            state: Mutex::new(State::Idle),
            port: Mutex::default(),
            requests: Mutex::default(),
            // It may have something from the beginning.
            kernel_told: AtomicU32::new(1),
            kernel_heard: AtomicU32::new(0),
            reports_unreachable: AtomicBool::new(true),
            is_nonblocking: AtomicBool::new(false),
            has_kernel_half: AtomicBool::new(false),
            is_established: AtomicBool::new(false),
            established_at: Mutex::default(),
            is_receive_shut: AtomicBool::new(false),
            is_send_shut: AtomicBool::new(false),
            settings: Mutex::new(Settings::new(family)),
            failure: AtomicI32::new(0),
            accepts_of: AtomicUsize::new(0),
            notices: Notices::default(),
            receive_timeout: AtomicU32::new(0),
            send_timeout: AtomicU32::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it is now.
    pub(crate) fn state(&self) -> State {
        *self.lock()
    }

    fn port(&self) -> Arc<PortInUse> {
        Arc::clone(&self.port.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// `SIO_UDP_CONNRESET`.
    pub(crate) fn report_unreachable(&self, does: bool) {
        self.reports_unreachable.store(does, Relaxed);
    }

    /// Whether receiving reports that a datagram has found no port at its destination.
    pub(crate) fn reports_unreachable(&self) -> bool {
        self.reports_unreachable.load(Relaxed)
    }

    /// Whether the program has shut receiving: then it gets nothing, also of what is there.
    pub(crate) fn is_receive_shut(&self) -> bool {
        self.is_receive_shut.load(Relaxed)
    }

    /// `FIONBIO`.
    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) {
        self.is_nonblocking.store(is_nonblocking, Relaxed);
    }

    /// Whether calls do not wait.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Relaxed)
    }

    /// Whether the kernel has a part of the socket, which is to be looked at, too: what is sent by
    /// the loopback (also to the host's own addresses), what comes by other network cards or for
    /// groups, and what came before the port was claimed. (No lock is taken: others may be held.)
    pub(crate) fn has_kernel_half(&self) -> bool {
        self.has_kernel_half.load(Relaxed)
    }

    /// A request of this listener accepts for the socket.
    pub(crate) fn accept_of(&self, listener: Handle) {
        self.accepts_of.store(listener, Relaxed);
    }

    /// The listener of which a request may accept for the socket.
    pub(crate) fn accepts_of(&self) -> Option<Handle> {
        Some(self.accepts_of.load(Relaxed)).filter(|listener| *listener != 0)
    }

    /// Whether its connection has been established.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established.load(Relaxed)
    }

    fn established(&self) {
        if !self.is_established.swap(true, Relaxed) {
            *self.established_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
    }

    /// For how many seconds its connection has been there; `None` without one.
    pub(crate) fn connect_time_s(&self) -> Option<u32> {
        let since = *self.established_at.lock().unwrap_or_else(PoisonError::into_inner);
        since.filter(|_| self.is_established()).map(|since| since.elapsed().as_secs().try_into().unwrap_or(u32::MAX))
    }

    fn receive_until(&self) -> Option<Instant> {
        until(self.receive_timeout.load(Relaxed))
    }

    fn send_until(&self) -> Option<Instant> {
        until(self.send_timeout.load(Relaxed))
    }
}

fn until(time_ms: u32) -> Option<Instant> {
    (time_ms > 0).then(|| Instant::now() + Duration::from_millis(time_ms.into()))
}
