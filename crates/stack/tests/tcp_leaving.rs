//! Handover of connections to another stack of the host: they are suspended, read out, and then
//! forgotten or resumed.

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_sim::{LinkConfig, PairConfig, SimulatedPair};
use tickwire_stack::tcp::{Leaving, Shutdown, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{InUse, Ready, StackError, TcpId};

fn suspend(pair: &mut SimulatedPair, host: usize, id: TcpId) -> Leaving {
    let now = pair.now();
    pair.stack(host).tcp_suspend(id, now).unwrap()
}

fn resume(pair: &mut SimulatedPair, host: usize, id: TcpId) {
    let now = pair.now();
    pair.stack(host).tcp_resume(id, now).unwrap();
}

fn bytes(pair: &mut SimulatedPair, host: usize, id: TcpId) -> Vec<u8> {
    let mut all = Vec::new();
    pair.stack(host).tcp_leaving_bytes(id, |bytes| all.extend_from_slice(bytes)).unwrap();
    all
}

/// A pair whose stacks are checked at each step, on a cable with a delay of 1 ms.
fn looked_through(seed: u64, loss: u32) -> SimulatedPair {
    let link = LinkConfig { delay: Span::from_millis(1), loss, ..LinkConfig::default() };
    SimulatedPair::new(&PairConfig { stack_invariants: true, ..PairConfig::default().with_seed(seed).with_link(link) })
}

/// Packets that a host has sent on the cable.
fn packets(pair: &SimulatedPair, from: usize) -> u64 {
    pair.link_stats(from).sent
}

#[test]
fn a_suspended_connection_says_nothing_and_goes_on_when_it_is_resumed() {
    for (seed, loss) in [(1, 0), (2, 20_000), (3, 100_000)] {
        let mut pair = looked_through(seed, loss);
        let (client, server, listener) = connected(&mut pair, seed as usize % 2);
        let mut flows = [Flow::new((0, client), (1, server), 300_000), Flow::new((1, server), (0, client), 300_000)];
        for _ in 0..5 {
            pair.run_until(Span::from_millis(20), |pair| {
                flows.iter_mut().for_each(|flow| flow.pump(pair));
                false
            });
            suspend(&mut pair, 0, client);
            // The frames in the transmit queue still leave.
            pair.flush();
            let before = packets(&pair, 0);
            pair.run_for(Span::from_millis(700));
            assert_eq!(packets(&pair, 0), before, "nothing is sent");
            assert_eq!(send(&mut pair, 0, client, b"x"), Err(StackError::WouldBlock));
            assert_eq!(recv(&mut pair, 0, client, 1), Err(StackError::WouldBlock));
            resume(&mut pair, 0, client);
        }
        transfer(&mut pair, &mut flows, Span::from_secs(120));
        close_and_check(&mut pair, client, server, listener);
    }
}

#[test]
fn what_is_read_out_is_what_was_written_and_not_received_and_what_came_and_was_not_read() {
    for seed in 0..20 {
        let mut pair = looked_through(seed, (seed as u32 % 2) * 50_000);
        let (client, server, _) = connected(&mut pair, seed as usize % 2);
        let mut there = Flow::new((0, client), (1, server), 400_000);
        let mut back = Flow::new((1, server), (0, client), 400_000);
        pair.run_until(Span::from_millis(5 + 3 * seed), |pair| {
            [&mut there, &mut back].into_iter().for_each(|flow| flow.pump(pair));
            false
        });
        // More data arrives that is not read.
        let more = send(&mut pair, 1, server, &back.data[back.sent..]).unwrap_or(0);
        back.sent += more;
        pair.run_for(Span::from_millis(3));
        let state = suspend(&mut pair, 0, client);
        let all = bytes(&mut pair, 0, client);
        let (unread, queued) = all.split_at(state.unread as usize);
        assert_eq!(queued.len() as u32, state.in_flight + state.unsent);
        assert_eq!(unread, &back.data[back.got.len()..][..unread.len()]);
        assert_eq!(queued, &there.data[there.sent - queued.len()..there.sent]);
        let known = pair.stack(0).tcp_numbers().find(|numbers| numbers.id == client.into()).unwrap();
        assert_eq!((state.send_una, state.receive_next), (known.una.0, known.received.0));
        assert_eq!(state.receive_window, known.edge.since(known.received));
        // The data that the peer has received and the data read out overlap or adjoin, and cover
        // all of the stream.
        pair.run_for(Span::from_millis(20));
        let got = recv(&mut pair, 1, server, 1 << 20).map_or(0, |bytes| bytes.len());
        assert!(there.got.len() + got + queued.len() >= there.sent, "nothing is missing");
    }
}

/// Of a partly acknowledged segment, the rest is read out.
#[test]
fn a_segment_that_is_acknowledged_in_part_is_read_out_in_part() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.stack().tcp_send(id, now, false, &mut &b"0123456789"[..]).unwrap();
    wire.put(Seg::new(ACK, theirs, ours + 4));
    let state = wire.stack().tcp_suspend(id, now).unwrap();
    let mut all = Vec::new();
    wire.stack().tcp_leaving_bytes(id, |bytes| all.extend_from_slice(bytes)).unwrap();
    assert_eq!((state.send_una, state.in_flight, state.unsent), (ours + 4, 6, 0));
    assert_eq!(all, b"456789");
}

/// Out-of-order data was never acknowledged, so the peer retransmits it.
#[test]
fn what_came_out_of_order_is_not_read_out() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    let now = wire.now;
    wire.put(Seg::new(ACK, theirs, ours).data(b"abc"));
    wire.put(Seg::new(ACK, theirs + 5, ours).data(b"fgh"));
    let state = wire.stack().tcp_suspend(id, now).unwrap();
    let mut all = Vec::new();
    wire.stack().tcp_leaving_bytes(id, |bytes| all.extend_from_slice(bytes)).unwrap();
    assert_eq!((state.receive_next, state.unread, all), (theirs + 3, 3, b"abc".to_vec()));
    // Segments that arrive meanwhile are dropped, and not acknowledged.
    wire.taken();
    wire.put(Seg::new(ACK, theirs + 3, ours).data(b"de"));
    assert!(wire.taken().is_empty());
    wire.stack().tcp_resume(id, now).unwrap();
    assert_eq!(wire.one().ack, theirs + 3);
    wire.put(Seg::new(ACK, theirs + 3, ours).data(b"de"));
    assert_eq!(wire.taken().last().map(|last| last.ack), Some(theirs + 8));
}

#[test]
fn it_leaves_without_a_word_and_nothing_of_it_is_left() {
    let mut pair = looked_through(4, 0);
    let (client, server, listener) = connected(&mut pair, 0);
    send(&mut pair, 0, client, &pattern(100_000, 1)).unwrap();
    send(&mut pair, 1, server, &pattern(100_000, 2)).unwrap();
    pair.run_for(Span::from_millis(3));
    suspend(&mut pair, 0, client);
    pair.flush();
    let before = packets(&pair, 0);
    assert_eq!(pair.stack(0).tcp_leave(client), Ok((false, false)));
    assert_eq!(pair.stack(0).tcp_state(client), Err(StackError::Stale));
    assert_eq!(pair.stack(0).tcp_leave(client), Err(StackError::Stale));
    assert_eq!((pair.frames_held(0), pair.stack(0).in_use()), (0, InUse::default()));
    assert_eq!(packets(&pair, 0), before);
    let now = pair.now();
    pair.stack(1).tcp_abort(server, now).unwrap();
    pair.stack(1).tcp_close_listener(listener, now).unwrap();
}

/// A FIN has a sequence number, but no byte in the stream.
#[test]
fn numbers_of_a_half_closed_connection_are_those_of_its_data() {
    // The peer's FIN has arrived; ours was sent; both, and ours is acknowledged.
    for (theirs_shut, ours_shut) in [(true, false), (false, true), (true, true)] {
        let mut pair = looked_through(5, 0);
        let (client, server, _) = connected(&mut pair, 1);
        let known = |pair: &mut SimulatedPair| pair.stack(0).tcp_numbers().find(|n| n.id == client.into()).unwrap();
        let before = known(&mut pair);
        send(&mut pair, 0, client, b"to there").unwrap();
        send(&mut pair, 1, server, b"back").unwrap();
        let now = pair.now();
        if theirs_shut {
            pair.stack(1).tcp_shutdown(server, now, Shutdown::Write).unwrap();
            pair.run_for(Span::from_millis(50));
        }
        if ours_shut {
            let now = pair.now();
            pair.stack(0).tcp_shutdown(client, now, Shutdown::Write).unwrap();
        }
        if !theirs_shut {
            pair.run_for(Span::from_millis(50));
            assert_eq!(state(&mut pair, 0, client), TcpState::FinWait2);
        }
        let leaving = suspend(&mut pair, 0, client);
        assert_eq!(bytes(&mut pair, 0, client), b"back");
        assert_eq!(leaving.send_una, (before.una + 8).0);
        assert_eq!((leaving.receive_next, leaving.unread), ((before.received + 4).0, 4));
        assert_eq!((leaving.in_flight, leaving.unsent, leaving.fin_received), (0, 0, theirs_shut));
        assert_eq!(leaving.fin_acknowledged, ours_shut && !theirs_shut);
        assert_eq!(pair.stack(0).tcp_leave(client), Ok((false, ours_shut)));
    }
}

/// A connection that both sides have closed in order can be read by another process.
#[test]
fn what_is_over_leaves_with_what_was_not_read() {
    for first in [0, 1] {
        let mut pair = looked_through(8, 0);
        let (client, server, _) = connected(&mut pair, 0);
        send(&mut pair, 1, server, b"back").unwrap();
        for (host, id) in if first == 0 { [(0, client), (1, server)] } else { [(1, server), (0, client)] } {
            let now = pair.now();
            pair.stack(host).tcp_shutdown(id, now, Shutdown::Write).unwrap();
            pair.run_for(Span::from_millis(50));
        }
        let over = if first == 0 { TcpState::TimeWait } else { TcpState::Closed };
        assert_eq!(state(&mut pair, 0, client), over);
        suspend(&mut pair, 0, client);
        resume(&mut pair, 0, client);
        pair.run_for(Span::from_millis(50));
        let leaving = suspend(&mut pair, 0, client);
        assert!(leaving.fin_received && leaving.fin_acknowledged && leaving.receive_window > 0);
        assert_eq!(bytes(&mut pair, 0, client), b"back");
        assert_eq!(pair.stack(0).tcp_leave(client), Ok((false, true)));
        assert_eq!(pair.frames_held(0), 0);
    }
}

#[test]
fn what_cannot_be_handed_over_does_not_stand_still() {
    let mut pair = looked_through(6, 0);
    let _listener = listen(&mut pair, 1, 8);
    let client = connect(&mut pair, 0, 4000);
    let now = pair.now();
    assert_eq!(pair.stack(0).tcp_suspend(client, now), Err(StackError::Invalid), "it is not open");
    assert_eq!(pair.stack(0).tcp_resume(client, now), Err(StackError::Invalid));
    assert_eq!(pair.stack(0).tcp_leave(client), Err(StackError::Invalid));
    pair.run_for(Span::from_millis(50));
    suspend(&mut pair, 0, client);
    let now = pair.now();
    assert_eq!(pair.stack(0).tcp_suspend(client, now), Err(StackError::Invalid), "it stands still");
    resume(&mut pair, 0, client);
    pair.stack(0).tcp_send_urgent(client, now, &mut &b"!"[..]).unwrap();
    assert_eq!(pair.stack(0).tcp_suspend(client, now), Err(StackError::Invalid), "it has urgent data");
    pair.run_for(Span::from_millis(50));
    let now = pair.now();
    assert!(pair.stack(0).tcp_suspend(client, now).is_ok(), "that was acknowledged");
}

/// The program closes or shuts down the connection during the handover, which then fails.
#[test]
fn a_suspended_connection_can_be_closed_and_shut() {
    for closed in [true, false] {
        let mut pair = looked_through(7, 0);
        let (client, server, _) = connected(&mut pair, 0);
        send(&mut pair, 0, client, b"last words").unwrap();
        suspend(&mut pair, 0, client);
        let now = pair.now();
        if closed {
            pair.stack(0).tcp_close(client, now).unwrap();
            assert_eq!(pair.stack(0).tcp_leave(client), Err(StackError::Stale));
        } else {
            pair.stack(0).tcp_shutdown(client, now, Shutdown::Both).unwrap();
            pair.run_for(Span::from_millis(50));
            assert!(!pair.stack(1).readiness(server.into()).unwrap().contains(Ready::RDHUP));
            resume(&mut pair, 0, client);
        }
        let (got, ended) = read_to_end(&mut pair, 1, server, Span::from_secs(1));
        assert_eq!((got, ended), (b"last words".to_vec(), true));
    }
}

/// A client that connects during a listener's handover retransmits its SYN, and the next listener
/// accepts it.
#[test]
fn a_listener_that_leaves_refuses_no_client_and_a_closed_one_does() {
    for family in 0..2 {
        let mut pair = looked_through(8, 0);
        let (client, server, listener) = connected(&mut pair, family);
        let now = pair.now();
        pair.stack(1).tcp_leave_listener(listener, now).unwrap();
        let late = connect(&mut pair, family, 4001);
        pair.run_for(Span::from_millis(500));
        assert_eq!(state(&mut pair, 0, late), TcpState::SynSent);
        let now = pair.now();
        pair.stack(1).tcp_close_listener(listener, now).unwrap();
        let next = listen(&mut pair, 1, 8);
        pair.run_for(Span::from_secs(2));
        assert_eq!(state(&mut pair, 0, late), TcpState::Established);
        send(&mut pair, 0, client, b"as before").unwrap();
        close(&mut pair, 0, client);
        let told = read_to_end(&mut pair, 1, server, Span::from_secs(1));
        assert_eq!(told, (b"as before".to_vec(), true), "what was accepted goes on");

        let now = pair.now();
        pair.stack(1).tcp_close_listener(next, now).unwrap();
        let refused = connect(&mut pair, family, 4002);
        pair.run_for(Span::from_millis(500));
        assert_eq!(state(&mut pair, 0, refused), TcpState::Closed);
    }
}

/// Unsent data is handed over even if the program has closed the connection; if no stack takes it,
/// it is sent from here.
#[test]
fn what_a_closed_connection_has_to_send_can_be_read_out() {
    for taken in [true, false] {
        let mut pair = looked_through(9, 0);
        let (client, server, _) = connected(&mut pair, 0);
        let ends = pair.stack(0).tcp_endpoints(client).unwrap();
        assert_eq!(pair.stack(0).tcp_closed(ends.0, ends.1), None, "the program has it");
        let data = pattern(100_000, 3);
        assert_eq!(send(&mut pair, 0, client, &data), Ok(data.len()));
        close(&mut pair, 0, client);
        pair.flush();
        let closed = pair.stack(0).tcp_closed(ends.0, ends.1).unwrap();
        let state = suspend(&mut pair, 0, closed);
        let left = bytes(&mut pair, 0, closed);
        assert_eq!(left.len() as u32, state.in_flight + state.unsent);
        assert!(data.ends_with(&left) && !state.fin_acknowledged);
        if taken {
            pair.stack(0).tcp_leave(closed).unwrap();
            assert_eq!(pair.stack(0).tcp_closed(ends.0, ends.1), None);
            assert_eq!(pair.stack(0).in_use(), InUse::default());
        } else {
            resume(&mut pair, 0, closed);
            let (got, ended) = read_to_end(&mut pair, 1, server, Span::from_secs(5));
            assert!(got == data && ended);
        }
    }
}

/// A connection of another stack is not reset by a listener that has just replaced that stack's
/// listener.
#[test]
fn a_listener_that_settles_does_not_answer_what_another_has_begun() {
    let mut pair = looked_through(10, 0);
    let (client, server, listener) = connected(&mut pair, 0);
    suspend(&mut pair, 1, server);
    pair.stack(1).tcp_leave(server).unwrap();
    let until = pair.now() + Span::from_millis(500);
    pair.stack(1).tcp_settle_listener(listener, until).unwrap();
    send(&mut pair, 0, client, b"for another").unwrap();
    pair.run_for(Span::from_millis(450));
    assert_eq!(state(&mut pair, 0, client), TcpState::Established);
    pair.run_for(Span::from_secs(5));
    assert_eq!(state(&mut pair, 0, client), TcpState::Closed, "then it is reset");
}
