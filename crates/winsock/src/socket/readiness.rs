//! Which sockets of the lane are ready, and waiting for that.

use super::{Socket, State, WinsockError};
use crate::lane::{Waited, lane};
use crate::real;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tickwire_stack::{Ready, SocketId};

/// Where sockets of the kernel are waited for, too, they are looked at so often.
const SLICE: Duration = Duration::from_millis(2);

impl Socket {
    /// The socket in the stack; `None` if the kernel has it.
    pub(crate) fn on_lane(&self) -> Option<SocketId> {
        match self.state() {
            State::Idle | State::Kernel { .. } => None,
            State::Udp { id, .. } => Some(id.into()),
            State::Listener { id, .. } => Some(id.into()),
            State::Tcp { id, .. } => Some(id.into()),
        }
    }
}

impl Socket {
    /// Waits until the stack or the kernel has something for a socket of which each has a half.
    /// Returns whether it is the stack's turn: always, if the kernel has none.
    ///
    /// # Errors
    /// If the time is over, or the socket does not block.
    pub(super) fn wait_for_half(&self, id: SocketId, until: Option<Instant>) -> Result<bool, WinsockError> {
        const READABLE: Ready = Ready(Ready::IN.0 | Ready::ERR.0 | Ready::HUP.0);
        if !self.has_kernel_half() {
            return Ok(true);
        }
        let lane = lane().map_err(|_| WinsockError::NETWORK_DOWN)?;
        lane.watch_kernel_half(self.handle);
        let until = if self.is_nonblocking() { Some(Instant::now()) } else { until };
        loop {
            let whose = lane.wait(until, |access| {
                let ready = access.stack.readiness(id).unwrap_or(Ready::ERR);
                if ready.0 & READABLE.0 != 0 { Some(true) } else { self.kernel_may_have().then_some(false) }
            });
            match whose {
                Waited::Done(true) => return Ok(true),
                Waited::Done(false) => {
                    let readable = || real::is_readable(self.handle).then_some(()).ok_or(WinsockError::WOULD_BLOCK);
                    if self.ask_kernel(readable).is_some() {
                        return Ok(false);
                    }
                }
                Waited::TimedOut if self.is_nonblocking() => return Err(WinsockError::WOULD_BLOCK),
                Waited::TimedOut => return Err(WinsockError::TIMED_OUT),
                Waited::Lost => return Err(WinsockError::NETWORK_DOWN),
            }
        }
    }

    /// What a program is told of a socket's readiness. An attempt to connect that has failed is an
    /// error and nothing else; and a connection that has failed later can be read from.
    pub(crate) fn shown(&self, ready: Ready) -> Ready {
        let has_failed = ready.contains(Ready::ERR);
        match self.state() {
            State::Tcp { .. } if has_failed && !self.is_established() => Ready::ERR,
            State::Tcp { .. } if has_failed => Ready(ready.0 & !Ready::ERR.0 | Ready::IN.0),
            State::Tcp { .. } if ready.contains(Ready::OUT) => {
                self.is_established.store(true, Relaxed);
                ready
            }
            _ => ready,
        }
    }
}

/// The readiness of sockets of the lane, in their order. One that is not there any more has an
/// error.
pub(crate) fn readiness(sockets: &[SocketId]) -> Vec<Ready> {
    const LOST: Ready = Ready(Ready::IN.0 | Ready::OUT.0 | Ready::ERR.0);
    let lane = match lane() {
        Ok(lane) if !lane.is_lost() => lane,
        _ => return vec![LOST; sockets.len()],
    };
    lane.enter(|access| sockets.iter().map(|id| access.stack.readiness(*id).unwrap_or(Ready::ERR)).collect())
}

/// Waits until one of these sockets of the lane has one of its bits, or `kernel` says that one of
/// the kernel is ready, or a time is over. `kernel` is `None` if there is none of the kernel.
pub(crate) fn wait_until_ready(
    sockets: &[(SocketId, Ready)],
    kernel: Option<&mut dyn FnMut() -> bool>,
    until: Option<Instant>,
) {
    let Ok(lane) = lane() else { return };
    let mut kernel = kernel;
    loop {
        let slice = kernel.as_ref().map(|_| Instant::now() + SLICE);
        let next = [slice, until].into_iter().flatten().min();
        let waited = lane.wait(next, |access| {
            let is_ready = sockets.iter().any(|(id, wanted)| {
                let ready = access.stack.readiness(*id).unwrap_or(Ready::ERR);
                ready.0 & wanted.0 != 0
            });
            is_ready.then_some(())
        });
        let is_over = until.is_some_and(|until| Instant::now() >= until);
        let of_kernel = kernel.as_mut().is_some_and(|is_ready| is_ready());
        if waited != Waited::TimedOut || is_over || of_kernel {
            return;
        }
    }
}
