//! This process's control connection: requests to the service and its unsolicited messages.

use crate::lane::ports::PortBatch;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};
use std::time::Duration;
use tickwire_lane::control::{ClaimPart, MalformedMessage, Parts, Push, Reply, Request};
use tickwire_lane_linux::control::{Channel, Descriptors, Incoming};
use tickwire_stack::addr::Endpoint;

/// How long the service may take for an answer. Long, because a host under full load is slow, and a
/// timeout costs the requesting socket its place in the lane. A service that has ended is noticed
/// at once, because its end of the connection closes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// How many pushes fit before memory is allocated, while an answer is awaited: the requester may be
/// a signal handler.
const PUSHES: usize = 32;

/// As many answers with ports fit before memory is allocated.
const PORTS: usize = 4;

/// The message is not a valid answer.
#[cold]
#[inline(never)]
fn no_answer(why: MalformedMessage) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.to_string())
}

/// The last message received. It is large, and the requesting thread may have a small stack.
struct Received {
    incoming: Incoming,
    reply: Reply,
}

/// A control connection. Requests are numbered, so that answers that no thread awaits are
/// recognised.
pub(crate) struct Session {
    /// Until it is dropped.
    channel: Option<Channel>,
    number: u32,
    received: Box<Received>,
    /// Messages that arrived unsolicited while an answer was awaited.
    pushes: Vec<Push>,
    /// The device for trains of segments, which was requested and has arrived.
    bulk: Option<OwnedFd>,
    /// Ports that were requested and have arrived.
    ports: Vec<PortBatch>,
}

impl Received {
    /// Decodes the message as an answer. Returns the number of its request.
    #[inline(never)]
    fn read(&mut self) -> Result<u32, MalformedMessage> {
        let (number, reply) = self.incoming.decode()?;
        self.reply = reply;
        Ok(number)
    }
}

impl Session {
    /// A session over a connected channel.
    pub(crate) fn new(channel: Channel) -> Self {
        Self {
            channel: Some(channel),
            number: 0,
            received: Box::new(Received { incoming: Incoming::default(), reply: Reply::Done }),
            pushes: Vec::with_capacity(PUSHES),
            bulk: None,
            ports: Vec::with_capacity(PORTS),
        }
    }

    /// A session over the channel of the program that was this process before. Answers to that
    /// program's requests may still arrive, so the numbers start elsewhere.
    pub(crate) fn inherited(channel: Channel) -> Self {
        let mut session = Self::new(channel);
        session.number = crate::sys::now().as_nanos() as u32;
        session
    }

    /// Its descriptor, for waiting.
    pub(crate) fn descriptor(&self) -> i32 {
        self.channel.as_ref().map_or(-1, AsRawFd::as_raw_fd)
    }

    fn channel(&self) -> io::Result<&Channel> {
        self.channel.as_ref().ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// If the connection is broken, or the answer is invalid; `EMFILE` if this process has no room
    /// for the descriptors of the answer; `TimedOut` if the service is silent: its answer may still
    /// come, and is handled; `WouldBlock` if it has not read earlier requests.
    pub(crate) fn call(
        &mut self,
        request: &Request,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<(&Reply, &mut Descriptors)> {
        self.call_within(TIMEOUT, request, descriptor)
    }

    /// [`Session::call`] with another timeout.
    pub(crate) fn call_within(
        &mut self,
        time_limit: Duration,
        request: &Request,
        descriptor: Option<BorrowedFd<'_>>,
    ) -> io::Result<(&Reply, &mut Descriptors)> {
        self.number = self.number.wrapping_add(1).max(1);
        self.channel()?.send(request, self.number, descriptor.as_slice())?;
        loop {
            let channel = self.channel.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            channel.receive_into(&mut self.received.incoming, time_limit)?;
            if self.is_answered()? {
                let Received { incoming, reply } = &mut *self.received;
                return Ok((reply, &mut incoming.descriptors));
            }
        }
    }

    /// Whether the message is the awaited answer; else it is stored.
    fn is_answered(&mut self) -> io::Result<bool> {
        if self.note_push() {
            // A thread that waits for the descriptor does not see any more that something arrived.
            crate::base::wakeup_fd::ring();
            return Ok(false);
        }
        // This process may have no free descriptor numbers.
        if self.received.incoming.is_short() {
            return Err(io::Error::from_raw_os_error(libc::EMFILE));
        }
        if self.received.read().map_err(no_answer)? == self.number {
            if let Reply::Path { path, .. } = &self.received.reply {
                // An earlier push for this path is older, and would be taken for a change when it
                // is handled afterwards.
                let is_older =
                    |push: &Push| matches!(push, Push::PathChanged { path: old, .. } if old.query == path.query);
                self.pushes.retain(|push| !is_older(push));
            }
            return Ok(true);
        }
        let before = (self.pushes.len(), self.ports.len());
        self.unawaited()?;
        if (self.pushes.len(), self.ports.len()) != before {
            crate::base::wakeup_fd::ring();
        }
        Ok(false)
    }

    /// Whether the message is unsolicited. It is stored then.
    #[inline(never)]
    fn note_push(&mut self) -> bool {
        self.received.incoming.decode::<Push>().map(|(_, push)| self.pushes.push(push)).is_ok()
    }

    /// Sends a request whose answer is not awaited: an answer about a path is handled like an
    /// unsolicited message.
    ///
    /// # Errors
    /// `WouldBlock` if the service does not read; or if the connection is broken.
    pub(crate) fn tell(&self, request: &Request) -> io::Result<()> {
        // Answered with the number 0, which no awaited request has.
        self.channel()?.send(request, 0, &[])
    }

    /// An answer arrived that no thread waits for, or waits for any more: a claim that is granted
    /// now is released, since its socket has continued on the kernel.
    #[inline(never)]
    fn unawaited(&mut self) -> io::Result<()> {
        match self.received.reply {
            Reply::Claimed { claim, .. } => {
                let parts = Parts::new(&[ClaimPart { claim, remote: Endpoint::default() }]);
                return self.tell(&Request::Release { parts });
            }
            Reply::Ports { namespace, source, ports } => self.ports.push(PortBatch { namespace, source, ports }),
            Reply::Path { path, reason } => self.pushes.push(Push::PathChanged { path, reason }),
            Reply::Bulk => self.bulk = self.received.incoming.descriptors.take(0),
            _ => {}
        }
        // The descriptors of an unwanted answer are closed.
        self.received.incoming.descriptors = Descriptors::default();
        Ok(())
    }

    /// The device for trains of segments, if the service has sent it since it was requested.
    pub(crate) fn take_bulk(&mut self) -> Option<OwnedFd> {
        self.bulk.take()
    }

    /// The ports that the service has sent since they were requested.
    pub(crate) fn take_ports(&mut self) -> Option<PortBatch> {
        self.ports.pop()
    }

    /// Whether something unsolicited arrived while an answer was awaited.
    pub(crate) fn has_pushes(&self) -> bool {
        !self.pushes.is_empty() || !self.ports.is_empty()
    }

    /// Reads the service's messages, without waiting.
    ///
    /// # Errors
    /// If the service has gone.
    pub(crate) fn listen(&mut self) -> io::Result<()> {
        loop {
            let channel = self.channel.as_ref().ok_or(io::ErrorKind::NotConnected)?;
            if !channel.try_receive_into(&mut self.received.incoming)? {
                return Ok(());
            }
            if !self.note_push() && self.received.read().is_ok() {
                self.unawaited()?;
            }
        }
    }

    /// The service's unsolicited messages since the last call of this function.
    ///
    /// # Errors
    /// If the service has gone.
    pub(crate) fn pushes(&mut self) -> io::Result<Vec<Push>> {
        match self.listen() {
            Err(error) if self.pushes.is_empty() => Err(error),
            _ => Ok(std::mem::replace(&mut self.pushes, Vec::with_capacity(PUSHES))),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            crate::table::protect::discard(channel.into_raw_fd());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_lane::control::{Claim, Reason};
    use tickwire_stack::addr::Address;
    use tickwire_stack::path::{PathInfo, PathState, Query};

    #[test]
    fn an_answer_to_the_program_before_is_none_to_this_one() {
        let (ours, service) = Channel::pair().unwrap();
        service.send(&Reply::Done, 1, &[]).unwrap();
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (number, _) = service.receive(TIMEOUT).unwrap().decode::<Request>().unwrap();
                service.send(&Reply::Attached, number, &[]).unwrap();
            });
            let mut session = Session::inherited(ours);
            session.call(&Request::ListLanes { after: 0 }, None).map(|(reply, _)| reply.clone())
        });
        assert!(matches!(answer, Ok(Reply::Attached)), "{answer:?}");
    }

    /// A neighbour may resolve while another request is pending: otherwise the push would not be
    /// handled, and packets that wait for the path would time out.
    #[test]
    fn what_comes_unasked_before_an_answer_makes_the_helper_look() {
        let (ours, service) = Channel::pair().unwrap();
        let bell = crate::sys::eventfd().unwrap();
        let before = crate::base::wakeup_fd::replace(bell);
        let mut session = Session::new(ours);
        let answer = std::thread::scope(|scope| {
            scope.spawn(|| {
                let (number, _) = service.receive(TIMEOUT).unwrap().decode::<Request>().unwrap();
                service.send(&Push::Mtu { mtu: 1400 }, 0, &[]).unwrap();
                service.send(&Reply::Attached, number, &[]).unwrap();
            });
            session.call(&Request::ListLanes { after: 0 }, None).map(|(reply, _)| reply.clone())
        });
        crate::base::wakeup_fd::replace(before);
        assert!(matches!(answer, Ok(Reply::Attached)), "{answer:?}");
        assert!(session.has_pushes());
        let mut rung = [libc::pollfd { fd: bell, events: libc::POLLIN, revents: 0 }];
        crate::sys::ppoll(&mut rung, Some(tickwire_stack::time::Span::ZERO), None).unwrap();
        crate::sys::close(bell);
        assert_eq!(rung[0].revents, libc::POLLIN);
        let pushes = session.pushes().unwrap();
        assert!(matches!(pushes[..], [Push::Mtu { mtu: 1400 }]), "{pushes:?}");
        assert!(!session.has_pushes());
    }

    #[test]
    fn what_was_said_of_a_path_before_an_answer_about_it_is_no_news_afterwards() {
        let (ours, service) = Channel::pair().unwrap();
        let mut session = Session::new(ours);
        let path =
            |last, state| PathInfo { query: Query::to(Address::v4([10, 0, 0, last])), state, ..PathInfo::default() };
        let changed = |last| Push::PathChanged { path: path(last, PathState::Resolving), reason: Reason::None };
        [1, 2].into_iter().for_each(|last| service.send(&changed(last), 0, &[]).unwrap());
        service.send(&Reply::Path { path: path(1, PathState::Ready), reason: Reason::None }, 1, &[]).unwrap();
        let request = Request::Resolve { query: path(1, PathState::Ready).query, choose: false };
        assert!(matches!(session.call(&request, None), Ok((Reply::Path { .. }, _))));
        let left = session.pushes().unwrap();
        let Push::PathChanged { path: of_other, .. } = left[0] else { panic!("{left:?}") };
        assert!(left.len() == 1 && of_other.query == path(2, PathState::Ready).query);
    }

    #[test]
    fn a_claim_that_is_granted_too_late_is_given_back() {
        let (ours, service) = Channel::pair().unwrap();
        let mut session = Session::new(ours);
        session.number = 7;
        let local = Endpoint::default();
        service.send(&Reply::Claimed { claim: Claim(5), local }, 6, &[]).unwrap();
        assert!(session.pushes().unwrap().is_empty());
        let (_, request) = service.try_receive().unwrap().unwrap().decode::<Request>().unwrap();
        let Request::Release { parts } = request else { panic!("{request:?}") };
        assert_eq!(parts.as_slice(), [ClaimPart { claim: Claim(5), remote: Endpoint::default() }]);
    }
}
