//! A lane's communication with the service, once for each socket and once for each new destination:
//! claims, paths, and the service's unsolicited messages.

use crate::base::cancel_shield::Shield;
use crate::base::locked::{Lock, Locked};
use crate::base::reentrancy;
use crate::lane::Lane;
use crate::lane::observer::observer;
use crate::lane::session::Session;
use crate::sys;
use crate::table::protect;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::io::ErrorKind;
use std::os::fd::{BorrowedFd, IntoRawFd};
use tickwire_lane::control::{Claim, ClaimKind, ClaimPart, Parts, Push, Reason, Reply, Request};
use tickwire_lane_linux::control::Descriptors;
use tickwire_stack::Stack;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, PathState, Query};

/// Most path requests that are queued here, beside those that are queued in the stack.
const MOST_REQUESTS: usize = 64;

/// This process's side of the communication.
pub(crate) struct ServiceChannel {
    session: Lock<Option<Session>>,
    /// Paths that the stack needs; the helper thread requests them.
    requests: Lock<Vec<Query>>,
    /// Whether a device for trains of segments is wanted: 0 no, 1 yes, 2 the service was asked.
    bulk: AtomicU32,
    /// The service is about to end: no new socket uses the lane any more.
    leaves: AtomicBool,
}

/// A lane's locks, held while the process forks.
pub(crate) struct LaneForkLocks {
    _session: Locked<'static, Option<Session>>,
    _requests: Locked<'static, Vec<Query>>,
}

impl ServiceChannel {
    /// Over a control connection.
    pub(crate) fn new(session: Option<Session>) -> Self {
        Self {
            session: Lock::new(session),
            requests: Lock::new(Vec::with_capacity(MOST_REQUESTS)),
            bulk: AtomicU32::new(0),
            leaves: AtomicBool::new(false),
        }
    }

    fn session(&self) -> Locked<'_, Option<Session>> {
        self.session.lock()
    }

    /// The connection, unless another thread is using it at this moment, which may take long. For
    /// the helper thread, which must not block.
    fn free_session(&self) -> Option<Locked<'_, Option<Session>>> {
        self.session.try_lock()
    }

    /// Closes the connection, which tells the service that this process has left the lane.
    pub(crate) fn hang_up(&self) {
        *self.session() = None;
    }

    /// Takes the connection, for messages after the lane is over.
    pub(crate) fn take(&self) -> Option<Session> {
        self.session().take()
    }

    /// Whether the service is about to end.
    pub(crate) fn leaves(&self) -> bool {
        self.leaves.load(Relaxed)
    }

    /// The service has announced its end.
    pub(super) fn is_to_leave(&self) {
        self.leaves.store(true, Relaxed);
    }

    /// A device for trains of segments is wanted. Returns whether the helper thread, which requests
    /// it, has to be woken.
    pub(crate) fn want_bulk(&self) -> bool {
        self.bulk.load(Relaxed) == 0 && self.bulk.swap(1, Relaxed) == 0
    }

    /// Takes over the stack's path requests, as far as there is room; the rest stays with the
    /// stack. Returns whether there were any.
    #[cold]
    pub(crate) fn note_requests(&self, stack: &mut Stack<'_>) -> bool {
        // Fork holds it until no other thread flushes C's streams, and this may be a stream's
        // write: the next thread that enters tries again.
        let Some(mut wanted) = self.requests.try_lock() else { return false };
        let before = wanted.len();
        while wanted.len() < MOST_REQUESTS
            && let Some(query) = stack.take_request()
        {
            wanted.push(query);
        }
        wanted.len() > before
    }
}

/// Why the service has not done what was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unserved {
    /// Nothing has happened: the service refused, or the request was not sent.
    Refused(Reason),
    /// The service may have done it, or still do it: its answer has not arrived, or is lost.
    Unknown(Reason),
}

impl Lane {
    /// Replaces the control connection.
    pub(crate) fn set_session(&self, session: Session) {
        *self.talk.session() = Some(session);
    }

    /// Its locks, held (across fork).
    pub(crate) fn fork_locks(&'static self) -> LaneForkLocks {
        let session = self.talk.session();
        LaneForkLocks { _session: session, _requests: self.talk.requests.lock() }
    }

    /// The control connection's descriptor, -1 if there is none.
    pub(crate) fn control_descriptor(&self) -> c_int {
        self.talk.session().as_ref().map_or(-1, Session::descriptor)
    }

    /// The same, unless another thread is using the connection.
    pub(crate) fn free_control_descriptor(&self) -> Option<c_int> {
        self.talk.free_session().map(|session| session.as_ref().map_or(-1, Session::descriptor))
    }

    /// Sends a request to the service and waits; the lane ends if the service is gone. `take`
    /// extracts the result from the answer, which is not on the caller's stack.
    ///
    /// # Errors
    /// The reason for which the service refused, or cannot be asked.
    pub(crate) fn ask<T>(
        &self,
        request: &Request,
        descriptor: Option<c_int>,
        take: impl FnOnce(&Reply) -> core::result::Result<T, Reason>,
    ) -> core::result::Result<T, Reason> {
        let answer = self.ask_for_descriptors(request, descriptor, |reply, _| take(reply));
        answer.map_err(|(Unserved::Refused(reason) | Unserved::Unknown(reason))| reason)
    }

    /// [`Lane::ask`] for an answer that carries descriptors. A failure tells whether the service
    /// may have done what was requested.
    pub(crate) fn ask_for_descriptors<T>(
        &self,
        request: &Request,
        descriptor: Option<c_int>,
        take: impl FnOnce(&Reply, &mut Descriptors) -> core::result::Result<T, Reason>,
    ) -> core::result::Result<T, Unserved> {
        let mut take = Some(take);
        let mut taken = Err(Reason::BadRequest);
        self.converse(request, descriptor, &mut |reply, descriptors| {
            if let Some(take) = take.take() {
                taken = take(reply, descriptors);
            }
        })?;
        taken.map_err(Unserved::Unknown)
    }

    #[inline(never)]
    fn converse(
        &self,
        request: &Request,
        descriptor: Option<c_int>,
        take: &mut dyn FnMut(&Reply, &mut Descriptors),
    ) -> core::result::Result<(), Unserved> {
        if reentrancy::is_inside() {
            return Err(Unserved::Refused(Reason::ServiceError));
        }
        let _shield = Shield::new();
        let borrowed = descriptor.map(sys::borrowed);
        let answer = match self.talk.session().as_mut() {
            Some(session) => {
                session.call(request, borrowed as Option<BorrowedFd<'_>>).map(|(reply, brought)| match reply {
                    Reply::Refused { reason, .. } => Err(Unserved::Refused(*reason)),
                    reply => {
                        take(reply, brought);
                        Ok(())
                    }
                })
            }
            None => return Err(Unserved::Refused(Reason::LaneGone)),
        };
        match answer {
            Ok(answer) => answer,
            // The service is slow, but existing sockets do not need it. Only this request fails.
            Err(error) if error.kind() == ErrorKind::TimedOut => Err(Unserved::Unknown(Reason::ServiceError)),
            // The service has not read earlier requests yet.
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(Unserved::Refused(Reason::ServiceError)),
            // The answer has arrived; the process has no room for the descriptors in it.
            Err(error) if error.raw_os_error() == Some(libc::EMFILE) => Err(Unserved::Unknown(Reason::Descriptors)),
            // It was not sent, because of its descriptor: another thread has closed that, or the
            // kernel has too many in flight.
            Err(error)
                if descriptor.is_some() && matches!(error.raw_os_error(), Some(libc::EBADF | libc::ETOOMANYREFS)) =>
            {
                Err(Unserved::Refused(Reason::ServiceError))
            }
            Err(_) => {
                self.end(Reason::Lost);
                Err(Unserved::Unknown(Reason::LaneGone))
            }
        }
    }

    /// Claims the packets to the kernel socket's port, or one flow to it. Also returns for which
    /// local address and port: a flow of a socket bound to any address has a specific one.
    ///
    /// # Errors
    /// The reason for which the socket stays on the kernel.
    pub(crate) fn claim(
        &self,
        fd: c_int,
        kind: ClaimKind,
        remote: Endpoint,
    ) -> core::result::Result<(u64, Endpoint), Reason> {
        self.ask(&Request::Claim { kind, remote }, Some(fd), |reply| match *reply {
            Reply::Claimed { claim: Claim(claim), local } => Ok((claim, local)),
            _ => Err(Reason::BadRequest),
        })
    }

    /// Releases a claim. Best effort: the service forgets all claims with the lane.
    #[inline(never)]
    pub(crate) fn release(&self, claim: u64) {
        if claim != 0 {
            let parts = Parts::new(&[ClaimPart { claim: Claim(claim), remote: Endpoint::default() }]);
            let _ = self.ask(&Request::Release { parts }, None, |_| Ok(()));
        }
    }

    /// Releases many claims, or flows of them, as many in one message as it holds, without waiting
    /// for the answers. Returns how many were sent. The rest has to be tried again: another thread
    /// is using the connection, or the service does not read.
    pub(crate) fn release_parts(&self, parts: &[ClaimPart]) -> usize {
        let session = self.talk.free_session();
        let Some(Some(session)) = session.as_deref() else { return 0 };
        let told = |some: &&[ClaimPart]| session.tell(&Request::Release { parts: Parts::new(some) }).is_ok();
        parts.chunks(Parts::MAX).take_while(told).map(<[ClaimPart]>::len).sum()
    }

    /// Requests the path that packets take, if the stack does not know it, and stores it in the
    /// stack.
    ///
    /// # Errors
    /// The reason for which it is not the lane's.
    pub(crate) fn reach(&self, query: &Query) -> core::result::Result<PathInfo, Reason> {
        self.reach_or_choose(query, false)
    }

    fn reach_or_choose(&self, query: &Query, choose: bool) -> core::result::Result<PathInfo, Reason> {
        let known = self.with(|access| Ok(access.stack.path_get(query).map(|path| (path.info, path.inferred))));
        match known {
            Ok(Some((info, 0))) if matches!(info.state, PathState::Ready | PathState::Resolving) => Ok(info),
            Err(_) => Err(Reason::LaneGone),
            _ => self.resolve(query, choose),
        }
    }

    /// The same from the source address that is chosen, if none is given: packets from that address
    /// may take another path than the one that determined the choice. The kernel looks twice, too.
    /// The service is asked once, unless the paths differ.
    ///
    /// # Errors
    /// As [`Lane::reach`].
    pub(crate) fn reach_from_own(&self, query: &Query) -> core::result::Result<PathInfo, Reason> {
        let path = self.reach_or_choose(query, true)?;
        if query.source != Address::ANY || path.source.is_unspecified() {
            return Ok(path);
        }
        self.reach(&query.from(path.source)).map(|way| PathInfo { source: path.source, ..way })
    }

    #[inline(never)]
    fn resolve(&self, query: &Query, choose: bool) -> core::result::Result<PathInfo, Reason> {
        let told = |reply: &Reply| match *reply {
            Reply::Path { path, reason } => Ok((path, reason)),
            _ => Err(Reason::BadRequest),
        };
        let (path, reason) = self.ask(&Request::Resolve { query: *query, choose }, None, told)?;
        let _ = self.with(|access| {
            access.stack.path_set(path, access.now);
            Ok(())
        });
        match (path.state, reason) {
            (PathState::Ready | PathState::Resolving, Reason::None) => Ok(path),
            (_, Reason::None) => Err(Reason::NoRoute),
            (_, reason) => Err(reason),
        }
    }

    /// Handles the service's unsolicited messages, if something is known to have arrived (`woken`)
    /// or arrived while an answer was awaited. Returns their number; `None` if another thread is
    /// using the connection, and this is to be tried again. The lane ends if the service is gone.
    pub(crate) fn hear(&'static self, woken: bool) -> Option<usize> {
        let pushes = {
            let mut session = self.talk.free_session()?;
            match session.as_mut().filter(|session| woken || session.has_pushes()) {
                Some(session) => session.pushes(),
                None => return Some(0),
            }
        };
        // The connection's lock is released before its messages are handled.
        self.take_bulk();
        self.take_given_ports();
        let Ok(pushes) = pushes else {
            self.end(Reason::Lost);
            return Some(0);
        };
        let number = pushes.len();
        for push in pushes {
            match push {
                Push::PathChanged { path, .. } => {
                    let _ = self.with_quietly(|access| {
                        access.stack.path_set(path, access.now);
                        Ok(())
                    });
                }
                Push::PeerGone { pid } => (observer().process_gone)(self, pid),
                Push::ClaimLost { claim, reason } => (observer().claim_lost)(self, claim.0, reason),
                Push::Closing { reason } => {
                    self.end(reason);
                    break;
                }
                Push::Mtu { mtu } => self.assume_mtu(mtu),
                Push::Realtime { priority } => crate::base::realtime::granted(priority),
                Push::Leave => self.talk.is_to_leave(),
            }
        }
        Some(number)
    }

    /// Takes the device for trains of segments, if the service has sent it.
    fn take_bulk(&self) {
        let given = self.talk.free_session().and_then(|mut session| session.as_mut()?.take_bulk());
        if let Some(tap) = given
            && let Ok(tap) = protect::keep(tap.into_raw_fd())
        {
            self.set_bulk(tap);
        }
    }

    /// Stores the ports that the service has sent.
    fn take_given_ports(&self) {
        while let Some(given) = self.talk.free_session().and_then(|mut session| session.as_mut()?.take_ports()) {
            self.ports_have_come(&given);
        }
    }

    /// The same, for a thread that needs a port: the helper may not have read them yet.
    pub(super) fn look_for_ports(&self) {
        if let Some(Some(session)) = self.talk.free_session().as_deref_mut() {
            // If the service is gone, the next request finds out.
            let _ = session.listen();
        }
        self.take_given_ports();
        if self.talk.free_session().is_some_and(|session| session.as_ref().is_some_and(Session::has_pushes)) {
            crate::base::wakeup_fd::ring();
        }
    }

    /// Sends a request whose answer is not awaited, if the connection is free. Returns whether.
    pub(super) fn tell(&self, request: &Request) -> bool {
        matches!(self.talk.free_session().as_deref(), Some(Some(session)) if session.tell(request).is_ok())
    }

    /// The smallest MTU of the interfaces: the stack assumes it until it knows the interface of the
    /// path to a peer.
    pub(crate) fn assume_mtu(&self, mtu: u32) {
        let _ = self.with_quietly(|access| {
            access.stack.assume_mtu(mtu);
            Ok(())
        });
    }

    /// Requests the paths that the stack needs. The answers are handled as unsolicited messages.
    /// Returns how many were requested; `None` if another thread is using the connection, and this
    /// is to be tried again.
    pub(crate) fn run_errands(&self) -> Option<usize> {
        let session = self.talk.free_session();
        let mut wanted = self.talk.requests.lock();
        let bulk = self.talk.bulk.load(Relaxed) == 1;
        if wanted.is_empty() && !bulk {
            return Some(0);
        }
        let session = session?;
        if bulk && session.as_ref().is_some_and(|session| session.tell(&Request::Bulk).is_ok()) {
            self.talk.bulk.store(2, Relaxed);
        }
        // If the service does not read, answers are still to come, after which it is tried again.
        let ask = |&query: &Query| session.as_ref()?.tell(&Request::Resolve { query, choose: false }).ok();
        let asked = wanted.iter().map_while(ask).count();
        wanted.drain(..asked);
        Some(asked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{self, THERE};
    use std::time::Duration;
    use tickwire_lane_linux::control::Channel;

    fn request(service: &Channel) -> (u32, Request) {
        service.receive(Duration::from_secs(5)).unwrap().decode().unwrap()
    }

    #[test]
    fn the_helper_does_not_wait_for_a_thread_that_awaits_an_answer() {
        let (lane, service) = testing::another();
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| lane.ask(&Request::ListLanes { after: 0 }, None, |_| Ok(())).is_ok());
            let (number, _) = request(&service);
            lane.talk.requests.lock().push(Query::to(THERE));
            assert_eq!((lane.free_control_descriptor(), lane.hear(true), lane.run_errands()), (None, None, None));
            service.send(&Reply::Done, number, &[]).unwrap();
            assert!(asking.join().unwrap());
        });
        assert_eq!((lane.hear(false), lane.run_errands()), (Some(0), Some(1)));
    }

    #[test]
    fn an_errand_is_not_waited_for_and_its_answer_is_heard() {
        let (lane, service) = testing::another();
        let state =
            || lane.with(|access| Ok(access.stack.path_get(&Query::to(THERE)).map(|path| path.info.state))).unwrap();
        lane.talk.requests.lock().push(Query::to(THERE));
        assert_eq!((lane.run_errands(), lane.run_errands()), (Some(1), Some(0)));
        let (number, asked) = request(&service);
        assert!(matches!(asked, Request::Resolve { query: Query { destination: THERE, .. }, .. }), "{asked:?}");
        let path = PathInfo { query: Query::to(THERE), mtu: 1500, state: PathState::Ready, ..PathInfo::default() };
        // The answer may arrive at a thread that waits for another one.
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| lane.ask(&Request::ListLanes { after: 0 }, None, |_| Ok(())).is_ok());
            let (other, _) = request(&service);
            service.send(&Reply::Path { path, reason: Reason::None }, number, &[]).unwrap();
            service.send(&Reply::Done, other, &[]).unwrap();
            assert!(asking.join().unwrap());
        });
        assert_eq!((state(), lane.hear(false), state()), (None, Some(1), Some(PathState::Ready)));
    }

    #[test]
    fn a_new_destination_costs_one_question() {
        let (lane, service) = testing::another();
        let own = Address::v4([10, 0, 0, 7]);
        std::thread::scope(|scope| {
            let reaching = scope.spawn(|| lane.reach_from_own(&Query::to(THERE)));
            let (number, asked) = request(&service);
            assert!(matches!(asked, Request::Resolve { choose: true, .. }), "{asked:?}");
            let path = PathInfo {
                query: Query::to(THERE),
                source: own,
                chosen: own,
                mtu: 1500,
                state: PathState::Ready,
                ..PathInfo::default()
            };
            service.send(&Reply::Path { path, reason: Reason::None }, number, &[]).unwrap();
            let way = reaching.join().unwrap().unwrap();
            assert_eq!((way.query, way.source), (Query::to(THERE).from(own), own));
        });
        // Both are known now.
        assert!(lane.reach_from_own(&Query::to(THERE)).is_ok() && lane.reach(&Query::to(THERE).from(own)).is_ok());
    }

    #[test]
    fn a_descriptor_that_was_closed_costs_the_request_and_not_the_lane() {
        let (lane, _service) = testing::another();
        // A number that no descriptor has.
        assert_eq!(lane.claim(c_int::MAX, ClaimKind::Bound, Endpoint::default()), Err(Reason::ServiceError));
        assert!(!lane.is_over());
    }

    #[test]
    fn a_service_that_does_not_read_costs_the_request_and_not_the_lane() {
        let (lane, _service) = testing::another();
        let release = |n| lane.release_parts(&[ClaimPart { claim: Claim(n), remote: Endpoint::default() }]);
        let told = (1..100_000).take_while(|&n| release(n) == 1).count();
        assert!(told < 99_999, "there is always room");
        assert!(matches!(lane.ask(&Request::ListLanes { after: 0 }, None, |_| Ok(())), Err(Reason::ServiceError)));
        assert!(!lane.is_over());
    }
}
