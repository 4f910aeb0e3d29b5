//! Which sockets of the lane are ready, and waiting for that.

use super::{Socket, WinsockError};
use crate::lane::{Access, Lane, Waited, lane};
use crate::real;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickwire_stack::{Ready, SocketId, StackError};

/// Where sockets of the kernel are waited for, too, they are looked at so often.
const SLICE: Duration = Duration::from_millis(2);

impl Socket {
    /// The socket in the stack; `None` if the kernel has it.
    pub(crate) fn on_lane(&self) -> Option<SocketId> {
        self.state().id()
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

    /// Makes a call on the lane as soon as it would return; `None` if it is the kernel's turn. What
    /// was there may have been taken by another thread: then both halves are waited for again.
    ///
    /// # Errors
    /// As for [`Self::wait_for_half`], and what the call says.
    pub(super) fn wait_with_half<T>(
        &self,
        lane: &Lane,
        (id, until): (SocketId, Option<Instant>),
        mut call: impl FnMut(&mut Access<'_>) -> Result<T, StackError>,
    ) -> Result<Option<T>, WinsockError> {
        loop {
            if !self.wait_for_half(id, until)? {
                return Ok(None);
            }
            if !self.has_kernel_half() {
                return self.wait(lane, until, call).map(Some);
            }
            match lane.enter(&mut call) {
                Err(StackError::WouldBlock) if lane.is_lost() => return Err(WinsockError::NETWORK_DOWN),
                // It is ready because nothing will come any more.
                Err(StackError::WouldBlock) if self.is_receive_shut() => return Err(WinsockError::SHUT),
                Err(StackError::WouldBlock) => (),
                result => return result.map(Some).map_err(WinsockError::from),
            }
        }
    }
}

/// The kernel's part of a wait for several sockets.
pub(crate) struct KernelPart {
    /// Sockets of the lane of which the kernel has a half. It tells when it has something for them.
    halves: Vec<Arc<Socket>>,
    /// There are others, which only the kernel has: they are asked for again and again.
    has_others: bool,
}

impl KernelPart {
    /// `None` if the kernel has no part.
    pub(crate) fn new(halves: Vec<Arc<Socket>>, has_others: bool) -> Option<Self> {
        if let Ok(lane) = lane() {
            halves.iter().for_each(|half| lane.watch_kernel_half(half.handle));
        }
        (has_others || !halves.is_empty()).then_some(Self { halves, has_others })
    }

    fn may_have(&self) -> bool {
        self.halves.iter().any(|half| half.kernel_may_have())
    }

    /// Asks the kernel which of its sockets are ready, if one may be.
    fn ask(&self, ask: &mut dyn FnMut() -> bool) -> bool {
        if !self.has_others && !self.may_have() {
            return false;
        }
        // Before it is asked: what it tells meanwhile counts.
        let told: Vec<u32> = self.halves.iter().map(|half| half.kernel_told()).collect();
        let is_any = ask();
        if !is_any {
            self.halves.iter().zip(told).for_each(|(half, told)| half.kernel_has_nothing(told));
        }
        is_any
    }
}

/// Waits until something is the case at the sockets of the lane, or `ask` says that one of the
/// kernel's is ready, or a time is over.
pub(crate) fn wait_until_ready(
    mut is_ready: impl FnMut(&mut Access<'_>) -> bool,
    (kernel, ask): (Option<&KernelPart>, &mut dyn FnMut() -> bool),
    until: Option<Instant>,
) {
    let Ok(lane) = lane() else { return };
    loop {
        let slice = kernel.filter(|kernel| kernel.has_others).map(|_| Instant::now() + SLICE);
        let next = [slice, until].into_iter().flatten().min();
        let waited = lane.wait(next, |access| {
            if is_ready(access) {
                return Some(true);
            }
            kernel.is_some_and(KernelPart::may_have).then_some(false)
        });
        let is_over = until.is_some_and(|until| Instant::now() >= until);
        let of_kernel = kernel.is_some_and(|kernel| kernel.ask(ask));
        if matches!(waited, Waited::Done(true) | Waited::Lost) || is_over || of_kernel {
            return;
        }
    }
}
