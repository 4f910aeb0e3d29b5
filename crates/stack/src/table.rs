//! The public part of a lane's memory: counters, and one row per socket. The service reads it from
//! another process, at any time and without a lock, for statistics and to reset the connections of
//! a dead program. So it consists of atomics only, and its readers do not trust it.

use crate::addr::{Address, Endpoint, Mac};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use zerocopy::FromZeros;

/// A counter with one writer (the holder of the lane's lock) and any number of readers: no locked
/// instruction.
#[derive(Debug, Default, FromZeros)]
#[repr(transparent)]
pub struct SharedCounter(AtomicU64);

shared_layout! { SharedCounter { 0 } }

impl SharedCounter {
    /// Counts one.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Counts `n`.
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// Replaces the value.
    pub fn set(&self, value: u64) {
        self.0.store(value, Relaxed);
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A 32-bit field of a row, written and read without a lock.
#[derive(Debug, Default, FromZeros)]
#[repr(transparent)]
pub struct Cell(AtomicU32);

shared_layout! { Cell { 0 } }

impl Cell {
    /// Replaces the value.
    pub fn set(&self, value: u32) {
        self.0.store(value, Relaxed);
    }

    /// The value.
    #[must_use]
    pub fn get(&self) -> u32 {
        self.0.load(Relaxed)
    }

    /// Counts one.
    pub fn inc(&self) {
        self.set(self.get().wrapping_add(1));
    }
}

/// An address and port in a row. A read may be torn; a reader that acts on it must validate it.
#[derive(Debug, Default, FromZeros)]
#[repr(C)]
pub struct EndpointCells {
    address: [AtomicU32; 4],
    port: AtomicU32,
}

shared_layout! { EndpointCells { address, port } }

impl EndpointCells {
    /// Replaces it.
    pub fn set(&self, endpoint: Endpoint) {
        for (cell, octets) in self.address.iter().zip(endpoint.address.0.as_chunks::<4>().0) {
            cell.store(u32::from_be_bytes(*octets), Relaxed);
        }
        self.port.store(u32::from(endpoint.port), Relaxed);
    }

    /// Reads it.
    #[must_use]
    pub fn get(&self) -> Endpoint {
        let mut octets = [0; 16];
        for (cell, octets) in self.address.iter().zip(octets.as_chunks_mut::<4>().0) {
            *octets = cell.load(Relaxed).to_be_bytes();
        }
        Endpoint::new(Address(octets), self.port.load(Relaxed) as u16)
    }
}

/// An Ethernet address in a row.
#[derive(Debug, Default, FromZeros)]
#[repr(transparent)]
pub struct MacCell(AtomicU64);

shared_layout! { MacCell { 0 } }

impl MacCell {
    /// Replaces it.
    pub fn set(&self, mac: Mac) {
        let [a, b, c, d, e, f] = mac.0;
        self.0.store(u64::from_be_bytes([0, 0, a, b, c, d, e, f]), Relaxed);
    }

    /// Reads it.
    #[must_use]
    pub fn get(&self) -> Mac {
        let [_, _, a, b, c, d, e, f] = self.0.load(Relaxed).to_be_bytes();
        Mac([a, b, c, d, e, f])
    }
}

/// What kind of socket a row describes ([`SocketRow::kind`]).
pub mod kind {
    /// The row is free.
    pub const FREE: u32 = 0;
    /// A TCP connection on the fast path.
    pub const TCP: u32 = 1;
    /// A listening TCP socket on the fast path.
    pub const LISTENER: u32 = 2;
    /// A UDP socket on the fast path.
    pub const UDP: u32 = 3;
    /// A TCP socket that stays on the kernel; [`super::SocketRow::reason`] says why.
    pub const KERNEL_TCP: u32 = 4;
    /// A UDP socket that stays on the kernel.
    pub const KERNEL_UDP: u32 = 5;
}

/// What other processes may know of a socket. All fields are plain numbers; times in microseconds,
/// sizes in bytes.
#[derive(Debug, Default, FromZeros)]
#[repr(C, align(64))]
pub struct SocketRow {
    /// One of [`kind`]; written last when a socket is opened and first when it is closed.
    pub kind: Cell,
    /// TCP: the RFC 9293 state as Linux numbers it (ESTABLISHED 1 ... CLOSING 11). UDP: 7
    /// unconnected, 1 connected.
    pub state: Cell,
    /// The process that opened it.
    pub pid: Cell,
    /// Its descriptor there.
    pub fd: Cell,
    /// Why it is not on the fast path, or why some of its packets are not, a code of the control
    /// protocol; 0: all are.
    pub reason: Cell,
    /// The outgoing interface of its path, by the host's number; 0 if unknown.
    pub interface: Cell,
    /// Local address and port.
    pub local: EndpointCells,
    /// Remote address and port; port 0 if there is none.
    pub remote: EndpointCells,
    /// Bytes the program has not read yet.
    pub rx_queue: Cell,
    /// Bytes not sent, or not acknowledged yet.
    pub tx_queue: Cell,
    /// TCP: smoothed round-trip time.
    pub srtt_us: Cell,
    /// TCP: retransmission timeout.
    pub rto_us: Cell,
    /// TCP: congestion window.
    pub cwnd: Cell,
    /// TCP: slow start threshold.
    pub ssthresh: Cell,
    /// TCP: segment size in use.
    pub mss: Cell,
    /// TCP: segments retransmitted.
    pub retransmits: Cell,
    /// TCP: next sequence number to send.
    pub snd_nxt: Cell,
    /// TCP: oldest sequence number not acknowledged.
    pub snd_una: Cell,
    /// TCP: next sequence number expected; with `snd_nxt` what a RST on behalf of a dead program
    /// needs.
    pub rcv_nxt: Cell,
    /// Datagrams dropped for want of room in the receive queue.
    pub drops: Cell,
    /// Our Ethernet address on the path in use.
    pub source_mac: MacCell,
    /// The next hop's Ethernet address on the path in use.
    pub next_hop_mac: MacCell,
    /// Packets received.
    pub rx_packets: SharedCounter,
    /// Payload bytes received.
    pub rx_bytes: SharedCounter,
    /// Packets sent.
    pub tx_packets: SharedCounter,
    /// Payload bytes sent.
    pub tx_bytes: SharedCounter,
    /// TCP: 1 if the connection is complete: if its program is gone, the service closes it in
    /// order, not by a RST.
    pub complete: Cell,
    /// A socket that stays on the kernel: 1 if its program polls it before it sleeps. Maintained by
    /// the caller, as the two that follow.
    pub polled: Cell,
    /// How often polling has found something.
    pub polls_found: Cell,
    /// How often a thread has slept after it had polled in vain.
    pub polls_slept: Cell,
    /// A socket that stays on the kernel: the processes of the lane that hold it, a bit for each;
    /// maintained by the caller.
    pub holders: SharedCounter,
    /// Its claim once its program knows it; 0 for a connection that a listener has accepted.
    /// Maintained by the caller.
    pub claim: SharedCounter,
}

shared_layout! { SocketRow {
    kind, state, pid, fd, reason, interface, local, remote, rx_queue, tx_queue, srtt_us, rto_us,
    cwnd, ssthresh, mss, retransmits, snd_nxt, snd_una, rcv_nxt, drops, source_mac, next_hop_mac,
    rx_packets, rx_bytes, tx_packets, tx_bytes, complete, polled, polls_found, polls_slept, holders, claim,
} }

impl SocketRow {
    /// Clears every field, the kind first.
    pub fn clear(&self) {
        self.kind.set(kind::FREE);
        let cells = [
            &self.state,
            &self.pid,
            &self.fd,
            &self.reason,
            &self.interface,
            &self.rx_queue,
            &self.tx_queue,
            &self.srtt_us,
            &self.rto_us,
            &self.cwnd,
            &self.ssthresh,
            &self.mss,
            &self.retransmits,
            &self.snd_nxt,
            &self.snd_una,
            &self.rcv_nxt,
            &self.drops,
            &self.complete,
            &self.polled,
            &self.polls_found,
            &self.polls_slept,
        ];
        cells.into_iter().for_each(|cell| cell.set(0));
        [&self.local, &self.remote].into_iter().for_each(|e| e.set(Endpoint::default()));
        [&self.source_mac, &self.next_hop_mac].into_iter().for_each(|m| m.set(Mac::default()));
        let counts = [&self.rx_packets, &self.rx_bytes, &self.tx_packets, &self.tx_bytes, &self.holders, &self.claim];
        counts.into_iter().for_each(|c| c.set(0));
    }
}

macro_rules! counters {
    ($( $(#[$doc:meta])* $field:ident = $name:literal; )*) => {
        /// Counters of a lane, with the names of `netstat -s` where there is one.
        #[derive(Debug, Default, FromZeros)]
        #[repr(C, align(64))]
        pub struct Counters {
            $( $(#[$doc])* pub $field: SharedCounter, )*
        }

        shared_layout!(Counters { $($field),* });

        impl Counters {
            /// Every counter with its name, in a fixed order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$( ($name, self.$field.get()), )*].into_iter()
            }
        }
    };
}

counters! {
    /// Packets received.
    ip_in_receives = "IpInReceives";
    /// Dropped: broken IPv4 or IPv6 header.
    ip_in_hdr_errors = "IpInHdrErrors";
    /// Dropped: an address that cannot be answered or is not a valid destination.
    ip_in_addr_errors = "IpInAddrErrors";
    /// Dropped: an unsupported protocol.
    ip_in_unknown_protos = "IpInUnknownProtos";
    /// Dropped: shorter than its header announces.
    ip_in_truncated = "IpInTruncatedPkts";
    /// Packets delivered to TCP, UDP or ICMP.
    ip_in_delivers = "IpInDelivers";
    /// Packets passed to IP for sending.
    ip_out_requests = "IpOutRequests";
    /// Packets not sent for want of room.
    ip_out_discards = "IpOutDiscards";
    /// Packets not sent because there is no path to their destination.
    ip_out_no_routes = "IpOutNoRoutes";
    /// Fragments received.
    ip_reasm_reqds = "IpReasmReqds";
    /// Datagrams reassembled.
    ip_reasm_oks = "IpReasmOKs";
    /// Reassemblies that failed, for whatever reason.
    ip_reasm_fails = "IpReasmFails";
    /// Of these: by timeout.
    ip_reasm_timeout = "IpReasmTimeout";
    /// Of these: by overlapping fragments (RFC 5722).
    ip_reasm_overlaps = "IpReasmOverlaps";
    /// Datagrams fragmented.
    ip_frag_oks = "IpFragOKs";
    /// Datagrams that could not be fragmented.
    ip_frag_fails = "IpFragFails";
    /// Fragments created.
    ip_frag_creates = "IpFragCreates";
    /// Frames that are neither IPv4 nor IPv6 (VLAN-tagged ones among them).
    eth_in_unknown = "EthInUnknown";
    /// Packets of too many frames, and completed frames that had not been handed out.
    eth_in_bad_frame = "EthInBadFrame";
    /// Received packets that were dropped because no frame was free.
    rx_no_frame = "RxNoFrame";
    /// ICMP messages received.
    icmp_in_msgs = "IcmpInMsgs";
    /// ICMP messages dropped: malformed.
    icmp_in_errors = "IcmpInErrors";
    /// ICMP messages with a bad checksum.
    icmp_in_csum_errors = "IcmpInCsumErrors";
    /// ICMP errors that matched no socket, or failed the checks of RFC 5927.
    icmp_in_unmatched = "IcmpInUnmatched";
    /// Destination unreachable.
    icmp_in_dest_unreachs = "IcmpInDestUnreachs";
    /// Fragmentation needed, packet too big.
    icmp_in_too_big = "IcmpInPktTooBigs";
    /// Time exceeded.
    icmp_in_time_excds = "IcmpInTimeExcds";
    /// Datagrams delivered to sockets.
    udp_in_datagrams = "UdpInDatagrams";
    /// Datagrams for a port without socket.
    udp_no_ports = "UdpNoPorts";
    /// Datagrams dropped: malformed.
    udp_in_errors = "UdpInErrors";
    /// Datagrams dropped: bad checksum.
    udp_in_csum_errors = "UdpInCsumErrors";
    /// Datagrams dropped: the socket's receive buffer was full.
    udp_rcvbuf_errors = "UdpRcvbufErrors";
    /// Datagrams dropped: the lane had no frame left for them.
    udp_mem_errors = "UdpMemErrors";
    /// Datagrams sent.
    udp_out_datagrams = "UdpOutDatagrams";
    /// Datagrams not sent for want of room.
    udp_sndbuf_errors = "UdpSndbufErrors";
    /// Multicast datagrams dropped by a socket's source filter.
    udp_filtered = "UdpFiltered";
    /// Connections we opened.
    tcp_active_opens = "TcpActiveOpens";
    /// Connections opened to us.
    tcp_passive_opens = "TcpPassiveOpens";
    /// Connection attempts that failed.
    tcp_attempt_fails = "TcpAttemptFails";
    /// Established connections that were reset.
    tcp_estab_resets = "TcpEstabResets";
    /// Connections established at this moment.
    tcp_curr_estab = "TcpCurrEstab";
    /// Segments received.
    tcp_in_segs = "TcpInSegs";
    /// Segments sent.
    tcp_out_segs = "TcpOutSegs";
    /// Segments retransmitted.
    tcp_retrans_segs = "TcpRetransSegs";
    /// Segments dropped: malformed.
    tcp_in_errs = "TcpInErrs";
    /// Segments dropped: bad checksum.
    tcp_in_csum_errors = "TcpInCsumErrors";
    /// Resets sent.
    tcp_out_rsts = "TcpOutRsts";
    /// Resets received and accepted.
    tcp_in_rsts = "TcpInRsts";
    /// Segments without a connection or listener.
    tcp_no_socket = "TcpNoSocket";
    /// Connections refused because the accept queue was full.
    tcp_listen_overflows = "TcpExtListenOverflows";
    /// Connections refused for any reason at the listener.
    tcp_listen_drops = "TcpExtListenDrops";
    /// SYN cookies sent (RFC 4987).
    tcp_syncookies_sent = "TcpExtSyncookiesSent";
    /// Valid SYN cookies received.
    tcp_syncookies_recv = "TcpExtSyncookiesRecv";
    /// Invalid SYN cookies received.
    tcp_syncookies_failed = "TcpExtSyncookiesFailed";
    /// Connections that entered TIME-WAIT.
    tcp_time_wait = "TcpExtTW";
    /// Segments rejected by PAWS (RFC 7323).
    tcp_paws_drops = "TcpExtPAWSEstab";
    /// Delayed acknowledgements sent.
    tcp_delayed_acks = "TcpExtDelayedACKs";
    /// Segments with data that a router has marked for congestion (RFC 3168).
    tcp_in_ce = "TcpInCePkts";
    /// Window reductions because of marks that the peer has echoed.
    tcp_ecn_reductions = "TcpEcnReductions";
    /// Duplicate acknowledgements received.
    tcp_dup_acks = "TcpExtTCPDupAcks";
    /// Segments received out of order.
    tcp_ofo_queue = "TcpExtTCPOFOQueue";
    /// Out-of-order segments dropped for want of room.
    tcp_ofo_drop = "TcpExtTCPOFODrop";
    /// Duplicate data received.
    tcp_dup_data = "TcpExtTCPDupData";
    /// Segments outside of the window, with or without data.
    tcp_out_of_window = "TcpExtTCPOutOfWindow";
    /// SACK blocks received.
    tcp_sack_recv = "TcpExtTCPSackRecv";
    /// SACK blocks discarded as invalid.
    tcp_sack_discard = "TcpExtTCPSACKDiscard";
    /// Loss recoveries started.
    tcp_recoveries = "TcpExtTCPSackRecovery";
    /// Segments retransmitted in loss recovery.
    tcp_fast_retrans = "TcpExtTCPFastRetrans";
    /// Retransmission timeouts.
    tcp_timeouts = "TcpExtTCPTimeouts";
    /// Retransmissions found to be spurious.
    tcp_spurious_rtos = "TcpExtTCPSpuriousRTOs";
    /// Tail loss probes sent (RFC 8985).
    tcp_loss_probes = "TcpExtTCPLossProbes";
    /// Losses repaired by a tail loss probe.
    tcp_loss_probe_recovery = "TcpExtTCPLossProbeRecovery";
    /// Challenge acknowledgements sent (RFC 5961).
    tcp_challenge_acks = "TcpExtTCPChallengeACK";
    /// Challenge acknowledgements withheld by their rate limit.
    tcp_challenge_limited = "TcpExtTCPACKSkippedChallenge";
    /// Keepalive probes sent.
    tcp_keepalives = "TcpExtTCPKeepAlive";
    /// Zero-window probes sent.
    tcp_zero_window_probes = "TcpExtTCPWinProbe";
    /// Connections aborted by timeout.
    tcp_abort_on_timeout = "TcpExtTCPAbortOnTimeout";
    /// Connections reset because the program closed them with unread data (RFC 2525 §2.17).
    tcp_abort_on_data = "TcpExtTCPAbortOnData";
    /// Connections reset because the program closed them and will not wait for the peer's FIN.
    tcp_abort_on_linger = "TcpExtTCPAbortOnLinger";
    /// Connections aborted for want of memory.
    tcp_abort_on_memory = "TcpExtTCPAbortOnMemory";
    /// Path MTU reductions accepted.
    tcp_mtu_reductions = "TcpExtTCPMTUReductions";
    /// Failed attempts to take a frame.
    frames_exhausted = "FramesExhausted";
    /// Packets handed out for sending.
    tx_packets = "TxPackets";
    /// Of these, packets that the lane's device did not accept: it was down, or there was no
    /// memory.
    tx_failed = "TxFailed";
    /// Packets that waited for a neighbour.
    path_waits = "PathWaits";
    /// Packets dropped while waiting: displaced by others for the same neighbour or for others, or
    /// the neighbour did not answer.
    path_drops = "PathDrops";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_gives_back_what_was_put_in_and_nothing_after_it_was_cleared() {
        let row = SocketRow::default();
        let endpoint = Endpoint::new(Address::v4([10, 1, 2, 3]), 4567);
        row.local.set(endpoint);
        row.source_mac.set(Mac([2, 3, 4, 5, 6, 7]));
        row.rx_bytes.add(9);
        assert_eq!(row.local.get(), endpoint);
        assert_eq!(row.source_mac.get(), Mac([2, 3, 4, 5, 6, 7]));
        row.clear();
        assert_eq!((row.local.get(), row.rx_bytes.get()), (Endpoint::default(), 0));
        assert_eq!(row.source_mac.get(), Mac::default());
    }

    #[test]
    fn counter_names_are_unique() {
        let counters = Counters::default();
        let mut names: Vec<_> = counters.iter().map(|(name, _)| name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), counters.iter().count());
    }
}
