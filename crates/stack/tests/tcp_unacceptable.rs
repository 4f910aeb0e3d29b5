//! Segments with sequence or acknowledgement numbers that no synchronised peer would send, in every
//! synchronized state (RFC 9293 §3.10.7.4, first and fifth check).

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::tcp::{Shutdown, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{StackError, TcpId};

const STATES: [TcpState; 7] = [
    TcpState::Established,
    TcpState::CloseWait,
    TcpState::LastAck,
    TcpState::FinWait1,
    TcpState::FinWait2,
    TcpState::Closing,
    TcpState::TimeWait,
];

/// A connection in a given state, and the next sequence numbers of both ends.
struct Met {
    wire: Wire,
    id: TcpId,
    /// SND.NXT and SND.UNA.
    ours: u32,
    una: u32,
    /// RCV.NXT, and the right edge of the offered window.
    theirs: u32,
    edge: u32,
}

impl Met {
    fn new(state: TcpState) -> Self {
        let mut wire = Wire::new();
        let (id, una, theirs) = wire.accepted();
        let mut met = Self { wire, id, ours: una, una, theirs, edge: 0 };
        match state {
            TcpState::CloseWait => met.hear_fin(),
            TcpState::LastAck => {
                met.hear_fin();
                met.say_fin();
            }
            TcpState::FinWait1 => met.say_fin(),
            TcpState::FinWait2 => {
                met.say_fin();
                met.acknowledge();
            }
            TcpState::Closing => {
                met.say_fin();
                met.hear_fin();
            }
            TcpState::TimeWait => {
                met.say_fin();
                met.acknowledge();
                met.hear_fin();
            }
            _ => {}
        }
        assert_eq!(met.state(), state);
        let now = met.wire.now;
        met.edge = met.theirs.wrapping_add(met.wire.stack().tcp_info(id, now).unwrap().receive_window);
        met
    }

    fn say_fin(&mut self) {
        let now = self.wire.now;
        self.wire.stack().tcp_shutdown(self.id, now, Shutdown::Write).unwrap();
        assert!(self.wire.one().has(FIN));
        self.ours += 1;
    }

    fn hear_fin(&mut self) {
        self.wire.put(Seg::new(FIN | ACK, self.theirs, self.una));
        self.theirs += 1;
        assert_eq!(self.wire.one().ack, self.theirs);
    }

    /// The peer acknowledges all data.
    fn acknowledge(&mut self) {
        self.una = self.ours;
        self.wire.put(Seg::new(ACK, self.theirs, self.una));
        self.wire.nothing();
    }

    fn state(&mut self) -> TcpState {
        self.wire.state(self.id).unwrap()
    }

    /// The answer is a bare acknowledgement with SND.NXT and RCV.NXT.
    #[track_caller]
    fn is_told_where_we_are(&mut self, what: &str) {
        let answer = self.wire.one();
        let told = (answer.bits, answer.seq, answer.ack, answer.data.len());
        assert_eq!(told, (ACK, self.ours, self.theirs, 0), "{what}");
    }

    /// Nothing was accepted: neither data nor the end of the stream.
    #[track_caller]
    fn has_taken_nothing(&mut self, state: TcpState, what: &str) {
        assert_eq!(self.state(), state, "{what}");
        let peer_may_send = matches!(state, TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2);
        assert_eq!(
            self.wire.recv(self.id),
            if peer_may_send { Err(StackError::WouldBlock) } else { Ok(vec![]) },
            "{what}"
        );
    }
}

/// RFC 9293 §3.10.7.4, first check: in every state an acknowledgement with RCV.NXT is sent, and
/// nothing of the segment is used. RFC 5961 §4.2: a SYN is treated alike, at any sequence number.
#[test]
fn what_lies_beyond_the_window_is_answered_and_not_taken() {
    for state in STATES {
        for (what, bits, data, first) in [
            ("an acknowledgement", ACK, &b""[..], 1),
            ("data", ACK, b"beyond", 0),
            ("FIN", FIN | ACK, b"", 0),
            ("SYN", SYN, b"", 0),
            ("SYN and ACK", SYN | ACK, b"", 0),
        ] {
            // A newer SYN may replace a connection in TIME-WAIT (RFC 6191): that has its own
            // scenarios.
            if state == TcpState::TimeWait && bits == SYN {
                continue;
            }
            for offset in first..=2 {
                let mut met = Met::new(state);
                let what = format!("{what} {offset} beyond the edge in {state:?}");
                let seg = Seg::new(bits, met.edge + offset, met.una).data(data);
                met.wire.put(seg.clone());
                met.is_told_where_we_are(&what);
                met.has_taken_nothing(state, &what);
                // An immediate repetition is not answered again, unless it may be the data or FIN
                // of a peer that has missed our answer.
                met.wire.put(seg);
                if data.is_empty() && bits & FIN == 0 || state == TcpState::TimeWait {
                    met.wire.nothing();
                } else {
                    met.is_told_where_we_are(&what);
                }
            }
        }
    }
}

/// RFC 9293 §3.10.7.4, first check: a RST outside of the window is dropped silently; otherwise two
/// ends could answer each other endlessly.
#[test]
fn a_reset_beyond_the_window_is_not_answered() {
    for state in STATES {
        for offset in 0..=2 {
            for bits in [RST, RST | ACK] {
                let mut met = Met::new(state);
                met.wire.put(Seg::new(bits, met.edge + offset, met.una));
                met.wire.nothing();
                met.has_taken_nothing(state, &format!("RST {offset} beyond the edge in {state:?}"));
            }
        }
    }
}

/// RFC 9293 §3.10.7.4, first check: old data is acknowledged again, because the first
/// acknowledgement may have been lost.
#[test]
fn what_was_received_before_is_acknowledged_again() {
    for state in STATES {
        let mut met = Met::new(state);
        met.wire.put(Seg::new(ACK, met.theirs - 1, met.una).data(b"?"));
        met.is_told_where_we_are(&format!("{state:?}"));
        met.has_taken_nothing(state, "data from before");
    }
}

/// RFC 9293 §3.10.7.4, fifth check, and RFC 5961 §5.2: an acknowledgement of data never sent is
/// answered with SND.NXT, and the data beside it is dropped.
#[test]
fn an_acknowledgement_of_what_was_not_sent_yet_is_answered_and_its_data_dropped() {
    for state in STATES {
        for beyond in 1..=2 {
            for bits in [ACK, FIN | ACK] {
                let mut met = Met::new(state);
                let what = format!("{beyond} beyond what was sent, in {state:?}");
                met.wire.put(Seg::new(bits, met.theirs, met.ours + beyond).data(b"unasked"));
                met.is_told_where_we_are(&what);
                met.has_taken_nothing(state, &what);
            }
        }
    }
}

/// RFC 9293 §3.10.7.4, seventh check: data is accepted while the peer may still send, and ignored
/// after its FIN.
#[test]
fn data_is_taken_until_the_peers_fin_and_ignored_after_it() {
    for state in STATES {
        let mut met = Met::new(state);
        met.wire.put(Seg::new(ACK, met.theirs, met.una).data(b"bytes"));
        match state {
            TcpState::Established | TcpState::FinWait1 | TcpState::FinWait2 => {
                let answer = met.wire.one();
                assert_eq!((answer.bits, answer.ack), (ACK, met.theirs + 5), "{state:?}");
                assert_eq!(met.wire.recv(met.id).unwrap(), b"bytes");
                assert_eq!(met.state(), state);
            }
            TcpState::TimeWait => {
                met.is_told_where_we_are("TIME-WAIT answers whatever is not its peer's last word");
                met.has_taken_nothing(state, "TIME-WAIT");
            }
            _ => {
                met.wire.nothing();
                met.has_taken_nothing(state, "after FIN");
            }
        }
    }
}

/// RFC 9293 §3.10.7.4, fifth check: in CLOSING the acknowledgement of our FIN is used, although the
/// data beside it is ignored.
#[test]
fn closing_ends_with_an_acknowledgement_beside_which_there_is_data() {
    let mut met = Met::new(TcpState::Closing);
    met.wire.put(Seg::new(ACK, met.theirs, met.ours).data(b"too late"));
    met.wire.nothing();
    assert_eq!(met.state(), TcpState::TimeWait);
}

/// RFC 9293 §3.6 and §3.10.7.4: an unacceptable segment in CLOSE-WAIT has changed nothing; the
/// program closes the connection, and it is gone.
#[test]
fn close_wait_is_left_in_order_whatever_came_meanwhile() {
    for (beyond_window, beyond_sent) in [(0, 0), (1, 0), (2, 0), (0, 1), (0, 2)] {
        let mut met = Met::new(TcpState::CloseWait);
        let seq = if beyond_window > 0 { met.edge + beyond_window } else { met.theirs };
        met.wire.put(Seg::new(ACK, seq, met.ours + beyond_sent).data(b"Sample"));
        met.wire.taken();
        let id = met.id;
        met.wire.close(id);
        let fin = met.wire.one();
        assert_eq!((fin.bits, fin.seq, fin.ack), (FIN | ACK, met.ours, met.theirs));
        met.wire.put(Seg::new(ACK, met.theirs, met.ours + 1));
        met.wire.nothing();
        met.wire.put(Seg::new(ACK, met.theirs, met.ours + 1).data(b"Sample"));
        let reset = met.wire.one();
        assert_eq!((reset.bits, reset.seq), (RST, met.ours + 1), "the connection is gone");
        met.wire.pass(Span::from_secs(1));
        met.wire.nothing();
        assert_eq!(met.wire.held(), 0);
    }
}
