//! Invariants of connections and listeners: see [`Stack::check_invariants`].

#[cfg(test)]
mod tests;

use crate::demux::invariants::{Found, Way};
use crate::invariants::Holders;
use crate::path::Query;
use crate::pool::SlotLink;
use crate::pool::invariants::walk;
use crate::tcp::connection::socket::{Socket, TcpState};
use crate::tcp::loss_recovery::recovery::Phase;
use crate::tcp::setup::listener::Listener;
use crate::{ConnectionIndex, Stack};

impl Socket {
    /// Whether a timer must be armed in case the peer stays silent.
    fn waits(&self) -> bool {
        match self.state {
            _ if self.suspended => false,
            TcpState::SynSent | TcpState::SynReceived => true,
            TcpState::Free | TcpState::Closed | TcpState::TimeWait => false,
            _ => self.send.queued() > 0 || self.closing.write_shut && !self.closing.fin_queued,
        }
    }

    fn way(&self) -> Way {
        match self.state {
            TcpState::Free | TcpState::Closed => Way::None,
            _ => Way::Connected(self.local, self.remote),
        }
    }

    /// Whether its slot will be freed: by the program, which holds its handle or is to accept it,
    /// or else by a timer.
    fn will_end(&self) -> bool {
        let timed = !self.at.retransmit.is_never() || !self.at.keep.is_never();
        match self.state {
            TcpState::SynReceived if self.passive => timed && !self.listener.is_none(),
            _ => !self.orphan || timed && self.state != TcpState::Closed,
        }
    }

    fn check_invariants(&self, index: ConnectionIndex) {
        let Self { send, recv, .. } = self;
        if !self.state.is_synchronized() {
            return;
        }
        assert!(send.una.le(send.nxt) && send.nxt.le(send.end), "{index}: SND.UNA, SND.NXT, end of the queue");
        assert!(
            self.ack.last_sent.le(recv.next) && recv.next.le(self.receive_window.edge),
            "{index}: Last.ACK.sent, RCV.NXT, right edge"
        );
        let asked = !self.at.ack.is_never() || self.ack.now || self.ack.soon;
        assert!(self.ack.thinning.bytes == 0 || asked, "{index}: what was left out would never be acknowledged");
        assert!(self.mss > 0, "{index}: segments without payload");
        assert!(self.cc.cwnd > 0 || self.recovery.phase != Phase::Open, "{index}: a shut congestion window");
        assert!(self.send_window.size <= self.send_window.largest, "{index}: largest window");
        assert!(
            !self.closing.fin_received || self.closing.fin_seen && recv.next == self.closing.fin_at + 1,
            "{index}: FIN"
        );
    }
}

impl Stack<'_> {
    pub(crate) fn check_connections(&self, holders: &mut Holders, found: &mut Found) {
        let frames = &self.mem.frames;
        let taken = self.mem.tcp.taken("connections", &self.mem.core.free_tcp, |s| s.link.as_pool_link());
        self.check_handles::<Socket>(&taken);
        let (mut established, mut queued) = (0, 0);
        for (index, s) in self.mem.tcp.enumerate() {
            let due = self.check_timer(index);
            assert_eq!(taken.has(index.number()), s.state != TcpState::Free, "handle of {index}, {:?}", s.state);
            if s.state == TcpState::Free {
                assert!(due.is_never(), "timer of {index}, which is free");
                continue;
            }
            s.send.check_invariants(frames, |id| holders.note(id, "a send queue"));
            s.recv.check_invariants(frames, |id| holders.note(id, "a receive queue"));
            s.check_invariants(index);
            let deadlines = [s.at.retransmit, s.at.ack, s.at.keep].into_iter();
            let earliest = deadlines.filter(|at| !at.is_never() && !s.suspended).min();
            let armed = earliest.is_none_or(|at| due <= at && !due.is_never());
            assert!(armed, "{index}: the timer is set to {due:?}, the earliest deadline is {earliest:?}");
            assert!(!s.waits() || !s.at.retransmit.is_never(), "{index}: nothing will ever happen in {:?}", s.state);
            let ends = s.state != TcpState::TimeWait || !s.at.keep.is_never();
            assert!(ends, "{index}: TIME-WAIT without end");
            assert!(s.will_end(), "{index}: its slot is never freed, in {:?}", s.state);
            self.check_way(index, s.way(), found);
            queued += usize::from(s.queued);
            established += u64::from(matches!(s.state, TcpState::Established | TcpState::CloseWait));
        }
        assert_eq!(self.mem.counters.tcp_curr_estab.get(), established, "TcpCurrEstab");
        self.check_heap();
        let listed = self.check_time_wait() + self.check_listeners(found);
        assert_eq!(queued, listed, "connections that are on a list of TIME-WAIT, or to be accepted");
    }

    /// How many half-open connections use the path that answers `query`.
    pub(crate) fn half_open_by(&self, query: &Query) -> usize {
        self.mem.tcp.iter().filter(|s| s.state == TcpState::SynReceived && s.query() == *query).count()
    }

    fn check_time_wait(&self) -> usize {
        let shared = &self.mem.core.tcp;
        let mut before = SlotLink::NONE;
        let listed = walk(shared.time_wait_head, self.mem.tcp.len(), |index| {
            let s = &self.mem.tcp[index];
            assert!(s.state == TcpState::TimeWait && s.queued && s.back == before, "{index} on the list of TIME-WAIT");
            before = SlotLink::to(index);
            s.link
        });
        assert_eq!(before, shared.time_wait_tail, "the end of the list of TIME-WAIT");
        let orphans = self.mem.tcp.iter().filter(|s| s.state == TcpState::TimeWait && s.orphan).count();
        assert_eq!(listed, orphans, "connections in TIME-WAIT without a handle are on its list");
        listed
    }

    /// Returns how many connections are to be accepted.
    fn check_listeners(&self, found: &mut Found) -> usize {
        let taken = self.mem.listeners.taken("listeners", &self.mem.core.free_listeners, |listener| listener.link);
        self.check_handles::<Listener>(&taken);
        for s in self.mem.tcp.iter().filter(|s| s.state != TcpState::Free) {
            assert!(
                s.listener.get().is_none_or(|at| taken.has(at.number())),
                "the listener of {:?} is closed",
                s.remote
            );
        }
        let mut to_accept = 0;
        for at in taken.indices(&self.mem.listeners) {
            let listener = &self.mem.listeners[at];
            let mine = |s: &Socket| s.listener == SlotLink::to(at);
            let half_open = self.mem.tcp.iter().filter(|s| s.state == TcpState::SynReceived && mine(s)).count();
            assert_eq!(half_open, listener.half_open as usize, "half-open connections of listener {at}");
            let mut before = SlotLink::NONE;
            let queued = walk(listener.accept_head, self.mem.tcp.len(), |index| {
                let s = &self.mem.tcp[index];
                assert!(s.state != TcpState::Free && s.queued && mine(s), "{index} in the queue of listener {at}");
                before = SlotLink::to(index);
                s.link
            });
            assert_eq!(queued, listener.accept_len as usize, "the queue of listener {at}");
            assert_eq!(before, listener.accept_tail, "the end of the queue of listener {at}");
            to_accept += queued;
            self.check_way(at, Way::Bound(listener.local), found);
        }
        to_accept
    }
}
