//! The requests of a socket that are not complete, in their order; and their cancellation.

use super::accept::Accept;
use super::connect::Connect;
use super::receive::Receive;
use super::send::Send;
use super::{Ended, HandleMode, Request};
use crate::hook::boundary::WinsockError;
use crate::lane::{Lane, lane_if_begun};
use crate::real::Handle;
use crate::socket::Socket;
use std::collections::VecDeque;
use std::sync::{MutexGuard, PoisonError};
use windows_sys::Win32::Networking::WinSock::WSA_OPERATION_ABORTED;

/// What a request does.
#[derive(Debug)]
pub(crate) enum Work {
    /// It receives.
    Receive(Receive),
    /// It sends.
    Send(Send),
    /// It connects.
    Connect(Connect),
    /// It accepts.
    Accept(Accept),
    /// There is nothing left to do.
    Nothing,
}

impl Work {
    fn attempt(&mut self, socket: &Socket, lane: &Lane) -> Option<Ended> {
        if lane.is_lost() {
            return Some(Ended::failed(WinsockError::NETWORK_DOWN));
        }
        match self {
            Self::Receive(receive) => receive.attempt(socket, lane),
            Self::Send(send) => send.attempt(socket, lane),
            Self::Connect(connect) => connect.attempt(socket, lane),
            Self::Accept(accept) => accept.attempt(socket, lane),
            Self::Nothing => Some(Ended::done(0)),
        }
    }

    /// Requests of one direction are completed in their order.
    fn direction(&self) -> usize {
        match self {
            Self::Receive(_) => 0,
            Self::Send(_) | Self::Connect(_) | Self::Nothing => 1,
            Self::Accept(_) => 2,
        }
    }
}

/// A request that waits.
#[derive(Debug)]
struct Pending {
    request: Request,
    work: Work,
}

/// The requests of a socket, by direction; and how its handle tells of their completion.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    queues: [VecDeque<Pending>; 3],
    mode: HandleMode,
}

/// What has become of a request at first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is complete.
    Done(Ended),
    /// It has failed. The program is told by the call, and by nothing else.
    Failed(Ended),
    /// The program is told later.
    Pending,
}

impl Socket {
    fn requests(&self) -> MutexGuard<'_, Requests> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a request on a socket of the lane.
    pub(crate) fn begin_request(&self, request: Request, work: Work, lane: &Lane) -> Begun {
        if self.has_kernel_half() {
            // From then on asking the kernel does not block.
            lane.watch_kernel_half(self.handle);
        }
        let mut requests = self.requests();
        let Requests { queues, mode } = &mut *requests;
        let queue = &mut queues[work.direction()];
        let mut work = work;
        if queue.is_empty()
            && let Some(ended) = work.attempt(self, lane)
        {
            // A warning (a datagram that was cut) is both: the call fails, and the request is
            // complete.
            let is_error = ended.status.cast_unsigned() >> 30 == 3;
            if is_error && matches!(work, Work::Connect(_)) {
                // Windows tells by the request what an attempt to connect has met.
                request.complete(ended, mode, false);
                return Begun::Pending;
            }
            if is_error {
                request.fail(ended);
            } else {
                request.complete(ended, mode, true);
            }
            return if ended.status < 0 { Begun::Failed(ended) } else { Begun::Done(ended) };
        }
        queue.push_back(Pending { request, work });
        // What happens from now on waits for the queue's lock.
        if let Some(id) = self.on_lane() {
            let _ = lane.watch(id, self.handle);
        }
        Begun::Pending
    }

    /// Tries again what waits.
    pub(crate) fn advance(&self) {
        let Some(lane) = lane_if_begun() else { return };
        let mut is_any_done = false;
        {
            let mut requests = self.requests();
            let Requests { queues, mode } = &mut *requests;
            for queue in queues {
                let mut place = 0;
                while let Some(pending) = queue.get_mut(place) {
                    match (pending.work.attempt(self, lane), &pending.work) {
                        (Some(ended), _) => {
                            if let Some(Pending { request, .. }) = queue.remove(place) {
                                request.complete(ended, mode, false);
                                is_any_done = true;
                            }
                        }
                        // Its connection is there. The next one may be, too.
                        (None, Work::Accept(accept)) if accept.is_taken() => place += 1,
                        (None, _) => break,
                    }
                }
            }
        }
        if is_any_done {
            // A thread may wait for a request without an event.
            lane.wake_all();
        }
    }

    /// Ends requests without their being done. Returns whether there were any.
    pub(crate) fn cancel(&self, is_it: impl Fn(&Request) -> bool) -> bool {
        self.cancel_pending(|pending| is_it(&pending.request))
    }

    /// Ends requests of a listener that accept for a socket which has been closed. Programs close
    /// sockets whose peers have connected and send nothing.
    pub(crate) fn cancel_accepting(&self, socket: Handle) {
        self.cancel_pending(|pending| matches!(&pending.work, Work::Accept(accept) if accept.socket == socket));
    }

    fn cancel_pending(&self, is_it: impl Fn(&Pending) -> bool) -> bool {
        let mut is_any = false;
        {
            let mut requests = self.requests();
            let Requests { queues, mode } = &mut *requests;
            for queue in queues {
                let mut place = 0;
                while let Some(pending) = queue.get(place) {
                    if !is_it(pending) {
                        place += 1;
                    } else if let Some(Pending { request, .. }) = queue.remove(place) {
                        request.complete(Ended::failed(WinsockError(WSA_OPERATION_ABORTED)), mode, false);
                        is_any = true;
                    }
                }
            }
        }
        if is_any && let Some(lane) = lane_if_begun() {
            lane.wake_all();
        }
        is_any
    }

    /// Whether requests wait.
    pub(crate) fn has_requests(&self) -> bool {
        self.requests().queues.iter().any(|queue| !queue.is_empty())
    }

    /// How the handle tells of completions.
    pub(crate) fn mode(&self) -> HandleMode {
        self.requests().mode.clone()
    }

    /// Whether the handle has a completion port: then its requests have no routines.
    pub(crate) fn has_port(&self) -> bool {
        self.requests().mode.port.is_some()
    }

    /// How the handle tells of completions from now on.
    pub(crate) fn set_mode(&self, change: impl FnOnce(&mut HandleMode)) {
        change(&mut self.requests().mode);
    }
}
