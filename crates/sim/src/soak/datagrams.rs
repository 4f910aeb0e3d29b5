//! Self-checking datagrams: each contains the seed of its content.

use crate::{Rng, SimulatedPair};
use tickwire_stack::UdpId;
use tickwire_stack::addr::Endpoint;
use tickwire_stack::udp::{SendTo, UdpOptions};

const PORT: u16 = 90;
/// The longest: many fragments even at the largest MTU.
const LONGEST: u64 = 30_000;
/// Length of the seed at the front, from which the rest is generated.
const SEED: usize = 8;

/// One socket per host and family.
pub(super) struct Datagrams {
    sockets: [[UdpId; 2]; 2],
    sent: u64,
}

fn filled(seed: u64, len: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut bytes = seed.to_be_bytes().to_vec();
    while bytes.len() < len {
        bytes.extend_from_slice(&rng.next_u64().to_be_bytes());
    }
    bytes.truncate(len.max(SEED));
    bytes
}

/// Whether the receiver could not have detected the damage. The cable flipped one bit in each of
/// several fragments of a datagram, and these cancel out in the one's complement checksum (RFC
/// 768). (A datagram reassembled from fragments of two others differs in more than a few bits.)
fn may_pass(received: &[u8], sent: &[u8]) -> bool {
    let sum = |bytes: &[u8]| {
        let words = bytes.chunks(2).map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |&low| low.into()));
        words.sum::<u64>() % 0xffff
    };
    let damaged: u32 = received.iter().zip(sent).map(|(a, b)| (a ^ b).count_ones()).sum();
    (2..=4).contains(&damaged) && sum(received) == sum(sent)
}

impl Datagrams {
    pub(super) fn new(pair: &mut SimulatedPair) -> Self {
        let sockets = [0, 1].map(|host| {
            pair.host(host).addresses.map(|address| {
                let mut stack = pair.stack(host);
                let id = stack.udp_open(UdpOptions::default()).expect("a fresh stack has sockets");
                stack.udp_bind(id, Endpoint::new(address, PORT)).expect("a free port");
                id
            })
        });
        Self { sockets, sent: 0 }
    }

    /// Sends one of random length, if there is room for it.
    pub(super) fn send(&mut self, pair: &mut SimulatedPair, rng: &mut Rng) {
        let (host, family) = (rng.below(2) as usize, rng.below(2) as usize);
        let len = if rng.chance(500_000) { rng.below(1_400) } else { rng.below(LONGEST) };
        let bytes = filled(rng.next_u64(), len as usize);
        let to = Endpoint::new(pair.host(1 - host).addresses[family], PORT);
        let (to, now) = (SendTo { destination: Some(to), ..SendTo::default() }, pair.now());
        let sent = pair.stack(host).udp_send(self.sockets[host][family], now, &to, &mut &bytes[..]);
        self.sent += u64::from(sent.is_ok());
    }

    /// Receives all datagrams that have arrived; returns how many.
    pub(super) fn receive(&mut self, pair: &mut SimulatedPair) -> u64 {
        let mut count = 0;
        for host in 0..2 {
            for socket in self.sockets[host] {
                let mut bytes = Vec::new();
                while pair.stack(host).udp_recv(socket, false, &mut bytes).is_ok() {
                    let seed = bytes.first_chunk::<SEED>().expect("none is shorter than its seed");
                    let sent = filled(u64::from_be_bytes(*seed), bytes.len());
                    assert!(bytes == sent || may_pass(&bytes, &sent), "a datagram is another one");
                    bytes.clear();
                    count += 1;
                }
            }
        }
        count
    }

    pub(super) fn close(&mut self, pair: &mut SimulatedPair) {
        for host in 0..2 {
            for socket in self.sockets[host] {
                pair.stack(host).udp_close(socket).expect("a good handle");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_bits_that_cancel_out_in_the_checksum_may_pass() {
        let sent = filled(7, 3000);
        let with = |changes: &[(usize, u8)]| {
            let mut bytes = sent.clone();
            changes.iter().for_each(|&(at, value)| bytes[at] = value);
            bytes
        };
        let up = sent.iter().step_by(2).position(|&octet| octet & 2 == 0).unwrap() * 2;
        let down = sent.iter().step_by(2).position(|&octet| octet & 2 != 0).unwrap() * 2;
        let (one, other) = ((up, sent[up] ^ 2), (down, sent[down] ^ 2));
        assert!(may_pass(&with(&[one, other]), &sent));
        assert!(!may_pass(&with(&[one]), &sent) && !may_pass(&with(&[one, (down + 1, sent[down + 1] ^ 2)]), &sent));
        // The same words in another order have the same sum.
        let mut swapped = sent.clone();
        swapped[8..].rotate_left(1000);
        assert!(!may_pass(&swapped, &sent));
    }
}
