//! One process at the service's socket: its requests, and the answers and pushes to it. The service
//! never waits for it.

use super::rate::Bucket;
use super::user_workers::{Foreign, Queue};
use crate::answer::Answer;
use crate::usage::Returns;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::time::Instant;
use tickwire_host::Query;
use tickwire_lane::control::{Name, Push, Reason};
use tickwire_lane_linux::control::{Channel, Incoming};
use tickwire_registry::{ClaimId, LaneId};

/// The number of a connection; never used twice.
pub(crate) type ConnectionId = u64;

/// A process that leaves so many answers to its own requests unread is disconnected.
const MAX_REPLIES: usize = 64;

/// So is one that leaves so many pushes unread. Changes of paths are not among them: only their
/// latest state is sent.
const MAX_PUSHES: usize = 4096;

/// The process at the other end, as the kernel reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Peer {
    pub(crate) pid: u32,
    pub(crate) uid: u32,
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Arc<Channel>,
    pub(crate) peer: Peer,
    /// Where what it passes is examined and closed.
    queue: Arc<Queue>,
    /// Where its closing is reported.
    returns: Returns,
    /// The lane that this process uses.
    pub(crate) lane: Option<LaneId>,
    /// The program, and why it has no lane, if it was refused one or reports that it uses the
    /// kernel.
    pub(crate) refused: Option<(Name, Reason)>,
    /// It is ended once its answer is sent: it has no lane, and its place is needed.
    pub(crate) parting: bool,
    bucket: Bucket,
    /// The round in which it had its last turn, `None` before its first.
    pub(crate) last_turn: Option<usize>,
    replies: VecDeque<(u32, Answer)>,
    pushes: VecDeque<Push>,
    /// Destinations whose path changed since the process was last notified.
    changed: VecDeque<Query>,
    /// Whether EPOLLOUT is asked for.
    pub(crate) waits_to_write: bool,
    /// Whether it is paused.
    pub(crate) rests: bool,
    /// Whether its request rate has ever paused it, which is logged once.
    pub(crate) rested: bool,
}

/// The outcome of receiving.
#[derive(Debug)]
pub(crate) enum Received {
    /// Nothing for now.
    Nothing,
    /// A message that is not received for now: too much that the user passed waits to be closed, or
    /// receiving it might block, as it did lately.
    HeldUp,
    /// A message, with the descriptors that came with it.
    Message(Box<Incoming>, Vec<Foreign>),
}

/// Why a connection ends.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The process closed it, or is gone.
    Gone,
    /// It does not read what is sent to it.
    Deaf,
    /// It sends no valid message.
    Malformed(String),
    /// Receiving what it passes takes too long.
    HeldUp,
    /// There is no room to list another program that has no lane.
    Surplus,
}

impl Connection {
    pub(crate) fn new(
        channel: Channel,
        peer: Peer,
        queue: Arc<Queue>,
        returns: Returns,
        requests_per_second: u32,
        now: Instant,
    ) -> Self {
        Self {
            channel: Arc::new(channel),
            peer,
            queue,
            returns,
            lane: None,
            refused: None,
            parting: false,
            bucket: Bucket::new(requests_per_second, now),
            last_turn: None,
            replies: VecDeque::new(),
            pushes: VecDeque::new(),
            changed: VecDeque::new(),
            waits_to_write: false,
            rests: false,
            rested: false,
        }
    }

    /// Until when its request rate is exhausted; `None` if it may send a request now.
    pub(crate) fn must_rest(&mut self, now: Instant) -> Option<Instant> {
        self.bucket.next(now)
    }

    /// The next message with the descriptors that came with it, without blocking.
    pub(crate) fn receive(&mut self, now: Instant) -> Result<Received, End> {
        if self.queue.is_full() {
            return Ok(Received::HeldUp);
        }
        let Some(mut incoming) = self.channel.peek().map_err(|_| End::Gone)? else { return Ok(Received::Nothing) };
        // Whatever becomes of the message, its descriptors are not closed here: even closing one of
        // several descriptors of a file waits for the file's `flush`, which with FUSE takes as long
        // as another user's daemon likes.
        let mut passed: Vec<_> =
            incoming.descriptors.take_all().map(|fd| Foreign::new(fd, Arc::clone(&self.queue))).collect();
        if !incoming.is_short() {
            // The files have descriptors here, so that no file is closed with the packet.
            self.channel.skip().map_err(|_| End::Gone)?;
        } else if self.queue.is_trusted() {
            passed.clear();
            let channel = Arc::clone(&self.channel);
            self.queue.ask(move || channel.skip()).ok_or(End::HeldUp)?.map_err(|_| End::Gone)?;
        } else {
            return Ok(Received::HeldUp);
        }
        self.bucket.take(now);
        Ok(Received::Message(Box::new(incoming), passed))
    }

    /// Closes it. Unread packets may hold descriptors, which are closed with it; until then it
    /// counts as one of the user's.
    pub(crate) fn close(self) {
        let (queue, returns, user) = (Arc::clone(&self.queue), self.returns.clone(), self.peer.uid);
        queue.later(move || {
            drop(self);
            returns.connection(user);
        });
    }

    /// Queues the answer to a request.
    pub(crate) fn answer(&mut self, number: u32, answer: Answer) -> Result<(), End> {
        // Kept in any case: what it gives is taken back when the connection has ended.
        self.replies.push_back((number, answer));
        if self.replies.len() > MAX_REPLIES { Err(End::Deaf) } else { Ok(()) }
    }

    /// The claims in answers that have not been sent.
    pub(crate) fn untold_claims(&self) -> Vec<ClaimId> {
        self.replies.iter().flat_map(|(_, answer)| answer.claims()).collect()
    }

    /// Queues a push.
    pub(crate) fn push(&mut self, push: Push) -> Result<(), End> {
        if self.pushes.len() >= MAX_PUSHES {
            return Err(End::Deaf);
        }
        self.pushes.push_back(push);
        Ok(())
    }

    /// Notes that the path for a query changed; its latest state is sent when there is room.
    pub(crate) fn path_changed(&mut self, query: Query) {
        if !self.changed.contains(&query) {
            self.changed.push_back(query);
        }
    }

    /// Sends what is queued, as far as there is room. `latest` returns the current state of a path.
    /// Returns whether something is left.
    pub(crate) fn flush(&mut self, latest: impl Fn(&Query) -> Option<Push>) -> Result<bool, End> {
        while let Some((number, answer)) = self.replies.front() {
            let descriptors: Vec<BorrowedFd<'_>> = answer.descriptors.iter().map(AsFd::as_fd).collect();
            if !sent(self.channel.send(&answer.reply, *number, &descriptors))? {
                return Ok(true);
            }
            self.replies.pop_front();
        }
        while let Some(push) = self.pushes.front() {
            if !sent(self.channel.send(push, 0, &[]))? {
                return Ok(true);
            }
            self.pushes.pop_front();
        }
        while let Some(query) = self.changed.front() {
            if let Some(push) = latest(query)
                && !sent(self.channel.send(&push, 0, &[]))?
            {
                return Ok(true);
            }
            self.changed.pop_front();
        }
        Ok(false)
    }
}

/// Whether a message was sent; `Ok(false)` if there was no room.
fn sent(result: io::Result<()>) -> Result<bool, End> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
        Err(_) => Err(End::Gone),
    }
}

impl AsFd for Connection {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ServiceLimits;
    use crate::usage::Usage;
    use tickwire_lane::control::{Claim, Reply, Request};
    use tickwire_stack::addr::{Address, Endpoint};
    use tickwire_stack::path::PathInfo;

    fn pair(rate: u32) -> (Connection, Channel) {
        let (ours, theirs) = Channel::pair().unwrap();
        let returns = Usage::new(ServiceLimits::default()).returns();
        (Connection::new(ours, Peer { pid: 1, uid: 2 }, Arc::default(), returns, rate, Instant::now()), theirs)
    }

    #[test]
    fn too_many_requests_wait_and_none_is_lost() {
        let (mut connection, client) = pair(5);
        for number in 0..20 {
            client.send(&Request::ListLanes { after: 0 }, number, &[]).unwrap();
        }
        let mut now = Instant::now();
        for number in 0..20 {
            let mut rests = 0;
            while let Some(until) = connection.must_rest(now) {
                assert!(until > now && number >= 10, "the burst passes at once");
                (now, rests) = (until, rests + 1);
            }
            assert!(rests <= 1, "then there is a token");
            let Received::Message(incoming, _) = connection.receive(now).unwrap() else { panic!("a message") };
            assert_eq!(incoming.decode::<Request>().unwrap().0, number);
        }
    }

    #[test]
    fn a_deaf_process_blocks_no_other_and_ends() {
        let (mut connection, _client) = pair(5);
        let mut end = None;
        for number in 0..10_000 {
            if let Err(why) = connection.answer(number, Reply::Done.into()).and_then(|()| connection.flush(|_| None)) {
                end = Some(why);
                break;
            }
        }
        assert_eq!(end, Some(End::Deaf));
    }

    #[test]
    fn claims_in_answers_that_cannot_be_sent_are_untold() {
        let (mut connection, client) = pair(5);
        let claimed = |claim| Reply::Claimed { claim: Claim(claim), local: Endpoint::default() }.into();
        connection.answer(1, claimed(7)).unwrap();
        assert_eq!((connection.flush(|_| None), connection.untold_claims()), (Ok(false), vec![]));
        drop(client);
        connection.answer(2, claimed(8)).unwrap();
        connection.answer(3, Reply::Done.into()).unwrap();
        assert_eq!((connection.flush(|_| None), connection.untold_claims()), (Err(End::Gone), vec![8]));
    }

    #[test]
    fn only_the_latest_state_of_a_path_is_told() {
        let (mut connection, client) = pair(5);
        let query = Query::to(Address::v4([10, 0, 0, 1]));
        for _ in 0..10 {
            connection.path_changed(query);
        }
        let latest = |q: &Query| {
            let path = PathInfo { query: *q, mtu: 1400, ..PathInfo::default() };
            Some(Push::PathChanged { path, reason: Reason::None })
        };
        assert!(!connection.flush(latest).unwrap());
        let (number, push) = client.try_receive().unwrap().unwrap().decode::<Push>().unwrap();
        assert!(number == 0 && matches!(push, Push::PathChanged { path, .. } if path.mtu == 1400));
        assert!(client.try_receive().unwrap().is_none());
    }

    #[test]
    fn while_much_waits_to_be_closed_what_comes_stays_where_it_is() {
        let (mut connection, client) = pair(5);
        let now = Instant::now();
        assert!(matches!(connection.receive(now), Ok(Received::Nothing)));
        client.send(&Request::ListLanes { after: 0 }, 1, &[]).unwrap();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(std::sync::Mutex::new(held));
        while !connection.queue.is_full() {
            let held = Arc::clone(&held);
            connection.queue.later(move || {
                let _ = held.lock().unwrap().recv();
            });
        }
        assert!(matches!(connection.receive(now), Ok(Received::HeldUp)));
        drop(release);
        let end = now + std::time::Duration::from_secs(5);
        while matches!(connection.receive(now), Ok(Received::HeldUp)) {
            assert!(Instant::now() < end, "it is received");
        }
    }

    #[test]
    fn a_sender_of_too_many_descriptors_waits_for_their_closing_itself() {
        use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
        use std::os::fd::AsRawFd;
        let (mut connection, client) = pair(5);
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let is_closed = || io::Read::read(&mut &ours, &mut [0]).is_ok_and(|n| n == 0);
        let many = [theirs.as_raw_fd(); 253];
        let rights = [ControlMessage::ScmRights(&many)];
        sendmsg::<()>(client.as_raw_fd(), &[io::IoSlice::new(b"x")], &rights, MsgFlags::empty(), None).unwrap();
        drop(theirs);
        let (release, held) = std::sync::mpsc::channel::<()>();
        assert_eq!(connection.queue.ask(move || held.recv().is_ok()), None, "it keeps the service waiting");
        assert!(matches!(connection.receive(Instant::now()), Ok(Received::HeldUp)));
        assert!(!is_closed(), "it stays where it is");
        release.send(()).unwrap();
        connection.queue = Arc::default();
        let Received::Message(incoming, passed) = connection.receive(Instant::now()).unwrap() else { panic!("it") };
        assert!(incoming.is_short() && passed.is_empty());
        let end = Instant::now() + std::time::Duration::from_secs(5);
        while !is_closed() {
            assert!(Instant::now() < end, "in the end it is closed");
        }
    }

    #[test]
    fn nothing_that_came_is_closed_by_the_loop() {
        use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
        use std::os::fd::AsRawFd;
        let (mut connection, client) = pair(5);
        connection.queue = Queue::without_threads();
        let file = tempfile::NamedTempFile::new().unwrap();
        let many = [file.as_file().as_raw_fd(); 9];
        let rights = [ControlMessage::ScmRights(&many)];
        sendmsg::<()>(client.as_raw_fd(), &[io::IoSlice::new(b"x")], &rights, MsgFlags::empty(), None).unwrap();
        let path = file.into_temp_path();
        let open = || {
            let all = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
            all.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| *to == *path)).count()
        };
        assert_eq!(open(), 0);
        assert_eq!(connection.receive(Instant::now()).unwrap_err(), End::HeldUp, "no thread takes it away");
        assert_eq!(open(), tickwire_lane::control::MAX_DESCRIPTORS, "what was looked at waits for a thread, too");
    }

    #[test]
    fn a_process_that_is_gone_ends_it() {
        let (mut connection, client) = pair(5);
        drop(client);
        assert!(matches!(connection.receive(Instant::now()), Err(End::Gone)));
    }
}
