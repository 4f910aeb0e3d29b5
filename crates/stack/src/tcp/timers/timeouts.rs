//! Timers: retransmission timeout (RFC 6298), tail loss probe and reordering timer (RFC 8985),
//! window probes (RFC 9293 §3.8.6.1), keepalive (RFC 9293 §3.8.4), user timeout (RFC 5482),
//! FIN-WAIT-2 and TIME-WAIT.
//!
//! A connection has one timer in the heap, set to the earliest of its deadlines.

use super::rtt::Bounds;
use crate::tcp::connection::socket::{Pending, Socket, TcpState, Waiting};
use crate::tcp::loss_recovery::recovery::Phase;
use crate::tcp::loss_recovery::spurious::Undo;
use crate::tcp::send::multi_frame_segment::MultiFrameSegment;
use crate::tcp::send::output::Hold;
use crate::tcp::send::queue::{self, IN_FLIGHT, is_leaving, length};
use crate::time::{Instant, Span};
use crate::{ConnectionIndex, Stack};

/// A timer that fires later than this was delayed by the host.
const LATE: Span = Span::from_millis(1);

/// The earlier of two deadlines, of which either may be unset.
fn earlier(a: Instant, b: Instant) -> Instant {
    match (a.is_never(), b.is_never()) {
        (true, _) => b,
        (_, true) => a,
        _ => a.min(b),
    }
}

impl Socket {
    /// Whether a tail loss probe may be scheduled (RFC 8985 §7.2).
    fn may_probe(&self) -> bool {
        self.negotiated.sack
            && matches!(self.recovery.phase, Phase::Open | Phase::Reduction)
            && !self.recovery.probing
            && self.send.board.sacked == 0
            && self.rtt.known()
            && self.state.may_transmit()
    }

    /// Whether so little is in flight that its acknowledgement may be delayed.
    fn has_little_out(&self) -> bool {
        self.send.outstanding() <= u32::from(self.mss)
    }

    /// The bounds for the data now in flight: the acknowledgement of less than a full segment may
    /// be delayed (RFC 9293 §3.8.6.3), but not that of a retransmission.
    fn time_limit(&self, now: Instant, bounds: Bounds) -> Bounds {
        if !self.has_little_out() || self.recovery.phase != Phase::Open || self.recovery.probing {
            return bounds;
        }
        Bounds { min: self.peer_ack_delay.allowance(now, bounds.min, self.negotiated.sack), ..bounds }
    }

    /// Whether data is held back because the window is open, but too small to be worth using (RFC
    /// 9293 §3.8.6.2.1).
    fn waits_for_window(&self) -> bool {
        let next = self.send.unsent().min(self.mss.into());
        self.send_window.size > 0
            && self.send_window.size < next
            && self.send_window.size < self.send_window.largest / 2
    }

    /// Whether the user timeout (RFC 5482) is over; false if only retransmission counts limit the
    /// connection.
    fn is_given_up(&self, now: Instant) -> bool {
        self.gives_up_at().is_some_and(|end| now >= end)
    }

    /// Restarts the retransmission timeout, because of a retransmission that must be answered
    /// first. The user timeout continues.
    pub(in crate::tcp) fn begin_timeout(&mut self, now: Instant) {
        if self.progress.stuck_since.is_never() {
            self.progress.stuck_since = self.at.timeout_from;
        }
        self.at.timeout_from = now;
    }

    /// The timer has expired, and the network is not the cause: grants a round trip more. The
    /// timeout itself may have doubled until it is as long as all the silence before it, and would
    /// double that.
    fn grant_time(&mut self, now: Instant, bounds: Bounds) {
        let bounds = self.time_limit(now, bounds);
        let waited = self.rtt.rto(&bounds) - self.rtt.base(&bounds);
        let granted = Instant::from_nanos(now.as_nanos().saturating_sub(waited.as_nanos()));
        // A probe is late long before a doubled timeout is: the timeout must not start before the
        // probe was sent.
        let begun = self.at.timeout_from;
        self.at.timeout_from = if begun.is_never() { granted } else { granted.max(begun) };
    }

    /// The end of the user timeout (RFC 5482), if it is set and something is outstanding.
    fn gives_up_at(&self) -> Option<Instant> {
        let limit = self.settings.user_timeout;
        let since = if self.progress.stuck_since.is_never() { self.at.timeout_from } else { self.progress.stuck_since };
        (!limit.is_zero() && !since.is_never()).then(|| since + limit)
    }
}

impl Stack<'_> {
    /// Sets the retransmission deadline for the data in flight, and the timer to the earliest
    /// deadline. `sent`: data was sent just now.
    pub(in crate::tcp) fn schedule(&mut self, index: ConnectionIndex, now: Instant, sent: bool) {
        let config = &self.mem.core.tcp.config;
        let bounds = config.bounds(self.mem.tcp[index].path.rto_min_ms);
        let s = &mut self.mem.tcp[index];
        if s.state.is_synchronized() && s.state != TcpState::TimeWait {
            if s.send.outstanding() > 0 {
                if s.at.timeout_from.is_never() {
                    s.at.timeout_from = now;
                    s.stats.begins(now);
                }
                let bounds = s.time_limit(now, bounds);
                let timeout = s.at.timeout_from + s.rtt.rto(&bounds);
                // A transmission moves a probe, and nothing else (RFC 8985 §7.2, §8).
                let holds = match s.at.waiting {
                    Waiting::Reordering => true,
                    Waiting::Probe => !sent,
                    _ => false,
                };
                if !holds || s.at.retransmit.is_never() {
                    (s.at.waiting, s.at.retransmit) = if s.may_probe() {
                        (Waiting::Probe, timeout.min(now + s.rtt.probe(&bounds)))
                    } else {
                        (Waiting::Timeout, timeout)
                    };
                }
            } else if s.send.unsent() > 0 || s.closing.write_shut && !s.closing.fin_queued {
                s.at.timeout_from = Instant::NEVER;
                s.stats.begins(now);
                if s.at.waiting != Waiting::Persist {
                    let held = s.send_window.size > 0 && s.settings.cork || s.waits_for_window();
                    let wait = if held { config.cork_time } else { s.rtt.rto(&bounds) };
                    (s.at.waiting, s.at.retransmit) = (Waiting::Persist, now + wait);
                }
            } else {
                s.at.timeout_from = Instant::NEVER;
                s.stats.ends(now);
                if !s.room.starved {
                    (s.at.waiting, s.at.retransmit) = (Waiting::Nothing, Instant::NEVER);
                } else if s.at.waiting != Waiting::Persist {
                    (s.at.waiting, s.at.retransmit) = (Waiting::Persist, now + bounds.min);
                }
            }
            // Retransmissions back off: the next may be due long after the user timeout.
            if let Some(end) = s.gives_up_at().filter(|&end| end < s.at.retransmit) {
                s.at.retransmit = end.max(now);
            }
        }
        self.set_timer(index);
    }

    /// Sets the timer to the earliest deadline.
    pub(in crate::tcp) fn set_timer(&mut self, index: ConnectionIndex) {
        let Socket { at, suspended, .. } = &self.mem.tcp[index];
        let next = earlier(earlier(at.retransmit, at.ack), at.keep);
        if next.is_never() || *suspended { self.disarm(index) } else { self.arm(index, next) }
    }

    /// The timer of a connection has expired.
    pub(crate) fn tcp_timer(&mut self, now: Instant, index: ConnectionIndex) {
        let Some(s) = self.mem.tcp.get_mut(index) else { return };
        if s.state == TcpState::Free {
            return;
        }
        let bounds = self.mem.core.tcp.config.bounds(s.path.rto_min_ms);
        let due = |at: Instant| !at.is_never() && at <= now;
        if due(s.at.ack) {
            s.at.ack = Instant::NEVER;
            s.ack.now = true;
            if !s.ack.thinning.give_up() {
                s.was_one_way();
            }
            self.mem.counters.tcp_delayed_acks.inc();
        }
        let (retransmit, keep) = (due(s.at.retransmit), due(s.at.keep));
        let late = now.since(s.at.retransmit) > LATE;
        if retransmit {
            s.at.retransmit = Instant::NEVER;
            let waiting = core::mem::take(&mut s.at.waiting);
            match (s.state, waiting) {
                (TcpState::SynSent | TcpState::SynReceived, _) => self.handshake_timeout(index, now),
                (_, Waiting::Timeout | Waiting::Probe) if late && !s.progress.excused => {
                    // This program was not scheduled in time; the answer may be in its receive
                    // ring. That does not indicate loss, so there is more time, once.
                    s.progress.excused = true;
                    s.grant_time(now, bounds);
                }
                (_, Waiting::Timeout) => self.retransmission_timeout(index, now),
                (_, Waiting::Reordering) => self.reordering_timeout(index, now),
                (_, Waiting::Probe) => self.send_tail_probe(index, now),
                (_, Waiting::Persist) => self.persist_timeout(index, now),
                (_, Waiting::Nothing) => {}
            }
        }
        if keep && !self.mem.tcp[index].at.keep.is_never() {
            self.keep_timeout(index, now);
        }
        if self.mem.tcp[index].state != TcpState::Free {
            if self.mem.tcp[index].state.is_synchronized() {
                self.tcp_output(index, now, Hold::AsSet);
            } else {
                self.set_timer(index);
            }
            self.update_row(index);
        }
    }

    /// No progress in time: ends the connection if that has lasted long enough.
    fn give_up(&mut self, index: ConnectionIndex, now: Instant) -> bool {
        let config = &self.mem.core.tcp.config;
        let s = &mut self.mem.tcp[index];
        if s.progress.stuck_since.is_never() {
            s.progress.stuck_since = if s.at.timeout_from.is_never() { now } else { s.at.timeout_from };
        }
        let retries = if s.orphan { config.orphan_retries } else { config.retries };
        let over = s.progress.attempts >= retries && s.settings.user_timeout.is_zero() || s.is_given_up(now);
        if over {
            self.time_out(index, now);
        }
        over
    }

    /// Another retransmission is due: ends the connection if there have been enough of them.
    fn give_up_or_count(&mut self, index: ConnectionIndex, now: Instant) -> bool {
        let over = self.give_up(index, now);
        if !over {
            let s = &mut self.mem.tcp[index];
            s.progress.attempts = s.progress.attempts.saturating_add(1);
        }
        over
    }

    /// Ends a connection without progress.
    pub(in crate::tcp) fn time_out(&mut self, index: ConnectionIndex, now: Instant) {
        self.mem.counters.tcp_abort_on_timeout.inc();
        let s = &self.mem.tcp[index];
        let why = if s.soft_error == Pending::None { Pending::TimedOut } else { s.soft_error };
        if s.state.is_synchronized() {
            self.send_reset(index, now);
        }
        self.fail(index, why);
    }

    fn retransmission_timeout(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &self.mem.tcp[index];
        let frames = &self.mem.frames;
        let Some(head) = s.send.head.get().filter(|_| s.send.outstanding() > 0) else { return };
        if is_leaving(&frames.meta[head as usize], now) {
            if !self.give_up(index, now) {
                let bounds = self.mem.core.tcp.config.bounds(self.mem.tcp[index].path.rto_min_ms);
                self.mem.tcp[index].grant_time(now, bounds);
            }
            return;
        }
        if self.give_up_or_count(index, now) {
            return;
        }
        self.mem.counters.tcp_timeouts.inc();
        let s = &mut self.mem.tcp[index];
        let frames = &mut self.mem.frames;
        if s.send.reneged(frames) {
            s.send.forget_sacks(frames);
        }
        // RFC 5681 §3.1: the threshold is lowered once per loss, however often the timer expires
        // for it.
        let first = s.progress.attempts == 1;
        if first && s.recovery.phase != Phase::Loss {
            s.recovery.undo = Undo::before(s, now);
        }
        s.cc.on_timeout(u32::from(s.mss), first);
        s.marks.reduced(s.send.nxt);
        if s.negotiated.sack || !s.has_little_out() {
            s.peer_ack_delay.lost();
        } else if first {
            s.peer_ack_delay.needless_probe(now);
        }
        let mss = u32::from(s.mss);
        let allowed = s.rack.allowed(&s.rtt, s.send.board.sacked, mss);
        s.send.mark_late_lost(frames, now, allowed, mss);
        s.recovery.frto = s.timeout_in_question(first);
        s.recovery.phase = Phase::Loss;
        s.recovery.point = s.send.nxt;
        (s.recovery.arrived_unnamed, s.recovery.duplicates, s.recovery.probing) = (0, 0, false);
        s.rtt.back_off();
        s.at.timeout_from = now;
        // It is sent however much is in flight (RFC 6298 §5.4).
        let room = s.send_window.size.max(length(&frames.meta[head as usize])) as usize;
        let first = s.send.released(frames, head, now);
        if let Some(run) = first.and_then(|id| s.cut_lost(frames, now, id, room, room)) {
            self.send_segment(index, now, &run);
        }
    }

    fn reordering_timeout(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &mut self.mem.tcp[index];
        let recovering = s.recovery.phase.repairs();
        let mss = u32::from(s.mss);
        let wait = s.rack.detect(now, &mut s.send, &mut self.mem.frames, &s.rtt, recovering, mss);
        if s.send.board.lost > 0 && !recovering {
            self.mem.counters.tcp_recoveries.inc();
            s.enter_recovery(now, 0);
            s.cc.cwnd = s.prr.window(0, s.send.pipe, s.cc.ssthresh, mss, false);
        }
        s.wait_for_reordering(now, wait);
    }

    /// RFC 8985 §7.3: sends a segment whose acknowledgement will show what is missing.
    fn send_tail_probe(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &mut self.mem.tcp[index];
        s.at.waiting = Waiting::Timeout;
        s.begin_timeout(now);
        let edge = s.send.una + s.send_window.size;
        let frames = &self.mem.frames;
        let ready = |id: &u32| frames.meta[*id as usize].flags & IN_FLIGHT == 0;
        let new = s.send.next.get().filter(ready).filter(|&id| {
            let meta = &frames.meta[id as usize];
            meta.len <= s.mss && queue::end(meta).le(edge)
        });
        let Some(id) = new.or_else(|| s.send.newest.get().filter(ready)) else {
            // Nothing has left this host since: the timeout decides.
            (s.recovery.probing, s.recovery.probe_end) = (true, s.send.nxt);
            s.recovery.probe_was_retransmission = false;
            return;
        };
        s.recovery.undo = Undo::default();
        s.recovery.probe_was_retransmission = new.is_none();
        self.mem.counters.tcp_loss_probes.inc();
        let run = MultiFrameSegment::of(&self.mem.frames, id);
        self.send_segment(index, now, &run);
        let s = &mut self.mem.tcp[index];
        s.recovery.probing = true;
        s.recovery.probe_end = s.send.nxt;
    }

    fn persist_timeout(&mut self, index: ConnectionIndex, now: Instant) {
        let bounds = self.mem.core.tcp.config.bounds(self.mem.tcp[index].path.rto_min_ms);
        let s = &mut self.mem.tcp[index];
        if core::mem::take(&mut s.room.starved) {
            self.notify_writable(index);
        }
        let s = &mut self.mem.tcp[index];
        if s.send.unsent() == 0 && (!s.closing.write_shut || s.closing.fin_queued) {
            return;
        }
        if s.send_window.size > s.send.outstanding() {
            // The window is open: a cork, Nagle's algorithm or silly window avoidance has held the
            // data back long enough.
            self.tcp_output(index, now, Hold::Nothing);
            return;
        }
        if self.give_up_or_count(index, now) {
            return;
        }
        self.mem.counters.tcp_zero_window_probes.inc();
        self.send_probe(index, now);
        let s = &mut self.mem.tcp[index];
        s.rtt.back_off();
        (s.at.waiting, s.at.retransmit) = (Waiting::Persist, now + s.rtt.rto(&bounds));
    }

    /// A segment just before the window: the peer must answer with an acknowledgement (RFC 9293
    /// §3.10.7.4).
    fn send_probe(&mut self, index: ConnectionIndex, now: Instant) {
        self.send_bare(index, now, |header| header.seq = header.seq - 1);
    }

    /// Keepalive, or the end of FIN-WAIT-2 or TIME-WAIT.
    fn keep_timeout(&mut self, index: ConnectionIndex, now: Instant) {
        let s = &mut self.mem.tcp[index];
        s.at.keep = Instant::NEVER;
        match s.state {
            TcpState::TimeWait => return self.finish(index),
            TcpState::FinWait2 if s.orphan => return self.finish(index),
            TcpState::SynSent | TcpState::SynReceived | TcpState::Closed | TcpState::Free => return,
            _ => {}
        }
        if !s.settings.keepalive {
            return;
        }
        let (idle, interval) = (s.settings.keep_idle, s.settings.keep_interval);
        if s.send.outstanding() > 0 || s.send.unsent() > 0 {
            s.at.keep = now + idle; // data serves as a probe
            return;
        }
        if s.idle(now) < idle && s.progress.keep_probes == 0 {
            s.at.keep = s.progress.heard + idle;
            return;
        }
        let limit = s.settings.user_timeout;
        let enough = if limit.is_zero() {
            s.progress.keep_probes >= s.settings.keep_count
        } else {
            s.progress.keep_probes > 0 && s.idle(now) >= limit
        };
        if enough {
            self.time_out(index, now);
            return;
        }
        s.progress.keep_probes = s.progress.keep_probes.saturating_add(1);
        s.at.keep = now + interval.max(Span::from_millis(1));
        self.mem.counters.tcp_keepalives.inc();
        self.send_probe(index, now);
    }
}

impl Socket {
    /// Sets the timer to the end of the reordering window, if RACK requests it.
    pub(in crate::tcp) fn wait_for_reordering(&mut self, now: Instant, wait: Option<Span>) {
        match wait {
            Some(wait) => {
                (self.at.waiting, self.at.retransmit) = (Waiting::Reordering, now + wait.max(Span::from_nanos(1)));
            }
            None if self.at.waiting == Waiting::Reordering => {
                (self.at.waiting, self.at.retransmit) = (Waiting::Nothing, Instant::NEVER);
            }
            None => {}
        }
    }
}
