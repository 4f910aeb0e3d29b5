//! Clients: programs connect to the service, get answers and pushes, and disconnect.
//!
//! | module | purpose |
//! |---|---|
//! | here | the connections: accepted, written to, paused and ended |
//! | `endpoint`, `acceptor` | the service's socket; how it accepts, also without descriptors |
//! | `connection` | one process: its requests, and the answers and pushes to it |
//! | `fair_shares`, `rate` | each user's share of a round; the rate of requests |
//! | `user_workers` | threads for work on what a user's programs pass |
//! | `capture` | copies of packets for `tickwire capture` |

mod acceptor;
mod capture;
mod connection;
mod endpoint;
mod fair_shares;
mod rate;
mod user_workers;

pub(crate) use acceptor::Acceptor;
pub(crate) use capture::Captures;
pub(crate) use connection::{Connection, ConnectionId, End, Peer, Received};
pub use endpoint::EndpointError;
pub(crate) use endpoint::{Endpoint, NamespaceLock};
pub(crate) use fair_shares::{Allowance, Ready, Round};
pub(crate) use user_workers::{Foreign, Queue, UserWorkers};

use crate::answer::Answer;
use crate::paths::Paths;
use crate::programs::Programs;
use crate::usage::Usage;
use acceptor::Visitor;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags};
use nix::sys::socket::{getsockopt, sockopt};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::RangeBounds;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};
use tickwire_host::Query;
use tickwire_lane::control::{Name, Push, Reason};
use tickwire_lane_linux::control::Channel;
use tickwire_lane_linux::sys_socket;
use tickwire_registry::{ClaimId, LaneId};

/// The first number of a connection. The event loop has those below for what else it watches.
const FIRST: ConnectionId = 16;

/// The most connections that one turn of the event loop accepts.
const TURN: usize = 32;

/// A connection is not read for so long while too much of what its user passed waits to be closed.
const HELD_UP: Duration = Duration::from_millis(50);

/// The connections of programs.
pub(crate) struct Clients {
    all: BTreeMap<ConnectionId, Connection>,
    /// The number of the next one.
    next: ConnectionId,
    /// Connections that are paused, and until when.
    resting: BTreeSet<(Instant, ConnectionId)>,
    /// The event loop's. It watches the connections, and what the loop adds.
    pub(crate) poll: Epoll,
    pub(crate) workers: UserWorkers,
    pub(crate) captures: Captures,
}

/// What is left of a connection that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) peer: Peer,
    /// The lane that the process used.
    pub(crate) lane: Option<LaneId>,
    /// Claims that were entered for the process, which has not learned of them.
    pub(crate) untold: Vec<ClaimId>,
}

impl Clients {
    /// No connection yet.
    ///
    /// # Errors
    /// If there is no epoll instance to watch them.
    pub(crate) fn new(captures: Captures) -> io::Result<Self> {
        Ok(Self {
            all: BTreeMap::new(),
            next: FIRST,
            resting: BTreeSet::new(),
            poll: Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?,
            workers: UserWorkers::default(),
            captures,
        })
    }

    /// Accepts the connections that wait at the service's socket.
    pub(crate) fn accept(&mut self, acceptor: &mut Acceptor<impl FnMut() -> io::Result<OwnedFd>>, usage: &mut Usage) {
        // Bounded, so that a burst of new connections does not starve the event loop.
        for _ in 0..TURN {
            let (socket, is_in) = match acceptor.next(Instant::now()) {
                Visitor::In(socket) => (socket, true),
                Visitor::ShownOut(socket) => (socket, false),
                Visitor::Nobody => return,
            };
            let Ok(credentials) = getsockopt(&socket, sockopt::PeerCredentials) else { continue };
            let peer = Peer { pid: u32::try_from(credentials.pid()).unwrap_or(0), uid: credentials.uid() };
            if !is_in {
                self.show_out(peer.uid, socket);
                continue;
            }
            if !usage.take_connection(peer.uid) {
                tracing::warn!(pid = peer.pid, uid = peer.uid, "too many connections: refused");
                self.show_out(peer.uid, socket);
                continue;
            }
            self.add(socket, peer, usage);
        }
    }

    /// Adds a connection that its user's account has room for.
    fn add(&mut self, socket: OwnedFd, peer: Peer, usage: &Usage) {
        // Fails before Linux 6.16, where every socket takes descriptors.
        let _ = sys_socket::take_descriptors(socket.as_fd(), true);
        let id = self.next;
        self.next += 1;
        let (queue, rate) = (self.workers.of(peer.uid), usage.limits().requests_per_second);
        let connection = Connection::new(Channel::from(socket), peer, queue, usage.returns(), rate, Instant::now());
        if let Err(error) = self.poll.add(&connection, EpollEvent::new(EpollFlags::EPOLLIN, id)) {
            tracing::warn!(%error, "cannot watch a connection");
            connection.close();
            return;
        }
        self.all.insert(id, connection);
    }

    /// Closes a connection that is refused. Where the kernel lets a client pass descriptors before
    /// it is accepted, they are closed with it, by a thread of the user's.
    fn show_out(&mut self, user: u32, socket: OwnedFd) {
        if sys_socket::takes_descriptors(socket.as_fd()).unwrap_or(true) {
            self.workers.of(user).finish(move || drop(socket));
        }
    }

    /// How many connections there are.
    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// A connection.
    pub(crate) fn get(&self, id: ConnectionId) -> Option<&Connection> {
        self.all.get(&id)
    }

    /// A connection, to be changed.
    pub(crate) fn get_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.all.get_mut(&id)
    }

    /// Connections, in the order of their numbers.
    pub(crate) fn range(
        &self,
        numbers: impl RangeBounds<ConnectionId>,
    ) -> impl Iterator<Item = (ConnectionId, &Connection)> {
        self.all.range(numbers).map(|(&id, connection)| (id, connection))
    }

    /// The process at the other end of a connection.
    pub(crate) fn peer_of(&self, id: ConnectionId) -> Option<Peer> {
        self.all.get(&id).map(|connection| connection.peer)
    }

    /// The user at the other end of a connection.
    pub(crate) fn user_of(&self, id: ConnectionId) -> Option<u32> {
        self.peer_of(id).map(|peer| peer.uid)
    }

    /// The lane that the process at a connection uses.
    pub(crate) fn lane_of(&self, id: ConnectionId) -> Option<LaneId> {
        self.all.get(&id).and_then(|connection| connection.lane)
    }

    /// The process at a connection uses this lane from now on.
    pub(crate) fn enter_lane(&mut self, id: ConnectionId, lane: LaneId) {
        if let Some(connection) = self.all.get_mut(&id) {
            connection.lane = Some(lane);
            connection.refused = None;
        }
    }

    /// The lane of these connections has ended.
    pub(crate) fn lane_ended(&mut self, connections: &BTreeSet<ConnectionId>) {
        for connection in connections {
            if let Some(connection) = self.all.get_mut(connection) {
                connection.lane = None;
            }
        }
    }

    /// Lists a program that has no lane for as long as its connection lasts; if there are too many
    /// of them, the connection ends. Returns whether it is listed.
    pub(crate) fn list_without_lane(&mut self, id: ConnectionId, program: Name, reason: Reason, usage: &Usage) -> bool {
        let Some(user) = self.user_of(id) else { return false };
        let others = self.all.iter().filter(|&(&other, c)| other != id && c.refused.is_some());
        let room = usage.room_to_list(user, others.map(|(_, c)| c.peer.uid));
        if let Some(connection) = self.all.get_mut(&id) {
            connection.refused = room.then_some((program, reason));
            connection.parting = !room;
        }
        room
    }

    /// Sets the epoll events for what a connection waits for now.
    fn watch(&self, id: ConnectionId) {
        let Some(connection) = self.all.get(&id) else { return };
        let events = match (connection.waits_to_write, connection.rests) {
            (true, _) => EpollFlags::EPOLLOUT,
            (false, false) => EpollFlags::EPOLLIN,
            // EPOLLHUP is still reported when the process closes its end.
            (false, true) => EpollFlags::empty(),
        };
        let _ = self.poll.modify(connection, &mut EpollEvent::new(events, id));
    }

    /// Sends what is queued for a connection, and waits for EPOLLOUT if something is left.
    ///
    /// # Errors
    /// Why the connection is to end.
    pub(crate) fn flush(&mut self, id: ConnectionId, paths: &Paths) -> Result<(), End> {
        let Some(connection) = self.all.get_mut(&id) else { return Ok(()) };
        let lane = connection.lane;
        let left = connection.flush(|query| paths.latest(lane?, query))?;
        if !left && connection.parting {
            return Err(End::Surplus);
        }
        if left != connection.waits_to_write {
            connection.waits_to_write = left;
            self.watch(id);
        }
        Ok(())
    }

    /// Answers a request.
    ///
    /// # Errors
    /// Why the connection is to end.
    pub(crate) fn answer(&mut self, id: ConnectionId, number: u32, answer: Answer, paths: &Paths) -> Result<(), End> {
        let Some(connection) = self.all.get_mut(&id) else { return Ok(()) };
        connection.answer(number, answer)?;
        self.flush(id, paths)
    }

    /// Sends a push to a process.
    ///
    /// # Errors
    /// Why its connection is to end.
    pub(crate) fn push(&mut self, id: ConnectionId, push: Push, paths: &Paths) -> Result<(), End> {
        let Some(connection) = self.all.get_mut(&id) else { return Ok(()) };
        connection.push(push)?;
        self.flush(id, paths)
    }

    /// Sends a process the latest state of these paths.
    ///
    /// # Errors
    /// Why its connection is to end.
    pub(crate) fn push_paths(&mut self, id: ConnectionId, queries: &[Query], paths: &Paths) -> Result<(), End> {
        let Some(connection) = self.all.get_mut(&id) else { return Ok(()) };
        queries.iter().for_each(|&query| connection.path_changed(query));
        self.flush(id, paths)
    }

    /// Ends a connection; what it leaves behind is the caller's.
    pub(crate) fn end(&mut self, id: ConnectionId, why: &End, programs: &mut Programs) -> Option<Ended> {
        let connection = self.all.remove(&id)?;
        let _ = self.poll.delete(&connection);
        let Peer { pid, uid } = connection.peer;
        match why {
            End::Gone => tracing::debug!(pid, uid, "connection closed"),
            End::Deaf => tracing::warn!(pid, uid, "client does not read replies: its connection is closed"),
            End::Malformed(what) => tracing::warn!(pid, uid, what, "message not understood: connection ended"),
            End::HeldUp => tracing::warn!(pid, uid, "what it passes keeps the service waiting: connection ended"),
            End::Surplus => tracing::debug!(pid, uid, "too many programs without a lane: not listed"),
        }
        self.captures.end(id, programs);
        let ended = Ended { peer: connection.peer, lane: connection.lane, untold: connection.untold_claims() };
        connection.close();
        Some(ended)
    }

    /// Closes all connections.
    pub(crate) fn close_all(&mut self) {
        std::mem::take(&mut self.all).into_values().for_each(Connection::close);
    }

    /// Slows a connection that exceeds its request rate.
    pub(crate) fn rest(&mut self, id: ConnectionId, until: Instant) {
        let Some(connection) = self.all.get_mut(&id) else { return };
        if !connection.rested {
            connection.rested = true;
            let (pid, uid) = (connection.peer.pid, connection.peer.uid);
            tracing::warn!(pid, uid, "asks more than it may (limits.requests_per_second): it is slowed");
        }
        self.pause(id, until);
    }

    /// Does not read a connection while too much of what its user passed waits to be closed.
    pub(crate) fn hold_up(&mut self, id: ConnectionId, now: Instant) {
        self.pause(id, now + HELD_UP);
    }

    /// Does not read a connection for a while.
    fn pause(&mut self, id: ConnectionId, until: Instant) {
        let Some(connection) = self.all.get_mut(&id) else { return };
        connection.rests = true;
        self.resting.insert((until, id));
        self.watch(id);
    }

    /// When the first of the paused connections is read again.
    pub(crate) fn next_awakening(&self) -> Option<Instant> {
        self.resting.first().map(|&(until, _)| until)
    }

    /// Resumes the connections whose pause is over.
    pub(crate) fn awake(&mut self, now: Instant) {
        while let Some(&(until, id)) = self.resting.first()
            && until <= now
        {
            self.resting.pop_first();
            if let Some(connection) = self.all.get_mut(&id) {
                connection.rests = false;
                self.watch(id);
            }
        }
    }
}
