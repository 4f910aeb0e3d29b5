//! Hostile bytes on the control socket: decoding returns an error, or a message that is encoded as
//! just these bytes.

mod canonical;

use proptest::prelude::*;
use tickwire_lane::control::{
    Accelerated, AttachMode, Claim, ClaimInfo, ClaimKind, ClaimPart, CountersOf, EphemeralPort, EphemeralPorts,
    Figures, Interfaces, LaneInfo, MAX_MESSAGE, MessageTo, Name, Parts, Push, Reason, Remotes, Reply, Request, Token,
};
use tickwire_sim::corpus;
use tickwire_stack::Limits;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::path::{PathInfo, Query};
use tickwire_stack::tcp::Leaving;

fn named(name: &'static str, message: &impl MessageTo) -> (&'static str, Vec<u8>) {
    let mut out = Vec::new();
    message.encode(3, &mut |bytes| out = bytes.to_vec());
    (name, out)
}

/// A message of every kind, by the name of its seed in the corpus.
fn samples() -> Vec<(&'static str, Vec<u8>)> {
    let peer = Endpoint::new(Address::v4([10, 0, 0, 2]), 80);
    let (claim, lane, reason) = (Claim(1), 3, Reason::None);
    let group = Address::v4([239, 1, 1, 1]);
    let path = PathInfo { query: Query::to(peer.address), mtu: 1500, ..PathInfo::default() };
    let remotes = Remotes::new(&[peer; 5]);
    let parts = Parts::new(&[ClaimPart { claim, remote: peer }; 5]);
    let (name, limits, token) = (Name::new("nginx"), Limits::DEFAULT, Token([7; 16]));
    let info = LaneInfo {
        lane,
        pid: 44,
        uid: 0,
        program: name,
        processes: 2,
        claims: 1,
        age_ms: 9000,
        interface: 5,
        reason,
        limits,
    };
    let (mac, mode) = (Mac([2, 0, 0, 0, 0, 1]), AttachMode::Tc);
    let nic = Accelerated { interface: 2, name, driver: name, mac, mtu: 1500, mode, reason };
    let held = ClaimInfo { claim, kind: ClaimKind::Flow, protocol: 6, local: peer, remote: peer };
    let state = Leaving {
        local: peer,
        remote: peer,
        interface: 0,
        tos: 0,
        send_una: 1,
        in_flight: 2,
        unsent: 3,
        receive_next: 4,
        unread: 5,
        send_window: 60_000,
        largest_window: 60_000,
        window_seq: 4,
        receive_window: 60_000,
        peer_mss: 1460,
        shifts: Some((7, 8)),
        sack: true,
        timestamp: Some(9),
        echo: 10,
        fin_received: false,
        fin_acknowledged: false,
    };
    vec![
        named("request-hello", &Request::Hello { program: name, layout: 5 }),
        named("request-attach", &Request::Attach { lane, token, descriptors: true }),
        named("request-claim", &Request::Claim { kind: ClaimKind::Flow, remote: peer }),
        named("request-convert", &Request::Convert { claim, remotes, more: false, closes: true }),
        named("request-release", &Request::Release { parts }),
        named("request-join", &Request::Join { claim, group }),
        named("request-leave", &Request::Leave { claim, group }),
        named("request-resolve", &Request::Resolve { query: Query::to(peer.address), choose: true }),
        named("request-list-lanes", &Request::ListLanes { after: 0 }),
        named("request-list-interfaces", &Request::ListInterfaces { after: 0 }),
        named("request-list-claims", &Request::ListClaims { lane, after: claim }),
        named("request-counters", &Request::Counters { of: CountersOf::Host, lane: 0 }),
        named("request-capture", &Request::Capture { lane, snaplen: 96 }),
        named("request-bulk", &Request::Bulk),
        named("request-take-over", &Request::TakeOver { claim, v6: true, state }),
        named("request-on-kernel", &Request::OnKernel { program: name, reason }),
        named("request-ports", &Request::Ports { source: peer.address, count: 4 }),
        named("reply-lane", &Reply::Lane { lane, token, limits, mtu: 1500 }),
        named("reply-attached", &Reply::Attached),
        named("reply-bulk", &Reply::Bulk),
        named("reply-claimed", &Reply::Claimed { claim, local: peer }),
        named("reply-done", &Reply::Done),
        named("reply-refused", &Reply::Refused { reason: Reason::Loopback, interface: 1 }),
        named("reply-path", &Reply::Path { path, reason: Reason::Loopback }),
        named("reply-lane-info", &Reply::LaneInfo { cursor: 1, info: Box::new(info) }),
        named("reply-interface", &Reply::Interface { info: Box::new(nic) }),
        named("reply-held", &Reply::Held { held }),
        named("reply-counters", &Reply::Counters { figures: Box::new(Figures::new(&[1, 2, 3])) }),
        named("reply-taken-over", &Reply::TakenOver),
        named("reply-capturing", &Reply::Capturing),
        named(
            "reply-ports",
            &Reply::Ports {
                namespace: 1,
                source: peer.address,
                ports: EphemeralPorts::new(&[EphemeralPort { claim, port: 40_000 }; 5]),
            },
        ),
        named("reply-joined", &Reply::Joined { interfaces: Interfaces::new(&[2, 3]) }),
        named("push-path-changed", &Push::PathChanged { path, reason }),
        named("push-peer-gone", &Push::PeerGone { pid: 44 }),
        named("push-claim-lost", &Push::ClaimLost { claim, reason: Reason::Address }),
        named("push-closing", &Push::Closing { reason: Reason::Stopping }),
        named("push-mtu", &Push::Mtu { mtu: 9000 }),
        named("push-realtime", &Push::Realtime { priority: 50 }),
        named("push-leave", &Push::Leave),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..MAX_MESSAGE)) {
        canonical::check(&bytes);
    }

    #[test]
    fn damaged_messages(
        sample in prop::sample::select(samples()),
        at in any::<prop::sample::Index>(),
        value in any::<u8>(),
        cut in any::<prop::sample::Index>(),
    ) {
        let (_, mut bytes) = sample;
        let at = at.index(bytes.len());
        bytes[at] = value;
        canonical::check(&bytes);
        bytes.truncate(cut.index(bytes.len() + 1));
        canonical::check(&bytes);
    }
}

#[test]
fn undamaged_messages_are_canonical() {
    for (name, bytes) in samples() {
        assert!(canonical::check(&bytes), "{name}");
    }
}

/// The fuzzer would never guess magic and version, so it must start from messages of today's
/// version.
#[test]
fn the_fuzzers_corpus_holds_a_message_of_every_kind_and_all_of_it_is_canonical() {
    corpus::keep("control", &samples());
    corpus::replay("control", |bytes| {
        canonical::check(bytes);
    });
}
