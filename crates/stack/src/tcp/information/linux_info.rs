//! The statistics of a connection in the form of Linux's `struct tcp_info`
//! (`include/uapi/linux/tcp.h`): what `TCP_INFO` returns to a program.

use super::info::TcpInfo;
use crate::tcp::connection::socket::State;
use crate::time::Span;

/// Size of the structure: that of Linux 6.6, which has all fields known here.
pub const LINUX_INFO_LEN: usize = 240;

fn micros(time: Span) -> u32 {
    time.as_micros().min(u64::from(u32::MAX)) as u32
}

fn millis(time: Span) -> u32 {
    time.as_millis().min(u64::from(u32::MAX)) as u32
}

/// Writes the fields in order.
struct Writer {
    bytes: [u8; LINUX_INFO_LEN],
    at: usize,
}

impl Writer {
    fn put<const N: usize>(&mut self, bytes: [u8; N]) {
        self.bytes[self.at..][..N].copy_from_slice(&bytes);
        self.at += N;
    }

    fn words<const N: usize>(&mut self, words: [u32; N]) {
        words.into_iter().for_each(|word| self.put(word.to_ne_bytes()));
    }

    fn long_words<const N: usize>(&mut self, words: [u64; N]) {
        words.into_iter().for_each(|word| self.put(word.to_ne_bytes()));
    }
}

impl TcpInfo {
    /// The structure in Linux's layout. Values unknown to the stack are 0. Where Linux counts
    /// segments and the stack bytes, the value is the number of full segments for these bytes.
    #[must_use]
    pub fn to_linux(&self) -> [u8; LINUX_INFO_LEN] {
        let mss = u32::from(self.send_mss).max(1);
        let packets = |bytes: u32| bytes.div_ceil(mss);
        let (send_shift, receive_shift) = self.scale.unwrap_or((0, 0));
        let options = u8::from(self.timestamps)
            | u8::from(self.sack) << 1
            | u8::from(self.scale.is_some()) << 2
            | u8::from(self.ecn) << 3;
        let mut to = Writer { bytes: [0; LINUX_INFO_LEN], at: 0 };
        // In TIME-WAIT Linux reports a closed socket: the kernel waits without it.
        let state = if self.state == State::TimeWait { State::Closed } else { self.state };
        to.put([state as u8, self.congestion_state, self.retransmits, self.probes, self.backoff, options]);
        // Whether the application limits the rate, and how Fast Open failed: unknown.
        to.put([send_shift & 15 | receive_shift << 4, 0]);
        to.words([
            micros(self.rto),
            micros(self.ack_delay),
            mss,
            self.receive_mss.into(),
            packets(self.outstanding),
            packets(self.sacked),
            packets(self.lost),
            packets(self.resent),
            0, // forward acknowledgements: obsolete in Linux
            millis(self.since_sent),
            0, // the last acknowledgement sent: not recorded by Linux
            millis(self.since_received),
            millis(self.since_received),
            self.path_mtu,
            self.receive_window,
            micros(self.srtt),
            micros(self.rttvar),
            packets(self.ssthresh),
            self.cwnd / mss,
            mss,
            self.reordering,
            0, // the receiver's estimate of the round trip
            self.receive_buffer,
            self.total_retransmits,
        ]);
        // The pacing rate, and its limit.
        to.long_words([0, 0, self.bytes_acked, self.bytes_received]);
        to.words([self.segments_out, self.segments_in, self.unsent, micros(self.min_rtt)]);
        to.words([self.data_segments_in, self.data_segments_out]);
        // The delivery rate, the busy time, and how much of it the peer's window and the send
        // buffer were the limit.
        to.long_words([0, self.busy.as_micros(), 0, 0]);
        to.words([self.delivered, self.delivered_marked]);
        to.long_words([self.bytes_sent, self.bytes_resent]);
        to.words([self.duplicates, self.overtaken, self.early, self.send_window, self.receive_window]);
        to.words([0]); // how often the flow label was changed
        debug_assert_eq!(to.at, LINUX_INFO_LEN);
        to.bytes
    }
}
