//! The connections of programs: they are accepted, what is for them is sent, and they end.

use crate::acceptor::{Acceptor, Visitor};
use crate::answer::{Answer, reason_of};
use crate::connection::{Connection, ConnectionId, End, Peer};
use crate::registry::LaneId;
use crate::service::Service;
use nix::sys::epoll::{EpollEvent, EpollFlags};
use nix::sys::socket::{getsockopt, sockopt};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;
use tickwire_host::Query;
use tickwire_lane::control::{Push, Reason};
use tickwire_link::control::Channel;
use tickwire_link::sys_socket;

/// The most connections that one turn of the event loop accepts.
const TURN: usize = 32;

impl Service {
    /// Accepts the connections that wait at the service's socket.
    pub(crate) fn accept(&mut self, door: &mut Acceptor<impl FnMut() -> io::Result<OwnedFd>>, next: &mut ConnectionId) {
        // Bounded, so that a burst of new connections does not starve the event loop.
        for _ in 0..TURN {
            let (socket, is_in) = match door.next(Instant::now()) {
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
            if !self.usage.take_connection(peer.uid) {
                tracing::warn!(pid = peer.pid, uid = peer.uid, "too many connections: refused");
                self.show_out(peer.uid, socket);
                continue;
            }
            // Fails before Linux 6.16, where every socket takes descriptors.
            let _ = sys_socket::take_descriptors(socket.as_fd(), true);
            let id = *next;
            *next += 1;
            let rate = self.usage.limits().requests_per_second;
            let connection = Connection::new(
                Channel::from(socket),
                peer,
                self.offload.of(peer.uid),
                self.usage.returns(),
                rate,
                Instant::now(),
            );
            if let Err(error) = self.poll.add(&connection, EpollEvent::new(EpollFlags::EPOLLIN, id)) {
                tracing::warn!(%error, "cannot watch a connection");
                connection.close();
                continue;
            }
            self.connections.insert(id, connection);
        }
    }

    /// The user at the other end of a connection.
    pub(crate) fn user_of(&self, id: ConnectionId) -> Option<u32> {
        self.connections.get(&id).map(|c| c.peer.uid)
    }

    /// Closes a connection that is refused. Where the kernel lets a client pass descriptors before
    /// it is accepted, they are closed with it, by a thread of the user's.
    fn show_out(&mut self, user: u32, socket: OwnedFd) {
        if sys_socket::takes_descriptors(socket.as_fd()).unwrap_or(true) {
            self.offload.of(user).finish(move || drop(socket));
        }
    }

    /// Sets the epoll events for what a connection waits for now.
    pub(crate) fn watch(&self, id: ConnectionId) {
        let Some(connection) = self.connections.get(&id) else { return };
        let events = match (connection.waits_to_write, connection.rests) {
            (true, _) => EpollFlags::EPOLLOUT,
            (false, false) => EpollFlags::EPOLLIN,
            // EPOLLHUP is still reported when the process closes its end.
            (false, true) => EpollFlags::empty(),
        };
        let _ = self.poll.modify(connection, &mut EpollEvent::new(events, id));
    }

    /// Sends what is queued for a connection, and waits for EPOLLOUT if something is left.
    pub(crate) fn flush(&mut self, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        let watches = connection.lane.and_then(|lane| self.lanes.get(&lane)).map(|lane| &lane.watches);
        let latest = |query: &Query| {
            let answer = watches?.get(query)?;
            Some(Push::PathChanged { path: answer.path, reason: reason_of(answer.why) })
        };
        match connection.flush(latest) {
            Ok(false) if connection.parting => self.end_connection(id, &End::Surplus),
            Ok(left) => {
                if left != connection.waits_to_write {
                    connection.waits_to_write = left;
                    self.watch(id);
                }
            }
            Err(end) => self.end_connection(id, &end),
        }
    }

    /// Answers a request.
    pub(crate) fn answer(&mut self, id: ConnectionId, number: u32, answer: Answer) {
        let Some(connection) = self.connections.get_mut(&id) else { return };
        match connection.answer(number, answer) {
            Ok(()) => self.flush(id),
            Err(end) => self.end_connection(id, &end),
        }
    }

    /// Sends a push to every process of a lane.
    pub(crate) fn push_to_lane(&mut self, lane: LaneId, push: impl Fn() -> Push) {
        let Some(lane) = self.lanes.get(&lane) else { return };
        for id in lane.connections.clone() {
            self.push(id, push());
        }
    }

    /// Sends a push to one process.
    pub(crate) fn push(&mut self, id: ConnectionId, push: Push) {
        match self.connections.get_mut(&id).map(|connection| connection.push(push)) {
            Some(Err(end)) => self.end_connection(id, &end),
            Some(Ok(())) => self.flush(id),
            None => {}
        }
    }

    /// Sends every process of a lane the latest state of these paths.
    pub(crate) fn push_paths(&mut self, lane: LaneId, queries: &[Query]) {
        let Some(lane) = self.lanes.get(&lane) else { return };
        for id in lane.connections.clone() {
            if let Some(connection) = self.connections.get_mut(&id) {
                queries.iter().for_each(|&query| connection.path_changed(query));
                self.flush(id);
            }
        }
    }

    /// Ends a connection, and its lane with the last one.
    pub(crate) fn end_connection(&mut self, id: ConnectionId, why: &End) {
        let Some(connection) = self.connections.remove(&id) else { return };
        let _ = self.poll.delete(&connection);
        let Peer { pid, uid } = connection.peer;
        match why {
            End::Gone => tracing::debug!(pid, uid, "connection closed"),
            End::Deaf => tracing::warn!(pid, uid, "client does not read replies: its connection is closed"),
            End::Malformed(what) => tracing::warn!(pid, uid, what, "message not understood: connection ended"),
            End::HeldUp => tracing::warn!(pid, uid, "what it passes keeps the service waiting: connection ended"),
            End::Surplus => tracing::debug!(pid, uid, "too many programs without a lane: not listed"),
        }
        self.captures.end(id, &mut self.programs);
        let number = connection.lane;
        connection.close();
        self.forget_waiting(id, uid);
        if let Some(number) = number {
            self.leave_lane(id, pid, number);
        }
    }

    /// A process no longer uses its lane; the lane ends with its last process.
    pub(crate) fn leave_lane(&mut self, id: ConnectionId, pid: u32, number: LaneId) {
        let Some(lane) = self.lanes.get_mut(&number) else { return };
        lane.connections.remove(&id);
        if lane.connections.is_empty() {
            self.reap(number, Reason::LaneGone);
        } else {
            self.push_to_lane(number, || Push::PeerGone { pid });
        }
    }
}
