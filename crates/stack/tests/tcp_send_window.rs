//! How much is sent into the peer's window: the window of the handshake, windows about as large as
//! the data, and windows that shrink (RFC 9293 §3.8.6).

mod tcp_support;

use tcp_support::raw::*;
use tcp_support::*;
use tickwire_stack::tcp::{TcpSetting, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{StackError, TcpId};

const SAMPLE: &[u8] = b"Sample Data";

fn set(wire: &mut Wire, id: TcpId, setting: TcpSetting) {
    let now = wire.now;
    wire.stack().tcp_set(id, now, setting).unwrap();
}

fn send_window(wire: &mut Wire, id: TcpId) -> u32 {
    let now = wire.now;
    wire.stack().tcp_info(id, now).unwrap().send_window
}

/// RFC 9293 §3.10.7.4, fifth check, in SYN-RECEIVED: the last segment of the handshake sets the
/// window, whatever the SYN offered. The field is unsigned, also with the largest shift (RFC 7323
/// §2.2, §2.3).
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

/// RFC 9293 §3.8.6: the window counts from the acknowledgement number, and limits what is sent.
/// Data of the peer is lost and retransmitted, so the highest acknowledgement has a lower sequence
/// number than an earlier segment. Its window is used together with its acknowledgement number;
/// otherwise the old window would extend the right edge beyond the peer's offer.
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

/// RFC 9293 §3.8.6: data that fills the window carries the FIN, one number beyond it. A peer that
/// trims it (§3.10.7.4) gets it again.
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

/// RFC 9293 §3.8.6.2.1: a segment is split only if the window was never larger; otherwise it waits
/// for the window. Waiting data is sent with the acknowledgement of the data that opened it.
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
        set(&mut wire, id, TcpSetting::NoDelay(true));
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

/// `TCP_CORK` and RFC 9293 §3.7.1: small writes are coalesced into full segments of the peer's MSS;
/// the rest waits for the cork's timeout. A window smaller than a segment does not extend that.
#[test]
fn a_cork_makes_full_segments_of_small_writes() {
    for mss in [536u16, 1000] {
        let mut wire = Wire::new();
        let listener = wire.listen(8);
        let [high, low] = mss.to_be_bytes();
        let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, high, low]));
        set(&mut wire, id, TcpSetting::Cork(true));
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

/// RFC 9293 §3.8.6 (MUST-34, SHLD-14 to SHLD-17): after a peer has shrunk its window, no new data
/// is sent beyond it. Data within it is retransmitted if need be, and the rest is no reason to
/// abort the connection.
#[test]
fn a_window_that_shrinks_is_kept_to_and_ends_nothing() {
    let mut wire = Wire::new();
    let listener = wire.listen(8);
    let (id, ours, theirs) = wire.accepted_with(listener, Seg::new(SYN, 1000, 0).options(&[2, 4, 3, 232]));
    let data = pattern(12_000, 3);
    wire.put(Seg::new(ACK, theirs, ours).window(5_000));
    assert_eq!(wire.send(id, &data), Ok(12_000));
    assert_eq!(wire.taken().len(), 5);
    // 5000 bytes were offered and sent; now the window allows one segment.
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
    assert_eq!(wire.state(id), Ok(TcpState::Established));
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

/// RFC 9293 §3.8.6 (MUST-35): a window that shrinks to zero with data in flight is probed like any
/// other, for as long as the peer answers.
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
    assert_eq!(wire.state(id), Ok(TcpState::Established));
    wire.taken();
    wire.put(Seg::new(ACK, theirs, ours + 3_000));
    assert_eq!(wire.send(id, b"goes on"), Ok(7));
    assert_eq!(wire.one().data, b"goes on");
}

/// RFC 9293 §3.8.6 and §3.10.3: data beyond the window is queued, and a program that continues to
/// write is limited by its send buffer.
#[test]
fn what_the_window_does_not_take_is_kept() {
    let mut wire = Wire::new();
    let (id, ours, theirs) = wire.accepted();
    set(&mut wire, id, TcpSetting::SendBuffer(10_000));
    wire.put(Seg::new(ACK, theirs, ours).window(3_000));
    assert_eq!(wire.send(id, &pattern(20_000, 1)), Ok(10_000));
    assert_eq!(wire.send(id, b"x"), Err(StackError::WouldBlock));
    assert_eq!(wire.taken().iter().map(|seg| seg.data.len()).sum::<usize>(), 3_000);
    wire.put(Seg::new(ACK, theirs, ours + 3_000).window(3_000));
    assert_eq!(wire.taken().iter().map(|seg| seg.data.len()).sum::<usize>(), 3_000);
}
