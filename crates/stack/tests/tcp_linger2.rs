//! How long a closed socket waits for the peer's FIN (`TCP_LINGER2`), as on Linux: for the time
//! set, for the stack's default, or not at all.

mod tcp_support;

use tcp_support::raw::*;
use tickwire_stack::tcp::{Shutdown, TcpSetting, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{StackConfig, TcpId};

fn set(wire: &mut Wire, id: TcpId, time: Option<Span>) {
    let now = wire.now;
    wire.stack().tcp_set(id, now, TcpSetting::FinWait(time)).unwrap();
}

/// RFC 9293 §3.6.1 and RFC 1122 §4.2.2.13 leave the time open; Linux limits it to two minutes, and
/// 0 means the host's default.
#[test]
fn fin_wait_2_lasts_as_long_as_the_program_says() {
    let mut config = StackConfig::default();
    config.tcp.fin_timeout = Span::from_secs(20);
    for (seconds, lasts) in [(1, 1), (30, 30), (120, 120), (1000, 120), (0, 20)] {
        let mut wire = Wire::with(config);
        let (id, ours, theirs) = wire.accepted();
        set(&mut wire, id, Some(Span::from_secs(seconds)));
        wire.close(id);
        assert_eq!(wire.one().bits, FIN | ACK);
        wire.put(Seg::new(ACK, theirs, ours + 1));
        wire.pass(Span::from_secs(lasts) - Span::from_millis(1));
        assert!(wire.stack().deadline().is_some(), "{seconds} s");
        wire.pass(Span::from_millis(2));
        wire.nothing();
        assert_eq!((wire.held(), wire.stack().deadline()), (0, None), "{seconds} s");
        assert_eq!(wire.count("TcpExtTCPAbortOnLinger"), 0);
    }
}

/// As on Linux at least three and a half timeouts: a retransmitted FIN on a slow path must still
/// find the connection.
#[test]
fn fin_wait_2_lasts_long_enough_for_a_lost_fin() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    set(&mut wire, id, Some(Span::from_secs(1)));
    wire.send(id, b"far").unwrap();
    wire.one();
    wire.pass(Span::from_millis(900));
    wire.taken();
    wire.put(Seg::new(ACK, theirs, ours + 3));
    let now = wire.now;
    let rto = wire.stack().tcp_info(id, now).unwrap().rto;
    assert!(rto > Span::from_millis(500), "{rto:?}");
    wire.close(id);
    wire.put(Seg::new(ACK, theirs, ours + 4));
    let now = wire.now;
    let left = wire.stack().deadline().unwrap().since(now);
    assert!(left >= rto.times(3), "{left:?} of {rto:?}");
}

/// A negative time: the connection is reset as soon as the peer has acknowledged our FIN, with or
/// without its own.
#[test]
fn without_a_wait_the_connection_is_reset_when_its_fin_is_acknowledged() {
    for bits in [ACK, FIN | ACK] {
        let mut wire = Wire::new();
        let (id, ours, theirs) = wire.accepted();
        set(&mut wire, id, None);
        wire.close(id);
        assert_eq!(wire.one().bits, FIN | ACK);
        wire.put(Seg::new(bits, theirs, ours + 1));
        let reset = wire.one();
        assert_eq!((reset.bits & RST, reset.seq), (RST, ours + 1));
        assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
        assert_eq!(wire.count("TcpExtTCPAbortOnLinger"), 1);
    }
}

/// The same if it is closed in FIN-WAIT-2; until then it waits for the peer, which may continue to
/// send.
#[test]
fn without_a_wait_the_connection_is_reset_when_it_is_closed_in_fin_wait_2() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    set(&mut wire, id, None);
    let now = wire.now;
    wire.stack().tcp_shutdown(id, now, Shutdown::Write).unwrap();
    assert_eq!(wire.one().bits, FIN | ACK);
    wire.put(Seg::new(ACK, theirs, ours + 1));
    wire.put(Seg::new(ACK, theirs, ours + 1).data(b"last words"));
    wire.taken();
    assert_eq!(wire.state(id), Ok(TcpState::FinWait2));
    assert_eq!(wire.recv(id).unwrap(), b"last words");
    wire.close(id);
    let reset = wire.one();
    assert_eq!((reset.bits & RST, reset.seq), (RST, ours + 1));
    assert_eq!((wire.held(), wire.stack().deadline()), (0, None));
}

/// Connections inherit the time set on their listener.
#[test]
fn a_listener_passes_its_time_on() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    wire.stack().tcp_listener_set(listener, TcpSetting::FinWait(Some(Span::from_secs(7)))).unwrap();
    let (id, ..) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0));
    assert_eq!(wire.stack().tcp_options(id).unwrap().fin_wait, Span::from_secs(7));
}
