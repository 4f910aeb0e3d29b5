//! How much is sent into the window that the peer offers: what its handshake says, windows about as
//! large as what is to be sent, and windows that shrink (RFC 9293 §3.8.6).

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_stack::tcp::{Setting, State};
use tickwire_stack::time::Span;
use tickwire_stack::{Error, TcpId};

const SAMPLE: &[u8] = b"Sample Data";

fn set(wire: &mut Wire, id: TcpId, setting: Setting) {
    let now = wire.now;
    wire.stack().tcp_set(id, now, setting).unwrap();
}

fn send_window(wire: &mut Wire, id: TcpId) -> u32 {
    let now = wire.now;
    wire.stack().tcp_info(id, now).unwrap().send_window
}

/// RFC 9293 §3.10.7.4, fifth check, in SYN-RECEIVED: the acknowledgement that ends the handshake
/// says how large the window is, whatever the SYN said. Its highest bit is a bit like others, also
/// when it is shifted as far as can be (RFC 7323 §2.2, §2.3).
#[test]
fn the_window_of_the_last_handshake_segment_counts_and_is_unsigned() {
    for (window, shift) in [(0x8000, None), (0xffff, None), (0x8000, Some(1)), (0x8000, Some(14)), (0xffff, Some(14))] {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let mut options = vec![2, 4, 3, 232];
        options.extend(shift.map_or(vec![], |shift| vec![1, 3, 3, shift]));
        wire.put(Seg::new(SYN, 1000, 0).window(0).options(&options));
        let ours = wire.one().seq.wrapping_add(1);
        wire.put(Seg::new(ACK, 1001, ours).window(window));
        let id = wire.stack().tcp_accept(listener).unwrap();
        wire.send(id, SAMPLE).unwrap();
        let sent = wire.one();
        assert_eq!((sent.bits, sent.seq, &sent.data[..]), (ACK | PSH, ours, SAMPLE), "at once, and no probe");
        assert_eq!(send_window(&mut wire, id), u32::from(window) << shift.unwrap_or(0));
        wire.put(Seg::new(ACK, 1001, ours + 11).window(window));
        assert_eq!(wire.send(id, &pattern(9_000, 1)), Ok(9_000));
        assert_eq!(wire.taken().iter().map(|seg| seg.data.len()).sum::<usize>(), 9_000);
    }
}

/// RFC 9293 §3.8.6 (the window counts from what is acknowledged, and only that may be sent): data
/// of the peer is lost and sent again, so what acknowledges most carries lower numbers than what
/// came before. Its window is taken with its acknowledgement, or that would move the last one's end
/// to where the peer never let it.
#[test]
fn the_window_of_what_is_sent_again_is_taken_with_its_acknowledgement() {
    for (acked, window) in [(2000, 1000), (3000, 0)] {
        let mut wire = Wire::new();
        let (id, ours, theirs) = wire.accepted();
        wire.put(Seg::new(ACK, theirs + 1000, ours).window(3000).data(&pattern(1000, 1)));
        wire.taken();
        wire.send(id, &pattern(9_000, 1)).unwrap();
        assert_eq!(wire.taken().iter().map(|seg| seg.data.len()).sum::<usize>(), 3000);
        wire.put(Seg::new(ACK, theirs, ours + acked).window(window).data(&pattern(1000, 2)));
        assert_eq!(send_window(&mut wire, id), u32::from(window));
        let beyond: Vec<_> = wire.taken().into_iter().filter(|seg| seg.end().wrapping_sub(ours) > 3000).collect();
        assert!(beyond.is_empty(), "the peer has asked for 3000 bytes: {beyond:?}");
        assert_eq!(wire.recv(id).unwrap().len(), 2000, "what was out of order came together");
        wire.put(Seg::new(ACK, theirs + 2000, ours + 3000).window(9000));
        assert_eq!(wire.taken().iter().map(|seg| seg.data.len()).sum::<usize>(), 6000);
    }
}

/// RFC 9293 §3.8.6: data that fills the window takes FIN along, one number behind it. A peer that
/// cuts it off (§3.10.7.4) gets it again.
#[test]
fn a_fin_goes_with_the_data_that_fills_the_window() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.put(Seg::new(ACK, theirs, ours).window(0));
    wire.send(id, &pattern(1000, 1)).unwrap();
    wire.close(id);
    wire.nothing();
    wire.put(Seg::new(ACK, theirs, ours).window(1000));
    let last = wire.one();
    assert_eq!((last.seq, last.data.len(), last.has(FIN)), (ours, 1000, true));
    wire.put(Seg::new(ACK, theirs, ours + 1000).window(1000));
    wire.pass(Span::from_secs(3));
    let again = wire.taken();
    assert!(again.iter().any(|seg| seg.has(FIN) && seg.end() == ours + 1000), "{again:?}");
}

/// RFC 9293 §3.8.6.2.1: a segment is cut where the window was never larger than that; otherwise it
/// waits for the window. What waits goes out with the acknowledgement of what made room for it.
#[test]
fn segments_about_as_large_as_the_window_go_whole_and_carry_acknowledgements() {
    let len = SAMPLE.len() as u16;
    for (window, first, second) in
        [(len - 1, &SAMPLE[..10], &SAMPLE[10..]), (len, SAMPLE, SAMPLE), (len + 1, SAMPLE, SAMPLE)]
    {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let syn = Seg::new(SYN, 1000, 0).window(window).options(&[2, 4, 3, 232]);
        wire.put(syn);
        let ours = wire.one().seq.wrapping_add(1);
        wire.put(Seg::new(ACK, 1001, ours).window(window));
        let id = wire.stack().tcp_accept(listener).unwrap();
        set(&mut wire, id, Setting::NoDelay(true));
        wire.send(id, SAMPLE).unwrap();
        let sent = wire.one();
        assert_eq!((&sent.data[..], sent.has(PSH)), (first, window >= len), "window {window}");
        if window >= len {
            wire.send(id, SAMPLE).unwrap();
            wire.nothing();
        }
        wire.put(Seg::new(ACK | PSH, 1001, sent.end()).window(window).data(SAMPLE));
        let next = wire.one();
        assert_eq!((next.seq, next.ack, &next.data[..]), (sent.end(), 1012, second), "window {window}");
    }
}

/// `TCP_CORK` and RFC 9293 §3.7.1: what was written bit by bit is put together into full segments,
/// and cut by the peer's segment size; the rest waits for the cork's time. A window smaller than a
/// segment does not make it wait longer than that.
#[test]
fn a_cork_makes_full_segments_of_small_writes() {
    for mss in [536u16, 1000] {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let [high, low] = mss.to_be_bytes();
        let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, high, low]));
        set(&mut wire, id, Setting::Cork(true));
        let large = pattern(usize::from(mss) + 1, 5);
        let all = [SAMPLE, SAMPLE, &large].concat();
        for part in [SAMPLE, SAMPLE] {
            wire.send(id, part).unwrap();
            wire.nothing();
        }
        wire.send(id, &large).unwrap();
        let full = wire.one();
        assert_eq!((full.seq, &full.data[..]), (ours, &all[..usize::from(mss)]));
        wire.put(Seg::new(ACK, theirs, full.end()));
        wire.pass(Span::from_millis(190));
        wire.nothing();
        wire.pass(Span::from_millis(11));
        let rest = wire.one();
        assert_eq!((rest.seq, rest.has(PSH), &rest.data[..]), (full.end(), true, &all[usize::from(mss)..]));
        wire.put(Seg::new(ACK, theirs, rest.end()).window(2 * SAMPLE.len() as u16));
        wire.send(id, SAMPLE).unwrap();
        wire.send(id, SAMPLE).unwrap();
        wire.pass(Span::from_millis(201));
        assert_eq!(wire.one().data, [SAMPLE, SAMPLE].concat());
    }
}

/// RFC 9293 §3.8.6 (MUST-34, SHLD-14 to SHLD-17): a peer that takes back what it had offered gets
/// nothing new beyond its window, all that lies in it, again if need be, and is not given up
/// because of the rest.
#[test]
fn a_window_that_shrinks_is_kept_to_and_ends_nothing() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    let data = pattern(12_000, 3);
    wire.put(Seg::new(ACK, theirs, ours).window(5_000));
    assert_eq!(wire.send(id, &data), Ok(12_000));
    assert_eq!(wire.taken().len(), 5);
    // 5000 bytes were offered and sent; now only one segment more may come.
    wire.put(Seg::new(ACK, theirs, ours + 1_000).window(1_000));
    wire.nothing();
    let mut again = Vec::new();
    for _ in 0..20 {
        wire.pass(Span::from_secs(1));
        again.extend(wire.taken());
        wire.put(Seg::new(ACK, theirs, ours + 1_000).window(1_000));
    }
    assert!(again.iter().all(|seg| seg.end().wrapping_sub(ours) <= 5_000), "nothing new: {again:?}");
    assert!(again.iter().filter(|seg| seg.seq == ours + 1_000).count() > 5, "what lies in the window comes again");
    assert_eq!(wire.state(id), Ok(State::Established));
    wire.put(Seg::new(ACK, theirs, ours + 2_000).window(60_000));
    let mut got = data[..2_000].to_vec();
    for _ in 0..100 {
        wire.pass(Span::from_millis(100));
        let mut sent = wire.taken();
        sent.sort_by_key(|seg| seg.seq.wrapping_sub(ours));
        for seg in sent {
            let (at, end) = (seg.seq.wrapping_sub(ours) as usize, seg.end().wrapping_sub(ours) as usize);
            if (at..end).contains(&got.len()) {
                got.extend(&seg.data[got.len() - at..]);
            }
        }
        wire.put(Seg::new(ACK, theirs, ours + got.len() as u32));
    }
    assert!(got == data, "{} bytes", got.len());
}

/// RFC 9293 §3.8.6 (MUST-35): a window that shrinks to nothing while data is under way is probed
/// like any other, for as long as the peer answers.
#[test]
fn a_window_that_shrinks_to_nothing_is_probed() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    wire.send(id, &pattern(3_000, 3)).unwrap();
    assert_eq!(wire.taken().len(), 3);
    wire.put(Seg::new(ACK, theirs, ours + 1_000).window(0));
    for _ in 0..100 {
        wire.pass(Span::from_secs(61));
        assert!(!wire.taken().is_empty(), "it is asked at least once a minute");
        wire.put(Seg::new(ACK, theirs, ours + 1_000).window(0));
    }
    assert_eq!(wire.state(id), Ok(State::Established));
    wire.taken();
    wire.put(Seg::new(ACK, theirs, ours + 3_000));
    assert_eq!(wire.send(id, b"goes on"), Ok(7));
    assert_eq!(wire.one().data, b"goes on");
}

/// RFC 9293 §3.8.6 and §3.10.3: what is beyond the window waits here, and a program that goes on
/// writing is stopped by its buffer.
#[test]
fn what_the_window_does_not_take_is_kept() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    set(&mut wire, id, Setting::SendBuffer(10_000));
    wire.put(Seg::new(ACK, theirs, ours).window(3_000));
    assert_eq!(wire.send(id, &pattern(20_000, 1)), Ok(10_000));
    assert_eq!(wire.send(id, b"x"), Err(Error::WouldBlock));
    assert_eq!(wire.taken().iter().map(|seg| seg.data.len()).sum::<usize>(), 3_000);
    wire.put(Seg::new(ACK, theirs, ours + 3_000).window(3_000));
    assert_eq!(wire.taken().iter().map(|seg| seg.data.len()).sum::<usize>(), 3_000);
}
