//! The end of a connection and what remains of it: lingering closes, unacknowledged FINs,
//! FIN-WAIT-2, the user timeout.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::tcp::{Shutdown, TcpSetting, TcpState};
use tickwire_stack::time::{Instant, Span};
use tickwire_stack::{StackConfig, StackError, TcpId};

/// A connection with a round trip of 1 ms; without SACK, so that only the timeout retransmits
/// unacknowledged data.
fn measured() -> (Wire, TcpId, u32, u32) {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    wire.send(id, b"Sample Data").unwrap();
    wire.one();
    wire.pass(Span::from_millis(1));
    wire.put(Seg::new(ACK, theirs, ours + 11));
    wire.nothing();
    (wire, id, ours + 11, theirs)
}

fn shut(wire: &mut Wire, id: TcpId, how: Shutdown) {
    let now = wire.now;
    wire.stack().tcp_shutdown(id, now, how).unwrap();
}

fn set(wire: &mut Wire, id: TcpId, setting: TcpSetting) {
    let now = wire.now;
    wire.stack().tcp_set(id, now, setting).unwrap();
}

/// `SO_LINGER` with a time of zero (RFC 9293 §3.10.5, ABORT): a RST at the current sequence number,
/// whatever was shut down before. Without the option, and with a longer time (the caller does the
/// waiting): a FIN.
#[test]
fn how_a_connection_lingers_says_how_it_is_closed() {
    for linger in [None, Some(Span::ZERO), Some(Span::from_secs(3))] {
        for (shuts, hears_fin, unsent) in [
            (false, false, false),
            (true, false, false),
            (false, true, false),
            (true, true, false),
            (false, false, true),
        ] {
            let (mut wire, id, ours, theirs) = measured();
            set(&mut wire, id, TcpSetting::Linger(linger));
            let (mut next, mut expected) = (ours, theirs);
            if unsent {
                wire.put(Seg::new(ACK, theirs, ours).window(0));
                wire.send(id, b"not sent").unwrap();
                wire.nothing();
            }
            if shuts {
                shut(&mut wire, id, Shutdown::Both);
                let fin = wire.one();
                assert_eq!((fin.bits, fin.seq, fin.ack), (FIN | ACK, next, expected));
                next += 1;
            }
            if hears_fin {
                wire.put(Seg::new(FIN | ACK, theirs, next));
                expected += 1;
                assert_eq!(wire.one().ack, expected);
            }
            wire.close(id);
            let over = shuts && hears_fin;
            let what = format!("linger {linger:?}, shut {shuts}, FIN heard {hears_fin}, unsent {unsent}");
            let sent: Vec<_> = wire.taken().iter().map(|seg| (seg.bits, seg.seq, seg.ack)).collect();
            if over {
                assert_eq!(sent, [], "{what}: TIME-WAIT needs no end");
            } else if linger == Some(Span::ZERO) {
                assert_eq!(sent, [(RST | ACK, next, expected)], "{what}");
                assert_eq!((wire.held(), wire.stack().deadline()), (0, None), "{what}");
            } else if shuts || unsent {
                assert_eq!(sent, [], "{what}: FIN has been sent, or waits behind the data");
            } else {
                assert_eq!(sent, [(FIN | ACK, next, expected)], "{what}");
            }
        }
    }
}

/// RFC 9293 §3.10.4 and §3.8.3: data written before the close is sent first, the FIN follows, and
/// both are retransmitted until they are acknowledged.
#[test]
fn data_comes_before_the_end() {
    for shuts in [false, true] {
        let (mut wire, id, ours, theirs) = measured();
        wire.send(id, b"Sample Data").unwrap();
        let data = wire.one();
        if shuts {
            shut(&mut wire, id, Shutdown::Both);
        }
        wire.close(id);
        let fin = wire.one();
        assert_eq!((data.seq, fin.bits, fin.seq), (ours, FIN | ACK, ours + 11));
        wire.pass(Span::from_millis(100));
        let again = wire.taken();
        assert!(again.len() > 1 && again[0].seq == ours && again[0].data == b"Sample Data", "{again:?}");
        wire.put(Seg::new(ACK, theirs, ours + 11));
        wire.taken();
        wire.pass(Span::from_millis(300));
        let again = wire.taken();
        assert!(!again.is_empty() && again.iter().all(|seg| seg.has(FIN) && seg.seq == ours + 11), "{again:?}");
        wire.put(Seg::new(FIN | ACK, theirs, ours + 12));
        assert_eq!(wire.one().ack, theirs + 1);
    }
}

/// RFC 9293 §3.8.1 and RFC 6298 §5: an unacknowledged FIN is retransmitted with backoff, also after
/// the peer's own FIN, or after the acknowledgement of the data before it.
#[test]
fn a_fin_comes_again_until_it_is_acknowledged() {
    for state in [TcpState::FinWait1, TcpState::Closing, TcpState::LastAck] {
        let (mut wire, id, ours, mut theirs) = measured();
        if state == TcpState::LastAck {
            wire.put(Seg::new(FIN | ACK, theirs, ours));
            theirs += 1;
            wire.one();
        }
        shut(&mut wire, id, Shutdown::Write);
        assert_eq!(wire.one().bits, FIN | ACK);
        if state == TcpState::Closing {
            wire.put(Seg::new(FIN | ACK, theirs, ours));
            theirs += 1;
            assert_eq!((wire.one().bits, wire.state(id)), (ACK, Ok(TcpState::Closing)));
        } else {
            wire.put(Seg::new(ACK, theirs, ours));
            wire.nothing();
        }
        let start = wire.now;
        wire.pass(Span::from_millis(400));
        let again = wire.taken_at();
        assert!(again.iter().all(|(_, seg)| (seg.bits, seg.seq, seg.ack) == (FIN | ACK, ours, theirs)), "{again:?}");
        let times: Vec<_> = again.iter().map(|(at, _)| at.since(start).as_millis()).collect();
        assert_eq!(times, [6, 18, 42, 90, 186, 378], "{state:?}");
        assert_eq!(wire.state(id), Ok(state));
        wire.put(Seg::new(ACK, theirs, ours + 1));
        wire.nothing();
        let next = match state {
            TcpState::FinWait1 => TcpState::FinWait2,
            TcpState::Closing => TcpState::TimeWait,
            _ => TcpState::Closed,
        };
        assert_eq!(wire.state(id), Ok(next));
    }
}

/// RFC 9293 §3.6 sets no limit for FIN-WAIT-2. As on Linux it has one once the program has closed;
/// a peer that then still uses the connection is reset (§3.10.7.1). A program that has only shut
/// down its sending side may wait without limit (§3.6.1).
#[test]
fn fin_wait_2_lasts_its_time_and_then_nothing_is_left() {
    for (seconds, closes, left) in [(1, true, false), (60, true, true), (1, false, true)] {
        let mut config = StackConfig::default();
        config.tcp.fin_timeout = Span::from_secs(seconds);
        let mut wire = Wire::with(config);
        let (id, ours, theirs) = wire.accepted();
        shut(&mut wire, id, Shutdown::Write);
        if closes {
            wire.close(id);
        }
        assert_eq!(wire.one().bits, FIN | ACK);
        wire.put(Seg::new(ACK, theirs, ours + 1));
        wire.pass(Span::from_secs(5));
        wire.nothing();
        wire.put(Seg::new(ACK, theirs, ours + 1));
        if left {
            wire.nothing();
            wire.put(Seg::new(FIN | ACK, theirs, ours + 1));
            assert_eq!(wire.one().ack, theirs + 1, "it is TIME-WAIT now");
        } else {
            let reset = wire.one();
            assert_eq!((reset.bits, reset.seq), (RST, ours + 1));
            assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
        }
    }
}

/// The transmissions since `start`: time in milliseconds after it, and flags.
fn sent_after(wire: &mut Wire, start: Instant) -> Vec<(u64, u8)> {
    wire.taken_at().into_iter().map(|(at, seg)| (at.since(start).as_millis(), seg.bits)).collect()
}

/// `TCP_USER_TIMEOUT` (RFC 5482 §2, RFC 9293 §3.8.3): an acknowledgement before it expires saves
/// the connection, a later one finds none. That holds for the FIN of a closed socket as for data.
#[test]
fn the_user_timeout_decides_which_acknowledgement_comes_too_late() {
    for (timeout, answered) in [(0, 3), (5, 4), (5, 7)] {
        for fin in [false, true] {
            let (mut wire, id, ours, theirs) = measured();
            set(&mut wire, id, TcpSetting::UserTimeout(Span::from_secs(timeout)));
            let start = wire.now;
            let end = if fin {
                wire.close(id);
                ours + 1
            } else {
                wire.send(id, &[1; 100]).unwrap();
                ours + 100
            };
            let what = format!("{timeout} s, answered after {answered} s, fin: {fin}");
            wire.pass(Span::from_secs(answered));
            let sent = sent_after(&mut wire, start);
            wire.put(Seg::new(ACK, theirs, end));
            if timeout == 0 || answered < timeout {
                assert!(sent.iter().all(|(_, bits)| bits & RST == 0), "{what}: {sent:?}");
                wire.nothing();
                wire.pass(Span::from_secs(5));
                wire.nothing();
                if !fin {
                    assert_eq!(wire.state(id), Ok(TcpState::Established), "{what}");
                }
            } else {
                assert_eq!(sent.last(), Some(&(5_000, RST | ACK)), "{what}");
                let reset = wire.one();
                assert_eq!((reset.bits, reset.seq), (RST, end), "{what}");
                if !fin {
                    assert_eq!(wire.recv(id), Err(StackError::TimedOut), "{what}");
                }
            }
        }
    }
}

/// RFC 5482 §2: the user timeout counts from the first transmission, although a tail loss probe
/// (RFC 8985 §7) restarts the retransmission timer.
#[test]
fn a_probe_does_not_postpone_the_user_timeout() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.send(id, b"x").unwrap();
    wire.pass(Span::from_millis(100));
    wire.put(Seg::new(ACK, theirs, ours + 1));
    wire.taken();
    set(&mut wire, id, TcpSetting::UserTimeout(Span::from_millis(250)));
    let start = wire.now;
    wire.send(id, b"lost").unwrap();
    wire.pass(Span::from_millis(249));
    assert!(wire.count("TcpExtTCPLossProbes") > 0);
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    wire.taken();
    wire.pass(Span::from_millis(1));
    assert_eq!(sent_after(&mut wire, start), [(250, RST | ACK)]);
    assert_eq!(wire.recv(id), Err(StackError::TimedOut));
}

/// RFC 5482 §2: every acknowledgement restarts the user timeout.
#[test]
fn the_user_timeout_begins_anew_with_each_acknowledgement() {
    let (mut wire, id, ours, theirs) = measured();
    set(&mut wire, id, TcpSetting::UserTimeout(Span::from_secs(5)));
    wire.send(id, &[1; 3_000]).unwrap();
    for n in 1..=3 {
        wire.pass(Span::from_secs(4));
        assert_eq!(wire.state(id), Ok(TcpState::Established));
        wire.put(Seg::new(ACK, theirs, ours + 1_000 * n));
    }
    wire.pass(Span::from_secs(100));
    assert_eq!(wire.state(id), Ok(TcpState::Established), "nothing is left to be acknowledged");
}
