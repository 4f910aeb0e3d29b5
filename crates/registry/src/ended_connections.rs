//! What the peers of a program that is gone are told of its connections.
//!
//! A row of the lane's table is the dead program's word: it counts only if the lane has owned its
//! ends, and the caller makes sure that its source is the host's.

use crate::end_segment::{EndKind, EndSegment};
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::table::{SocketRow, kind};

/// States of RFC 9293 as Linux numbers them.
const ESTABLISHED: u32 = 1;
const CLOSE_WAIT: u32 = 8;
/// Those in which the peer has a connection: also SYN-RECEIVED, FIN-WAIT-1, FIN-WAIT-2, LAST-ACK,
/// CLOSING.
const LIVE: [u32; 7] = [ESTABLISHED, 3, 4, 5, CLOSE_WAIT, 9, 11];

/// The segments that end the connection of one row; none if the row is no live connection, or its
/// ends are not the lane's, as `owns` says.
#[must_use]
pub fn end_segments(row: &SocketRow, owns: impl Fn(Endpoint, Endpoint) -> bool) -> Vec<EndSegment> {
    if row.kind.get() != kind::TCP || !LIVE.contains(&row.state.get()) {
        return Vec::new();
    }
    let (local, remote) = (row.local.get(), row.remote.get());
    let (source_mac, next_hop_mac) = (row.source_mac.get(), row.next_hop_mac.get());
    let unusable = |a: Address| a.is_unspecified() || a.is_multicast() || a.is_limited_broadcast();
    if remote.port == 0 || unusable(remote.address) || next_hop_mac == Mac::default() || !owns(local, remote) {
        return Vec::new();
    }
    let (next, oldest) = (row.snd_nxt.get(), row.snd_una.get());
    let acknowledgement = row.rcv_nxt.get();
    let reset =
        EndSegment { how: EndKind::Reset, source_mac, next_hop_mac, local, remote, sequence: next, acknowledgement };
    // The connection is complete: the program has left its sockets (by exec), and all data is
    // acknowledged and read. The peer sees the end of the stream, as from a kernel. A kernel, which
    // has no such socket, would answer the peer's next segment by a RST. Here the RST follows at
    // once, because nothing would retransmit a lost FIN.
    let complete = row.complete.get() == 1 && row.rx_queue.get() == 0 && next == oldest;
    if complete && matches!(row.state.get(), ESTABLISHED | CLOSE_WAIT) {
        return vec![
            EndSegment { how: EndKind::Finish, ..reset },
            EndSegment { sequence: next.wrapping_add(1), ..reset },
        ];
    }
    // A peer obeys a RST only with the sequence number that it expects (RFC 5961 §3.2): the one
    // that was sent last, or, if that was lost, the one that it has acknowledged. To anything in
    // between it sends a challenge ACK, which the kernel, having no such socket, answers by a RST.
    let mut ends = vec![reset];
    if oldest != next {
        ends.push(EndSegment { sequence: oldest, ..reset });
    }
    ends
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCAL: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 1]), 4000);

    fn row() -> SocketRow {
        let row = SocketRow::default();
        row.kind.set(kind::TCP);
        row.state.set(1);
        row.local.set(LOCAL);
        row.remote.set(Endpoint::new(Address::v4([10, 0, 0, 2]), 80));
        row.source_mac.set(Mac([2, 0, 0, 0, 0, 1]));
        row.next_hop_mac.set(Mac([2, 0, 0, 0, 0, 2]));
        row.snd_nxt.set(1000);
        row.snd_una.set(1000);
        row.rcv_nxt.set(77);
        row
    }

    #[test]
    fn a_live_connection_is_reset_with_the_numbers_its_peer_may_expect() {
        let row = row();
        let quiet = end_segments(&row, |local, remote| local == LOCAL && remote.port == 80);
        assert_eq!(quiet.len(), 1);
        assert_eq!((quiet[0].sequence, quiet[0].acknowledgement), (1000, 77));
        row.snd_una.set(900);
        let busy: Vec<u32> = end_segments(&row, |_, _| true).iter().map(|r| r.sequence).collect();
        assert_eq!(busy, [1000, 900]);
    }

    #[test]
    fn a_connection_that_its_program_has_done_with_ends_in_order() {
        let row = row();
        row.complete.set(1);
        let ends =
            |row: &SocketRow| end_segments(row, |_, _| true).iter().map(|e| (e.how, e.sequence)).collect::<Vec<_>>();
        assert_eq!(ends(&row), [(EndKind::Finish, 1000), (EndKind::Reset, 1001)]);
        row.snd_una.set(900);
        assert_eq!(ends(&row), [(EndKind::Reset, 1000), (EndKind::Reset, 900)], "something is missing");
        row.snd_una.set(1000);
        row.state.set(5);
        assert_eq!(ends(&row), [(EndKind::Reset, 1000)], "it has had its end");
    }

    #[test]
    fn rows_that_lie_or_are_at_their_end_reset_no_peer() {
        assert!(end_segments(&row(), |_, _| false).is_empty(), "a port of another lane");
        for state in [0, 2, 6, 7, 10, 12, 99] {
            let row = row();
            row.state.set(state);
            assert!(end_segments(&row, |_, _| true).is_empty(), "state {state}");
        }
        let udp = row();
        udp.kind.set(kind::UDP);
        assert!(end_segments(&udp, |_, _| true).is_empty());
        let unknown = row();
        unknown.next_hop_mac.set(Mac::default());
        assert!(end_segments(&unknown, |_, _| true).is_empty());
        let group = row();
        group.remote.set(Endpoint::new(Address::v4([239, 0, 0, 1]), 80));
        assert!(end_segments(&group, |_, _| true).is_empty());
    }
}
