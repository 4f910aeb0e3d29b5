//! One process at the service's socket: what it may ask, what it is told, without ever waiting for it.

use crate::offload::{Foreign, Queue};
use crate::rate::Bucket;
use crate::registry::LaneId;
use crate::usage::Returns;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;
use tickwire_host::Query;
use tickwire_link::control::{Channel, Incoming, Name, Push, Reason, Reply, has_room_for_descriptors};

/// The number of a connection; never used twice.
pub(crate) type ConnectionId = u64;

/// A process that does not read so many answers to its own requests is not worth having.
const MAX_REPLIES: usize = 64;

/// Nor is one that does not read so many pushes; changes of paths are not among them, they are told in their latest state.
const MAX_PUSHES: usize = 4096;

/// An answer to be sent.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Reply,
    pub(crate) descriptors: Vec<OwnedFd>,
}

impl From<Reply> for Answer {
    fn from(reply: Reply) -> Self {
        Self { reply, descriptors: Vec::new() }
    }
}

/// Who is at the other end, as the kernel says.
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
    /// Where what it passes is looked at and closed.
    queue: Arc<Queue>,
    /// What is given back when it is closed.
    returns: Returns,
    /// The lane that this process uses.
    pub(crate) lane: Option<LaneId>,
    /// The program, and why it has no lane, if it was refused one or says that it is on the kernel.
    pub(crate) refused: Option<(Name, Reason)>,
    /// It is ended once its answer is sent: it has no lane, and its place is needed.
    pub(crate) parting: bool,
    bucket: Bucket,
    replies: VecDeque<(u32, Answer)>,
    pushes: VecDeque<Push>,
    /// Destinations whose path changed since the process was last told.
    changed: VecDeque<Query>,
    /// Whether readiness for writing is asked for.
    pub(crate) waits_to_write: bool,
    /// Whether it is not listened to for now.
    pub(crate) rests: bool,
    /// Whether it ever was not.
    pub(crate) rested: bool,
}

/// Why a connection is at its end.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The process closed it, or is gone.
    Gone,
    /// It does not read what it is told.
    Deaf,
    /// It says what nobody understands.
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
            replies: VecDeque::new(),
            pushes: VecDeque::new(),
            changed: VecDeque::new(),
            waits_to_write: false,
            rests: false,
            rested: false,
        }
    }

    /// Until when it has asked as much as it may; `None` if it may ask something now.
    pub(crate) fn must_rest(&mut self, now: Instant) -> Option<Instant> {
        self.bucket.next(now)
    }

    /// The next message with the descriptors that came with it, without waiting; `Ok(None)` if there is none.
    pub(crate) fn receive(&mut self, now: Instant) -> Result<Option<(Incoming, Vec<Foreign>)>, End> {
        let received = if self.comes_short() { self.receive_aside()? } else { self.channel.try_receive() };
        let Some(mut incoming) = received.map_err(|_| End::Gone)? else { return Ok(None) };
        // Whatever becomes of the message, what it brought is not closed here.
        let passed = incoming.descriptors.take_all().map(|fd| Foreign::new(fd, Arc::clone(&self.queue))).collect();
        self.bucket.take(now);
        Ok(Some((incoming, passed)))
    }

    /// Whether there may be no room for what the next packet brings: the kernel closes the rest of it within the receiving call.
    fn comes_short(&self) -> bool {
        self.channel.brings_descriptors() && !has_room_for_descriptors()
    }

    /// Receives a packet where nobody else has to wait for that.
    fn receive_aside(&self) -> Result<io::Result<Option<Incoming>>, End> {
        let channel = Arc::clone(&self.channel);
        let received = self.queue.ask(move || {
            let mut received = channel.try_receive();
            if let Ok(Some(incoming)) = &mut received
                && incoming.is_short()
            {
                incoming.descriptors.take_all().for_each(drop);
            }
            received
        });
        received.ok_or(End::HeldUp)
    }

    /// Whether nothing more is to be received for now: so much that the user passed waits to be closed, or the next packet might make us
    /// wait, as he did lately.
    pub(crate) fn is_held_up(&self) -> bool {
        self.queue.is_full() || !self.queue.is_trusted() && self.comes_short()
    }

    /// Closes it. Packets that were not read may hold descriptors, which are closed with it; until then it counts as one of the user's.
    pub(crate) fn close(self) {
        let (queue, returns, user) = (Arc::clone(&self.queue), self.returns.clone(), self.peer.uid);
        queue.later(move || {
            drop(self);
            returns.connection(user);
        });
    }

    /// Queues the answer to a request.
    pub(crate) fn answer(&mut self, number: u32, answer: Answer) -> Result<(), End> {
        if self.replies.len() >= MAX_REPLIES {
            return Err(End::Deaf);
        }
        self.replies.push_back((number, answer));
        Ok(())
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

    /// Sends what is queued, as far as there is room. `latest` tells the state of a path now. Whether something is left.
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

/// Whether a message went out; `Ok(false)` if there was no room.
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
    use crate::config::Limits;
    use crate::usage::Usage;
    use tickwire_link::control::Request;
    use tickwire_stack::addr::Address;
    use tickwire_stack::path::PathInfo;

    fn pair(rate: u32) -> (Connection, Channel) {
        let (ours, theirs) = Channel::pair().unwrap();
        let returns = Usage::new(Limits::default()).returns();
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
            let (incoming, _) = connection.receive(now).unwrap().unwrap();
            assert_eq!(incoming.decode::<Request>().unwrap().0, number);
        }
    }

    #[test]
    fn a_deaf_process_blocks_nobody_and_ends() {
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
    fn only_the_latest_state_of_a_path_is_told() {
        let (mut connection, client) = pair(5);
        let query = Query { destination: Address::v4([10, 0, 0, 1]), source: Address::ANY_V4, interface: 0 };
        for _ in 0..10 {
            connection.path_changed(query);
        }
        let latest = |q: &Query| {
            let path = PathInfo { destination: q.destination, mtu: 1400, ..PathInfo::default() };
            Some(Push::PathChanged { path, reason: Reason::None })
        };
        assert!(!connection.flush(latest).unwrap());
        let (number, push) = client.try_receive().unwrap().unwrap().decode::<Push>().unwrap();
        assert!(number == 0 && matches!(push, Push::PathChanged { path, .. } if path.mtu == 1400));
        assert!(client.try_receive().unwrap().is_none());
    }

    #[test]
    fn a_process_that_is_gone_ends_it() {
        let (mut connection, client) = pair(5);
        drop(client);
        assert!(matches!(connection.receive(Instant::now()), Err(End::Gone)));
    }
}
