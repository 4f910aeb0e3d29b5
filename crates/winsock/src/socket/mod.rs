//! What calls on a socket do. A program's handle is a socket of the kernel; what this library does
//! for it is in [`Socket`].
//!
//! | module | purpose |
//! |---|---|
//! | `error` | errors of Winsock |
//! | `opening` | bind, listen, accept, connect: how a socket comes to the lane |
//! | `transfer` | sending and receiving |
//! | `events` | what happens while no thread waits |
//! | `kernel_row` | sockets that stay on the kernel are shown |
//! | `options` | the options of a socket |
//! | `readiness` | which sockets are ready |
//! | `closing` | shutdown and close |

mod closing;
mod error;
pub(crate) mod events;
mod kernel_row;
mod opening;
mod options;
pub(crate) mod readiness;
mod transfer;

pub(crate) use crate::hook::boundary::WinsockError;
pub(crate) use transfer::{ReceiveFlags, Received, is_of_kernel};

pub(crate) use crate::real::Kind;

use crate::real::Handle;
use crate::request::Requests;
use options::Settings;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tickwire_lane::control::{Claim, Reason};
use tickwire_stack::addr::Family;
use tickwire_stack::{ListenerId, TcpId, UdpId};
use windows_sys::Win32::Networking::WinSock::WSAEOPNOTSUPP;

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
pub(crate) struct PortInUse;

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
    /// The kernel may have something for its half.
    kernel_may_have: AtomicBool,
    /// What is received reports ports that are not there (`SIO_UDP_CONNRESET`).
    reports_unreachable: AtomicBool,
    is_nonblocking: AtomicBool,
    /// A UDP socket that is connected.
    has_peer: AtomicBool,
    /// Its connection has been established.
    is_established: AtomicBool,
    settings: Mutex<Settings>,
    /// How its connection has ended, if that was an error: a number of Winsock.
    error: AtomicI32,
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
            kernel_may_have: AtomicBool::new(true),
            reports_unreachable: AtomicBool::new(true),
            is_nonblocking: AtomicBool::new(false),
            has_peer: AtomicBool::new(false),
            is_established: AtomicBool::new(false),
            settings: Mutex::new(Settings::new(family)),
            error: AtomicI32::new(0),
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

    /// A program begins an overlapped operation, or asks for events: the kernel's part. A socket
    /// that is not on the lane yet stays with the kernel.
    ///
    /// # Errors
    /// If it is on the lane.
    pub(crate) fn refuse_overlapped(&self) -> Result<(), WinsockError> {
        let mut state = self.lock();
        match *state {
            State::Idle => {
                *state = State::Kernel { row: kernel_row::show(self, Reason::Option) };
                Ok(())
            }
            State::Kernel { .. } => Ok(()),
            _ => Err(WinsockError(WSAEOPNOTSUPP)),
        }
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

    /// `FIONBIO`.
    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) {
        self.is_nonblocking.store(is_nonblocking, Relaxed);
    }

    /// Whether calls do not wait.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Relaxed)
    }

    /// Whether the kernel has a part of the socket, which is to be looked at, too: it has what comes
    /// by the loopback (also for the host's other addresses), by other network cards, for groups,
    /// and what came before the port was claimed.
    pub(crate) fn has_kernel_half(&self) -> bool {
        match self.state() {
            State::Listener { .. } => true,
            State::Udp { .. } => !self.has_peer.load(Relaxed),
            State::Idle | State::Kernel { .. } | State::Tcp { .. } => false,
        }
    }

    /// Whether its connection has been established.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established.load(Relaxed)
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
