//! One send that is many packets: it goes out whole, or not at all.

mod common;

use common::{counter, open, pattern, received, send};
use tickwire_sim::{LinkConfig, Pair, PairConfig};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::path::{PathInfo, PathState};
use tickwire_stack::time::Span;
use tickwire_stack::udp::SendTo;
use tickwire_stack::{Error, Limits, UdpId};

/// Two hosts whose stacks have so many frames, a socket on each, and where the second one is.
fn hosts(frames: u32, paths: bool) -> (Pair, UdpId, UdpId, Endpoint) {
    let limits = Limits { frames, ..Limits::DEFAULT };
    let link = LinkConfig { rate: 1_000_000_000, ..LinkConfig::default() };
    let mut pair = Pair::new(&PairConfig { limits, paths, ..PairConfig::default() }.with_link(link));
    let [from, to] = [0, 1].map(|h| pair.host(h).addresses[0]);
    let (a, b) = (open(&mut pair, 0, from, 1000), open(&mut pair, 1, to, 2000));
    (pair, a, b, Endpoint::new(to, 2000))
}

/// What arrives within two milliseconds, read as it comes: neither queue nor frames of the receiver are the question here.
fn arrived(pair: &mut Pair, id: UdpId) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for _ in 0..1000 {
        pair.run_for(Span::from_micros(2));
        all.append(&mut received(pair, 1, id));
    }
    all
}

/// Sends `bytes` in datagrams of `segment`.
fn send_cut(pair: &mut Pair, id: UdpId, to: Endpoint, bytes: &[u8], segment: u16) -> Result<usize, Error> {
    let now = pair.now();
    let to = SendTo { destination: Some(to), segment: Some(segment), ..SendTo::default() };
    pair.stack(0).udp_send(id, now, &to, &mut &bytes[..])
}

#[test]
fn what_is_cut_into_datagrams_arrives_in_order() {
    for family in 0..2 {
        let mut pair = Pair::seeded(1);
        let [from, to] = [0, 1].map(|h| pair.host(h).addresses[family]);
        let (a, b) = (open(&mut pair, 0, from, 1000), open(&mut pair, 1, to, 2000));
        let to = Endpoint::new(to, 2000);
        for (len, segment) in [(0, 100), (99, 100), (100, 100), (101, 100), (12_800, 100), (60_000, 1_452)] {
            let sent = pattern(len, 7);
            assert_eq!(send_cut(&mut pair, a, to, &sent, segment), Ok(len));
            let got = arrived(&mut pair, b);
            assert_eq!(got.len(), len.div_ceil(segment.into()).max(1));
            assert!(got.iter().rev().skip(1).all(|datagram| datagram.len() == usize::from(segment)));
            assert!(got.concat() == sent);
        }
        assert_eq!(send_cut(&mut pair, a, to, &[0; 12_801], 100), Err(Error::Invalid), "as in the kernel, 128 at most");
        assert_eq!(send_cut(&mut pair, a, to, &[0; 2_000], 1_480), Err(Error::MessageTooLong), "each is a packet");
    }
}

/// The kernel takes all of a send into its buffer, or says that there is no room; so a program counts what was taken as sent.
#[test]
fn a_send_for_which_frames_run_out_sends_nothing() {
    for (len, segment) in [(9_000, 90), (65_507, 0)] {
        let (mut pair, a, b, to) = hosts(256, true);
        let mut before = 0;
        while pair.stack(0).frames_in_use() < 256 - 40 {
            assert_eq!(send(&mut pair, 0, a, to, b"before"), Ok(6));
            before += 1;
        }
        let sent = pattern(len, 3);
        let held = pair.frames_held(0);
        assert_eq!(send_cut(&mut pair, a, to, &sent, segment), Err(Error::WouldBlock), "{len} bytes");
        assert_eq!((pair.frames_held(0), counter(&mut pair, 0, "UdpOutDatagrams")), (held, before));
        assert_eq!(arrived(&mut pair, b).len() as u64, before);
        assert_eq!(send_cut(&mut pair, a, to, &sent, segment), Ok(len));
        // To put the large one together the other host has too few.
        assert!(segment == 0 || arrived(&mut pair, b).concat() == sent);
    }
}

#[test]
fn a_send_that_cannot_wait_whole_for_the_neighbour_is_sent_when_it_is_known() {
    for (len, segment, waits) in [(5_000, 100, true), (9_000, 90, false), (65_507, 0, true)] {
        let (mut pair, a, b, to) = hosts(4096, false);
        let (destination, source, now) = (to.address, pair.host(0).addresses[0], pair.now());
        let info = PathInfo { destination, source, mtu: 1500, state: PathState::Resolving, ..PathInfo::default() };
        pair.stack(0).path_set(info, now);
        assert_eq!(send(&mut pair, 0, a, to, b"first"), Ok(5));
        let sent = pattern(len, 3);
        let answer = send_cut(&mut pair, a, to, &sent, segment);
        assert_eq!(answer, if waits { Ok(len) } else { Err(Error::WouldBlock) });
        assert!(arrived(&mut pair, b).is_empty());
        pair.resolve(0);
        let mut got = arrived(&mut pair, b);
        assert_eq!(got.remove(0), b"first");
        if !waits {
            assert!(got.is_empty(), "nothing of what was refused");
            assert_eq!(send_cut(&mut pair, a, to, &sent, segment), Ok(len));
            got = arrived(&mut pair, b);
        }
        assert!(got.concat() == sent, "{} datagrams", got.len());
        assert_eq!(pair.frames_held(0), 0);
    }
}
