//! Events of sockets for which no thread waits: overlapped requests and notices do. They are
//! collected whenever the stack has run, and delivered where the thread holds no lock.

use super::{Core, Lane};
use crate::real::Handle;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{OnceLock, PoisonError, TryLockError};
use tickwire_lane::control::{Claim, Reason};
use tickwire_stack::epoll_sets::{Interest, WatchError};
use tickwire_stack::{Ready, SetId, SocketId, Stack};

/// What has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happened {
    /// Something has happened at a socket: it may be ready.
    InStack(Handle),
    /// The kernel has something for its half of a socket.
    InKernel(Handle),
    /// The service has ended a claim, for this reason.
    ClaimLost(Claim, Reason),
    /// The lane is lost.
    Loss,
    /// The alarm has rung.
    Alarm,
}

/// Is told what has happened. It may use the lane.
pub(crate) type Receiver = fn(Happened);

static RECEIVER: OnceLock<Receiver> = OnceLock::new();

/// The first receiver stays.
pub(crate) fn deliver_to(receiver: Receiver) {
    let _ = RECEIVER.set(receiver);
}

/// What the lane's lock protects of this.
#[derive(Debug)]
pub(super) struct Events {
    /// The sockets of which events are collected.
    watched: SetId,
    collected: Vec<Happened>,
}

impl Events {
    pub(super) fn new(stack: &mut Stack<'_>) -> Result<Self, WatchError> {
        Ok(Self { watched: stack.set_create()?, collected: Vec::new() })
    }
}

impl Lane {
    /// From now on events of a socket are delivered with this handle; one at once, if it is ready.
    /// A socket that is watched already stays so.
    ///
    /// # Errors
    /// If the socket is gone, or the stack can watch no more.
    pub(crate) fn watch(&self, id: SocketId, handle: Handle) -> Result<(), WatchError> {
        const ALL: Ready = Ready(Ready::IN.0 | Ready::OUT.0 | Ready::RDHUP.0);
        let mut core = self.lock();
        let Core { stack, events, .. } = &mut *core;
        match stack.item_add(events.watched, id, handle as u64, Interest::edge(ALL), handle as u64) {
            Err(WatchError::Exists) => Ok(()),
            done => {
                self.collect(&mut core);
                done
            }
        }
    }

    /// Events of a socket are no longer delivered with this handle.
    pub(crate) fn unwatch(&self, id: SocketId, handle: Handle) {
        let mut core = self.lock();
        let Core { stack, events, .. } = &mut *core;
        let _ = stack.item_delete(events.watched, id, handle as u64);
    }

    /// Collects what has happened since the last call.
    pub(super) fn collect(&self, core: &mut Core) {
        let Core { stack, events: Events { watched, collected }, .. } = core;
        let _ = stack.set_wait(*watched, usize::MAX, |event| collected.push(Happened::InStack(event.data as Handle)));
        if !collected.is_empty() {
            self.has_events.store(true, Release);
        }
    }

    /// Delivers soon that something has happened at a socket. The caller may hold locks.
    pub(crate) fn note(&self, handle: Handle) {
        self.lock().events.collected.push(Happened::InStack(handle));
        self.has_events.store(true, Release);
    }

    /// Delivers what has been collected, unless another thread does so. The caller holds no lock.
    pub(crate) fn deliver(&self) {
        while self.has_events.load(Acquire) {
            let _delivering = match self.delivering.try_lock() {
                Ok(delivering) => delivering,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // It looks again when it is done.
                Err(TryLockError::WouldBlock) => return,
            };
            let collected = {
                let mut core = self.lock();
                self.has_events.store(false, Release);
                std::mem::take(&mut core.events.collected)
            };
            if let Some(receiver) = RECEIVER.get() {
                collected.into_iter().for_each(receiver);
            }
        }
    }

    /// Delivers that the kernel has something for its half of a socket.
    pub(super) fn deliver_kernel_halves(&self) {
        self.lock().events.collected.extend(self.kernel_halves.all().into_iter().map(Happened::InKernel));
        self.has_events.store(true, Release);
        self.deliver();
    }

    /// The service has ended claims: that is to be delivered.
    pub(super) fn note_lost_claims(&self, core: &mut Core, lost: Vec<(Claim, Reason)>) {
        if !lost.is_empty() {
            core.events.collected.extend(lost.into_iter().map(|(claim, reason)| Happened::ClaimLost(claim, reason)));
            self.has_events.store(true, Release);
        }
    }

    /// Delivers that the lane is lost, or that the alarm has rung.
    pub(super) fn deliver_at_once(&self, what: Happened) {
        let _delivering = self.delivering.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(receiver) = RECEIVER.get() {
            receiver(what);
        }
    }
}
