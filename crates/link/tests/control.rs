//! Hostile bytes on the control socket: whatever comes, decoding answers an error or a message that is encoded as just these bytes.

use proptest::prelude::*;
use tickwire_link::control::{
    Channel, Claim, ClaimKind, CountersOf, Figures, MAX_MESSAGE, Malformed, Membership, MessageTo, Name, Push, Reason,
    Remotes, Reply, Request, Token,
};
use tickwire_stack::Limits;
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::PathInfo;

fn bytes_of(message: &impl MessageTo) -> Vec<u8> {
    let mut out = Vec::new();
    message.encode(3, &mut |bytes| out = bytes.to_vec());
    out
}

/// Decodes in one direction; if it is a message, it must be the only form of itself.
fn canonical<M: MessageTo>(bytes: &[u8], descriptors: usize) -> Result<(), Malformed> {
    let (number, message) = M::decode(bytes, descriptors)?;
    let mut again = Vec::new();
    message.encode(number, &mut |bytes| again = bytes.to_vec());
    assert_eq!(again, bytes);
    Ok(())
}

fn all_directions(bytes: &[u8]) {
    for descriptors in 0..=4 {
        let _ = canonical::<Request>(bytes, descriptors);
        let _ = canonical::<Reply>(bytes, descriptors);
        let _ = canonical::<Push>(bytes, descriptors);
    }
}

/// Messages of every shape.
fn samples() -> Vec<Vec<u8>> {
    let peer = Endpoint::new(Address::v4([10, 0, 0, 2]), 80);
    let membership = Membership { group: Address::v4([239, 1, 1, 1]), source: Address::ANY_V4, interface: 2 };
    let path = PathInfo { destination: peer.address, mtu: 1500, ..PathInfo::default() };
    vec![
        bytes_of(&Request::Hello { program: Name::new("nginx"), layout: 5 }),
        bytes_of(&Request::Attach { lane: 3, token: Token([7; 16]), descriptors: true }),
        bytes_of(&Request::Claim { kind: ClaimKind::Flow, remote: peer }),
        bytes_of(&Request::Convert { claim: Claim(1), remotes: Remotes::new(&[peer; 5]), more: false }),
        bytes_of(&Request::Join { claim: Claim(1), membership }),
        bytes_of(&Request::Counters { of: CountersOf::Host, lane: 0 }),
        bytes_of(&Reply::Lane { lane: 1, token: Token([1; 16]), limits: Limits::DEFAULT }),
        bytes_of(&Reply::Path { path, reason: Reason::Loopback }),
        bytes_of(&Reply::Counters { figures: Figures::new(&[1, 2, 3]) }),
        bytes_of(&Push::PathChanged { path, reason: Reason::None }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..MAX_MESSAGE)) {
        all_directions(&bytes);
    }

    #[test]
    fn damaged_messages(which in 0..10usize, at in any::<prop::sample::Index>(), value in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut bytes = samples().swap_remove(which);
        let at = at.index(bytes.len());
        bytes[at] = value;
        all_directions(&bytes);
        bytes.truncate(cut.index(bytes.len() + 1));
        all_directions(&bytes);
    }
}

#[test]
fn undamaged_messages_are_canonical_and_travel() {
    let (a, b) = Channel::pair().unwrap();
    let remotes = [Endpoint::new(Address::v4([10, 0, 0, 2]), 80); Remotes::MAX];
    let request = Request::Convert { claim: Claim(7), remotes: Remotes::new(&remotes), more: true };
    a.send(&request, 9, &[]).unwrap();
    let (number, got) = b.try_receive().unwrap().unwrap().decode::<Request>().unwrap();
    assert_eq!((number, format!("{got:?}")), (9, format!("{request:?}")));
    for bytes in samples() {
        let forms = (0..=4).filter(|&n| {
            canonical::<Request>(&bytes, n).is_ok()
                || canonical::<Reply>(&bytes, n).is_ok()
                || canonical::<Push>(&bytes, n).is_ok()
        });
        assert_eq!(forms.count(), 1);
    }
}
