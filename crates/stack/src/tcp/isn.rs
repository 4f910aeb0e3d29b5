//! Initial sequence numbers (RFC 6528) and timestamp offsets (RFC 7323 §7.1): a keyed hash of both ends, so that a
//! stranger cannot guess them, plus a clock, so that a connection does not meet segments of its predecessor.

use crate::Stack;
use crate::addr::Endpoint;
use crate::time::Instant;
use core::hash::Hasher;
use siphasher::sip::SipHasher24;

use super::send::SendQueue;
use super::seq::Seq;

/// How far the numbers of two connections between the same ends lie apart, as on Linux: more than a window that is not scaled.
const APART: u32 = 65_537;

impl Stack<'_> {
    /// A keyed hash of both ends and `extra`, independent of the one that the connection table uses.
    pub(super) fn tcp_hash(&self, local: Endpoint, remote: Endpoint, extra: u64) -> u64 {
        let secret = self.mem.core.secret;
        let mut hasher = SipHasher24::new_with_keys(secret[2], secret[3]);
        hasher.write(&local.address.0);
        hasher.write(&remote.address.0);
        hasher.write_u32(u32::from(local.port) << 16 | u32::from(remote.port));
        hasher.write_u64(extra);
        hasher.finish()
    }

    /// The initial sequence number and the timestamp offset of a connection that is opened now.
    pub(super) fn initial_sequence(&self, now: Instant, local: Endpoint, remote: Endpoint) -> (Seq, u32) {
        let hash = self.tcp_hash(local, remote, 0);
        // RFC 6528 §3: M ticks every 4 microseconds.
        let clock = (now.as_nanos() / 4_000) as u32;
        (Seq((hash as u32).wrapping_add(clock)), (hash >> 32) as u32)
    }

    /// A connection is opened in place of one in TIME-WAIT that had sent up to `sent`: its numbers begin beyond those (RFC 9293 §3.10.7.4), which
    /// left the clock behind if there were more than 250,000 a second.
    pub(super) fn begin_beyond(&mut self, index: usize, sent: Seq) {
        let least = sent + APART;
        let s = &mut self.mem.tcp[index];
        if s.iss.lt(least) {
            s.iss = least;
            s.send = SendQueue::new(least);
        }
    }
}
