//! How a lane talks with the service, once for each socket and once for each new destination: claims, paths, and what the service says unasked.

use crate::base::inside;
use crate::base::locked::{Lock, Locked};
use crate::lane::Lane;
use crate::lane::session::Session;
use core::ffi::c_int;
use std::os::fd::BorrowedFd;
use tickwire_link::control::{Claim, ClaimKind, Descriptors, Part, Parts, Push, Reason, Reply, Request};
use tickwire_stack::Stack;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, PathState};

/// Most destinations that wait to be asked for, beside those that wait in the stack.
const MOST_REQUESTS: usize = 64;
/// How many of them are asked for in one turn of the helper thread.
const ERRANDS: usize = 8;

/// This process's side of the talk.
pub(crate) struct Talk {
    session: Lock<Option<Session>>,
    /// Destinations of which the stack wants to hear; the helper thread asks.
    requests: Lock<Vec<Address>>,
}

/// A lane's locks, held while the process forks.
pub(crate) struct ForkLocks {
    _session: Locked<'static, Option<Session>>,
    _requests: Locked<'static, Vec<Address>>,
}

impl Talk {
    /// By a control connection.
    pub(crate) fn new(session: Option<Session>) -> Self {
        Self { session: Lock::new(session), requests: Lock::new(Vec::with_capacity(MOST_REQUESTS)) }
    }

    fn session(&self) -> Locked<'_, Option<Session>> {
        self.session.lock()
    }

    /// Closes the connection, by which the service learns that this process has left the lane.
    pub(crate) fn hang_up(&self) {
        *self.session() = None;
    }

    /// Takes the connection, for what is to be said on it when the lane is over.
    pub(crate) fn take(&self) -> Option<Session> {
        self.session().take()
    }

    /// Takes over what the stack wants to hear of, as far as there is room; the rest stays with the stack. Says whether it was any.
    #[cold]
    pub(crate) fn note_requests(&self, stack: &mut Stack<'_>) -> bool {
        // Fork holds it until nobody else flushes C's streams, and this may be a stream's write: the next who comes in tries again.
        let Some(mut wanted) = self.requests.try_lock() else { return false };
        let before = wanted.len();
        while wanted.len() < MOST_REQUESTS
            && let Some(destination) = stack.take_request()
        {
            wanted.push(destination);
        }
        wanted.len() > before
    }
}

impl Lane {
    /// Puts another control connection in the place of the present one.
    pub(crate) fn set_session(&self, session: Session) {
        *self.talk.session() = Some(session);
    }

    /// Its locks, held (across fork).
    pub(crate) fn fork_locks(&'static self) -> ForkLocks {
        let session = self.talk.session();
        ForkLocks { _session: session, _requests: self.talk.requests.lock() }
    }

    /// The control connection's descriptor, -1 if there is none.
    pub(crate) fn control_descriptor(&self) -> c_int {
        self.talk.session().as_ref().map_or(-1, Session::descriptor)
    }

    /// Asks the service; the lane ends if that is gone.
    ///
    /// # Errors
    /// The reason for which the service refused, or cannot be asked.
    pub(crate) fn ask(
        &self,
        request: &Request,
        descriptor: Option<c_int>,
    ) -> core::result::Result<(Reply, Descriptors), Reason> {
        if inside::is_inside() {
            return Err(Reason::ServiceError);
        }
        let _shield = crate::c::cancel::Shield::new();
        let borrowed = descriptor.map(crate::c::shared::borrow);
        let answer = match self.talk.session().as_mut() {
            Some(session) => session.call(request, borrowed as Option<BorrowedFd<'_>>),
            None => return Err(Reason::LaneGone),
        };
        match answer {
            Ok((Reply::Refused { reason, .. }, _)) => Err(reason),
            Ok(answer) => Ok(answer),
            // The service is slow; what runs needs it not. Only this request fails.
            Err(error) if error.kind() == std::io::ErrorKind::TimedOut => Err(Reason::ServiceError),
            Err(_) => {
                self.end(Reason::Lost);
                Err(Reason::LaneGone)
            }
        }
    }

    /// Claims what comes to the kernel socket's port, or one flow to it.
    ///
    /// # Errors
    /// The reason for which the socket stays on the kernel.
    pub(crate) fn claim(&self, fd: c_int, kind: ClaimKind, remote: Endpoint) -> core::result::Result<u64, Reason> {
        match self.ask(&Request::Claim { kind, remote }, Some(fd))? {
            (Reply::Claimed { claim: Claim(claim), .. }, _) => Ok(claim),
            _ => Err(Reason::BadRequest),
        }
    }

    /// Takes a claim out. Best effort: the service forgets all claims with the lane.
    pub(crate) fn release(&self, claim: u64) {
        if claim != 0 {
            self.release_parts(&[Part { claim: Claim(claim), remote: Endpoint::default() }]);
        }
    }

    /// Takes many out, or flows of them, as many in one message as it holds: each is a way there and back, between processes that have to be woken, and others
    /// who ask wait meanwhile.
    pub(crate) fn release_parts(&self, parts: &[Part]) {
        for some in parts.chunks(Parts::MAX) {
            let _ = self.ask(&Request::Release { parts: Parts::new(some) }, None);
        }
    }

    /// Asks how a destination is reached, if the stack does not know, and tells the stack. `scope` is the interface that a link-local
    /// address needs, `via` the one that the socket names; 0 is none.
    ///
    /// # Errors
    /// The reason for which it is not reached by the lane.
    pub(crate) fn reach(
        &self,
        destination: Address,
        source: Address,
        scope: u32,
        via: u32,
    ) -> core::result::Result<PathInfo, Reason> {
        let wanted = if via == 0 { scope } else { via };
        let fit = |path: PathInfo| {
            if wanted == 0 || path.interface == wanted { Ok(path) } else { Err(Reason::OtherWay) }
        };
        let known = self.with(|access| Ok(access.stack.path_get(&destination).map(|path| (path.info, path.inferred))));
        match known {
            Ok(Some((info, 0))) if matches!(info.state, PathState::Ready | PathState::Resolving) => return fit(info),
            Err(_) => return Err(Reason::LaneGone),
            _ => {}
        }
        match self.resolve(destination, source, scope) {
            // A group needs no route if the socket names the interface.
            Err(Reason::NoRoute) if via != 0 && destination.is_multicast() => self.resolve(destination, source, via),
            Ok(path) => fit(path),
            Err(reason) => Err(reason),
        }
    }

    fn resolve(&self, destination: Address, source: Address, interface: u32) -> core::result::Result<PathInfo, Reason> {
        match self.ask(&Request::Resolve { destination, source, interface }, None)? {
            (Reply::Path { path, reason }, _) => {
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
            _ => Err(Reason::BadRequest),
        }
    }

    /// Whether the service said something unasked while an answer was awaited, which [`Lane::hear`] has not taken yet.
    pub(crate) fn was_told(&self) -> bool {
        self.talk.session().as_ref().is_some_and(Session::has_pushes)
    }

    /// What the service said unasked: the stack is told. How much it was. The lane ends if the service has gone.
    pub(crate) fn hear(&'static self) -> usize {
        // The connection is let go of before anything is done with what it brought.
        let pushes = self.talk.session().as_mut().map(Session::pushes);
        let pushes = match pushes {
            Some(Ok(pushes)) => pushes,
            Some(Err(_)) => {
                self.end(Reason::Lost);
                return 0;
            }
            None => return 0,
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
                Push::PeerGone { pid } => crate::process::family::gone(self, pid),
                Push::ClaimLost { claim, reason } => crate::socket::kernel::claim_lost(self, claim.0, reason),
                Push::Closing { reason } => {
                    self.end(reason);
                    break;
                }
                Push::Mtu { mtu } => self.assume_mtu(mtu),
            }
        }
        number
    }

    /// The smallest MTU of the interfaces: the stack assumes it until it knows by which of them a peer is reached.
    pub(crate) fn assume_mtu(&self, mtu: u32) {
        let _ = self.with_quietly(|access| {
            access.stack.assume_mtu(mtu);
            Ok(())
        });
    }

    /// Asks the service for the paths of which the stack wants to hear: a few at a time, because the caller has other work, too.
    pub(crate) fn run_errands(&self) {
        let (wanted, more) = {
            let mut all = self.talk.requests.lock();
            let few = all.len().min(ERRANDS);
            (all.drain(..few).collect::<Vec<_>>(), !all.is_empty())
        };
        for destination in wanted {
            let _ = self.resolve(destination, Address::ANY, 0);
        }
        if more {
            crate::base::bell::ring();
        }
    }
}
