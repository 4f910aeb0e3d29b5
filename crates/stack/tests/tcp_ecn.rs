//! Explicit congestion notification (RFC 3168): negotiation, marking, the echo to the sender, and
//! the sender's reaction.

mod tcp_support;

use tcp_support::raw::{ACK, CE, CWR, ECE, ECT0, SYN, Seg, Wire};
use tcp_support::{Flow, close_and_check, connected, transfer};
use tickwire_sim::{LinkConfig, PairConfig, SimulatedPair};
use tickwire_stack::path::PathInfo;
use tickwire_stack::tcp::{Ecn, TcpSetting};
use tickwire_stack::time::Span;
use tickwire_stack::{StackConfig, TcpId};

const MSS: u32 = 1000;
/// MSS 1000 and SACK.
const OPTIONS: [u8; 8] = [2, 4, 3, 232, 4, 2, 1, 1];

fn using(ecn: Ecn) -> Wire {
    let mut config = StackConfig::default();
    config.tcp.ecn = ecn;
    Wire::with(config)
}

/// A connection that the peer opened, requesting ECN.
fn agreed(wire: &mut Wire) -> (TcpId, u32, u32) {
    let listener = wire.listen(8);
    wire.accepted_with(listener, Seg::new(SYN | ECE | CWR, 1000, 0).options(&OPTIONS))
}

fn window(wire: &mut Wire, id: TcpId) -> u32 {
    let now = wire.now;
    wire.stack().tcp_info(id, now).unwrap().cwnd / MSS
}

/// RFC 3168 §6.1.1: a SYN with both bits requests ECN; the SYN-ACK has one of them if the stack
/// uses ECN.
#[test]
fn a_syn_that_asks_is_answered() {
    for (ecn, asked, answered) in [
        (Ecn::Accept, ECE | CWR, true),
        (Ecn::Ask, ECE | CWR, true),
        (Ecn::Off, ECE | CWR, false),
        (Ecn::Accept, ECE, false),
        (Ecn::Accept, 0, false),
    ] {
        let mut wire = using(ecn);
        let listener = wire.listen(8);
        wire.put(Seg::new(SYN | asked, 1000, 0).options(&OPTIONS));
        let answer = wire.one();
        assert_eq!(answer.bits, SYN | ACK | if answered { ECE } else { 0 }, "{ecn:?} {asked:#x}");
        assert_eq!(answer.class, 0, "§6.1.1: neither SYN nor SYN-ACK may be marked");
        wire.put(Seg::new(ACK, 1001, answer.seq + 1));
        let id = wire.stack().tcp_accept(listener).unwrap();
        wire.send(id, b"data").unwrap();
        assert_eq!(wire.one().class, if answered { ECT0 } else { 0 }, "{ecn:?} {asked:#x}");
    }
}

/// RFC 3168 §6.1.1, §6.1.1.1: only the first SYN requests ECN, because a lost one may have been
/// dropped for the request.
#[test]
fn our_syn_requests_ecn_and_does_without_it_when_unanswered() {
    for (ecn, answer, takes_part) in [(Ecn::Ask, ECE, true), (Ecn::Ask, 0, false), (Ecn::Accept, ECE, false)] {
        let mut wire = using(ecn);
        let (own, peer, now) = (wire.own, wire.peer, wire.now);
        let options = wire.stack().tcp_defaults();
        let id = wire.stack().tcp_connect(&options, own, peer, now).unwrap();
        let syn = wire.one();
        assert_eq!(syn.bits, SYN | if ecn == Ecn::Ask { ECE | CWR } else { 0 });
        wire.put(Seg::new(SYN | ACK | answer, 500, syn.seq + 1).options(&OPTIONS));
        assert_eq!(wire.one().bits, ACK);
        wire.send(id, b"data").unwrap();
        assert_eq!(wire.one().class, if takes_part { ECT0 } else { 0 });
    }
    let mut wire = using(Ecn::Ask);
    let (own, peer, now) = (wire.own, wire.peer, wire.now);
    let options = wire.stack().tcp_defaults();
    wire.stack().tcp_connect(&options, own, peer, now).unwrap();
    assert!(wire.one().has(ECE | CWR));
    wire.pass(Span::from_millis(1100));
    assert_eq!(wire.one().bits, SYN);
}

/// RFC 3168 §6.1.4, §6.1.5: segments without data and retransmissions are not ECN-capable.
#[test]
fn only_new_data_can_be_marked() {
    let mut wire = using(Ecn::Accept);
    let (id, ours, theirs) = agreed(&mut wire);
    wire.send(id, &[1; 100]).unwrap();
    assert_eq!(wire.one().class, ECT0);
    wire.put(Seg::new(ACK, theirs, ours).data(b"x"));
    wire.pass(Span::from_secs(2));
    let later = wire.taken();
    assert!(later.iter().any(|seg| seg.data.is_empty()) && later.iter().any(|seg| !seg.data.is_empty()));
    assert!(later.iter().all(|seg| seg.class == 0), "{later:?}");
}

/// RFC 3168 §5: the stack controls the ECN field, whatever traffic class the program sets.
#[test]
fn a_program_cannot_set_the_field() {
    let mut wire = using(Ecn::Accept);
    let (id, ..) = wire.accepted();
    let now = wire.now;
    let before = wire.stack().tcp_query(id).unwrap();
    let known = wire.stack().path_get(&before).unwrap().info;
    wire.stack().tcp_set(id, now, TcpSetting::Tos(0xb8 | 3)).unwrap();
    wire.send(id, b"data").unwrap();
    // Packets of another type of service may take another path: they wait until the host has
    // resolved it.
    assert_eq!(wire.taken().len(), 0);
    let query = before.of_service(0xb8);
    assert_eq!((wire.stack().take_request(), wire.stack().tcp_query(id)), (Some(query), Ok(query)));
    wire.stack().path_set(PathInfo { query, ..known }, now);
    assert_eq!(wire.one().class, 0xb8);
}

/// RFC 3168 §6.1.3: a mark is echoed at once, and by every acknowledgement until the peer has set
/// CWR.
#[test]
fn a_mark_is_echoed_until_the_peer_has_heard() {
    let mut wire = using(Ecn::Accept);
    let (id, ours, theirs) = agreed(&mut wire);
    let data = |at: u32| Seg::new(ACK, theirs + at, ours).data(&[1; 10]).class(ECT0);
    for i in 0..40 {
        wire.put(data(10 * i)); // acknowledgements are delayed after these
    }
    wire.pass(Span::from_millis(100));
    assert!(wire.taken().iter().all(|seg| seg.bits == ACK));
    wire.recv(id).unwrap();
    wire.put(data(400).class(CE));
    assert_eq!(wire.one().bits, ACK | ECE);
    assert_eq!(wire.count("TcpInCePkts"), 1);
    wire.put(data(410));
    wire.send(id, b"answer").unwrap();
    assert!(wire.taken().iter().all(|seg| seg.has(ECE)), "data echoes it, too");
    let mut told = data(420);
    told.bits |= CWR;
    wire.put(told.clone());
    assert_eq!(wire.one().bits, ACK, "acknowledged at once, without echo");
    (told.seq, told.class) = (theirs + 430, CE);
    wire.put(told);
    assert_eq!(wire.one().bits, ACK | ECE, "marked again");
    wire.put(Seg::new(ACK, theirs + 440, ours + 6).class(CE));
    assert_eq!(wire.count("TcpInCePkts"), 2, "§6.1.4: a mark on what carries no data means nothing");
}

/// RFC 3168 §6.1.2: once per window, the sender reduces its window and sets CWR; nothing is
/// retransmitted.
#[test]
fn an_echo_slows_down_once_for_each_window() {
    let mut wire = using(Ecn::Accept);
    let (id, ours, theirs) = agreed(&mut wire);
    wire.send(id, &[1; 40_000]).unwrap();
    assert_eq!(wire.taken().len(), 10);
    let mut sent = Vec::new();
    for i in 1..=10 {
        wire.put(Seg::new(ACK | ECE, theirs, ours + MSS * i));
        sent.extend(wire.taken());
    }
    assert_eq!(window(&mut wire, id), 7, "CUBIC's share (RFC 9438 §4.6), once");
    assert_eq!(sent.len(), 7, "PRR spreads it over the round trip");
    assert!(sent[0].has(CWR) && !sent[1..].iter().any(|seg| seg.has(CWR)));
    assert!(sent.iter().all(|seg| seg.seq - ours >= 10 * MSS && seg.class == ECT0));
    // An acknowledgement of the segment with CWR that still has ECE is about a later mark.
    wire.put(Seg::new(ACK | ECE, theirs, ours + 11 * MSS));
    assert!(wire.taken().iter().any(|seg| seg.has(CWR)));
    assert_eq!(wire.count("TcpEcnReductions"), 2);
    assert_eq!(wire.count("TcpRetransSegs"), 0);
}

/// RFC 3168 §6.1.2: a loss in a window that was reduced for a mark is repaired without a second
/// reduction.
#[test]
fn a_loss_in_the_same_window_is_no_second_reason() {
    let mut wire = using(Ecn::Accept);
    let (id, ours, theirs) = agreed(&mut wire);
    wire.send(id, &[1; 40_000]).unwrap();
    wire.taken();
    wire.put(Seg::new(ACK | ECE, theirs, ours + MSS));
    wire.taken();
    for i in 3..=6 {
        wire.put(Seg::new(ACK | ECE, theirs, ours + MSS).sack(&[(ours + 2 * MSS, ours + i * MSS)]));
    }
    let again = wire.taken().into_iter().find(|seg| seg.seq == ours + MSS);
    assert_eq!(again.expect("what was lost is sent again").class, 0);
    wire.put(Seg::new(ACK, theirs, ours + 10 * MSS));
    wire.taken();
    wire.put(Seg::new(ACK, theirs, ours + 14 * MSS));
    assert!(window(&mut wire, id) >= 7, "{}", window(&mut wire, id));
    assert_eq!(wire.count("TcpEcnReductions"), 1);
}

/// RFC 4987 §3.6: the cookie's timestamp preserves the SYN's ECN request.
#[test]
fn a_cookie_remembers_it() {
    let mut config = StackConfig::default();
    config.tcp.syn_queue = 0;
    let mut wire = Wire::with(config);
    let listener = wire.listen(64);
    for bits in [ECE | CWR, 0] {
        wire.peer.port += 1;
        let syn = Seg::new(SYN | bits, 1000, 0).options(&OPTIONS).timestamps(77, 0);
        let (id, ..) = wire.accepted_with(listener, syn);
        wire.send(id, b"data").unwrap();
        assert_eq!(wire.one().class, if bits == 0 { 0 } else { ECT0 });
        // Without timestamps nothing can be stored in the cookie, so ECN must not be negotiated.
        wire.peer.port += 1;
        wire.put(Seg::new(SYN | bits, 1000, 0).options(&OPTIONS));
        assert_eq!(wire.one().bits, SYN | ACK);
    }
    assert_eq!(wire.count("TcpExtSyncookiesRecv"), 2);
}

/// RFC 3168 §1: where routers mark, senders reduce their rate without retransmissions; in both
/// families.
#[test]
fn a_path_that_marks_needs_no_retransmission() {
    for family in 0..2 {
        let mut config = PairConfig::default().with_link(LinkConfig { mark: 20_000, ..LinkConfig::default() });
        config.stack.tcp.ecn = Ecn::Ask;
        let mut pair = SimulatedPair::new(&config);
        let (client, server, listener) = connected(&mut pair, family);
        let mut flows =
            [Flow::new((0, client), (1, server), 3_000_000), Flow::new((1, server), (0, client), 3_000_000)];
        transfer(&mut pair, &mut flows, Span::from_secs(10));
        for host in 0..2 {
            let marked = pair.link_stats(1 - host).marked;
            let stack = pair.stack(host);
            let counters = stack.counters();
            assert!(marked > 20 && counters.tcp_ecn_reductions.get() > 5, "{marked}");
            assert_eq!(counters.tcp_in_ce.get(), marked);
            assert_eq!(counters.tcp_retrans_segs.get(), 0);
        }
        close_and_check(&mut pair, client, server, listener);
    }
}
