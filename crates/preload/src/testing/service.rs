//! The control side of the test lane: grants every claim, keeps its kernel socket until it is released (so that the kernel does not give the port
//! to the next connection while the stack still has the last one), and knows one way to everywhere.

use super::HERE;
use std::collections::HashMap;
use std::time::Duration;
use tickwire_link::control::{Channel, Claim, Reason, Reply, Request};
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::path::{PathInfo, PathState};

/// The way to the peer.
pub(super) fn path_to(destination: Address, source: Address) -> PathInfo {
    PathInfo {
        destination,
        source,
        interface: 1,
        mtu: 1500,
        source_mac: Mac([2, 0, 0, 0, 0, 1]),
        next_hop_mac: Mac([2, 0, 0, 0, 0, 2]),
        state: PathState::Ready,
    }
}

/// Starts it and gives the program's end of the connection.
pub(super) fn start() -> Channel {
    let (ours, theirs) = Channel::pair().unwrap();
    std::thread::spawn(move || {
        let mut claims = 0;
        let mut kept = HashMap::new();
        while let Ok(incoming) = theirs.receive(Duration::from_secs(3600)) {
            let (number, request) = incoming.decode::<Request>().unwrap();
            let reply = match request {
                Request::Claim { .. } => {
                    claims += 1;
                    kept.insert(claims, incoming.descriptors);
                    Reply::Claimed { claim: Claim(claims), local: Endpoint::default() }
                }
                Request::Resolve { destination, .. } => {
                    Reply::Path { path: path_to(destination, HERE), reason: Reason::None }
                }
                Request::Release { parts } => {
                    for part in parts.as_slice() {
                        kept.remove(&part.claim.0);
                    }
                    Reply::Done
                }
                _ => Reply::Done,
            };
            if theirs.send(&reply, number, &[]).is_err() {
                return;
            }
        }
    });
    ours
}
