//! What calls on a socket do. A program's handle is a socket of the kernel; what this library does
//! for it is in [`Socket`].
//!
//! | module | purpose |
//! |---|---|
//! | `error` | errors of Winsock |
//! | `opening` | bind, listen, accept, connect: how a socket comes to the lane |
//! | `transfer` | sending and receiving |
//! | `kernel_row` | sockets that stay on the kernel are shown |
//! | `readiness` | which sockets are ready |
//! | `closing` | shutdown and close |

mod closing;
mod error;
mod kernel_row;
mod opening;
pub(crate) mod readiness;
mod transfer;

pub(crate) use crate::hook::boundary::WinsockError;
pub(crate) use transfer::{ReceiveFlags, Received};

pub(crate) use crate::real::Kind;

use crate::lane::lane_if_begun;
use crate::real::Handle;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tickwire_lane::control::{Claim, Reason};
use tickwire_stack::addr::Family;
use tickwire_stack::tcp::TcpSetting;
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
pub(crate) struct Socket {
    /// The program's handle.
    pub(crate) handle: Handle,
    /// Its family.
    pub(crate) family: Family,
    /// Its kind.
    pub(crate) kind: Kind,
    state: Mutex<State>,
    /// Stands for the socket's port: a connection that a listener has accepted has the listener's.
    port: Arc<PortInUse>,
    is_nonblocking: AtomicBool,
    /// It is bound to any address: what comes by others than the accelerated card is the kernel's.
    has_kernel_half: AtomicBool,
    /// Its connection has been established.
    is_established: AtomicBool,
    /// `TCP_NODELAY`.
    is_prompt: AtomicBool,
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
            port: Arc::default(),
            is_nonblocking: AtomicBool::new(false),
            has_kernel_half: AtomicBool::new(false),
            is_established: AtomicBool::new(false),
            is_prompt: AtomicBool::new(false),
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

    /// `FIONBIO`.
    pub(crate) fn set_nonblocking(&self, is_nonblocking: bool) {
        self.is_nonblocking.store(is_nonblocking, Relaxed);
    }

    /// Whether calls do not wait.
    pub(crate) fn is_nonblocking(&self) -> bool {
        self.is_nonblocking.load(Relaxed)
    }

    /// Whether the kernel has a part of the socket, which is to be looked at, too.
    pub(crate) fn has_kernel_half(&self) -> bool {
        self.has_kernel_half.load(Relaxed)
    }

    /// `TCP_NODELAY`, for connections to come; and for the present one.
    pub(crate) fn set_prompt(&self, is_prompt: bool) {
        self.is_prompt.store(is_prompt, Relaxed);
        if let (State::Tcp { id, .. }, Some(lane)) = (self.state(), lane_if_begun()) {
            let setting = TcpSetting::NoDelay(is_prompt);
            let _ = lane.enter(|access| access.stack.tcp_set(id, access.now, setting));
        }
    }

    /// Whether its connection has been established.
    pub(crate) fn is_established(&self) -> bool {
        self.is_established.load(Relaxed)
    }

    /// `SO_RCVTIMEO`, in milliseconds.
    pub(crate) fn set_receive_timeout(&self, time_ms: u32) {
        self.receive_timeout.store(time_ms, Relaxed);
    }

    /// `SO_SNDTIMEO`, in milliseconds.
    pub(crate) fn set_send_timeout(&self, time_ms: u32) {
        self.send_timeout.store(time_ms, Relaxed);
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
