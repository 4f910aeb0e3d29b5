//! The statistics of a connection in the form of Linux's `struct tcp_info`
//! (`include/uapi/linux/tcp.h`): what `TCP_INFO` returns to a program.

use tickwire_stack::tcp::{TcpInfo, TcpState};
use tickwire_stack::time::Span;

/// Size of the structure: that of Linux 6.6, which has all fields known here.
pub const LEN: usize = 240;

/// The number of a connection's state (`include/net/tcp_states.h`).
#[must_use]
pub const fn state(state: TcpState) -> u8 {
    match state {
        TcpState::Established => 1,
        TcpState::SynSent => 2,
        TcpState::SynReceived => 3,
        TcpState::FinWait1 => 4,
        TcpState::FinWait2 => 5,
        TcpState::TimeWait => 6,
        TcpState::Free | TcpState::Closed => 7,
        TcpState::CloseWait => 8,
        TcpState::LastAck => 9,
        TcpState::Closing => 11,
    }
}

fn micros(time: Span) -> u32 {
    time.as_micros().min(u64::from(u32::MAX)) as u32
}

fn millis(time: Span) -> u32 {
    time.as_millis().min(u64::from(u32::MAX)) as u32
}

/// Writes the fields in order.
struct Writer {
    bytes: [u8; LEN],
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

/// The structure in Linux's layout. Values unknown to the stack are 0. Where Linux counts segments
/// and the stack bytes, the value is the number of full segments for these bytes.
#[must_use]
pub fn emit(info: &TcpInfo) -> [u8; LEN] {
    let mss = u32::from(info.send_mss).max(1);
    let packets = |bytes: u32| bytes.div_ceil(mss);
    let (send_shift, receive_shift) = info.scale.unwrap_or((0, 0));
    let options = u8::from(info.timestamps)
        | u8::from(info.sack) << 1
        | u8::from(info.scale.is_some()) << 2
        | u8::from(info.ecn) << 3;
    let mut to = Writer { bytes: [0; LEN], at: 0 };
    // In TIME-WAIT Linux reports a closed socket: the kernel waits without it.
    let reported = if info.state == TcpState::TimeWait { TcpState::Closed } else { info.state };
    to.put([state(reported), info.congestion_state, info.retransmits, info.probes, info.backoff, options]);
    // Whether the application limits the rate, and how Fast Open failed: unknown.
    to.put([send_shift & 15 | receive_shift << 4, 0]);
    to.words([
        micros(info.rto),
        micros(info.ack_delay),
        mss,
        info.receive_mss.into(),
        packets(info.outstanding),
        packets(info.sacked),
        packets(info.lost),
        packets(info.resent),
        0, // forward acknowledgements: obsolete in Linux
        millis(info.since_sent),
        0, // the last acknowledgement sent: not recorded by Linux
        millis(info.since_received),
        millis(info.since_received),
        info.path_mtu,
        info.receive_window,
        micros(info.srtt),
        micros(info.rttvar),
        packets(info.ssthresh),
        info.cwnd / mss,
        mss,
        info.reordering,
        0, // the receiver's estimate of the round trip
        info.receive_buffer,
        info.total_retransmits,
    ]);
    // The pacing rate, and its limit.
    to.long_words([0, 0, info.bytes_acked, info.bytes_received]);
    to.words([info.segments_out, info.segments_in, info.unsent, micros(info.min_rtt)]);
    to.words([info.data_segments_in, info.data_segments_out]);
    // The delivery rate, the busy time, and how much of it the peer's window and the send buffer
    // were the limit.
    to.long_words([0, info.busy.as_micros(), 0, 0]);
    to.words([info.delivered, info.delivered_marked]);
    to.long_words([info.bytes_sent, info.bytes_resent]);
    to.words([info.duplicates, info.overtaken, info.early, info.send_window, info.receive_window]);
    to.words([0]); // how often the flow label was changed
    debug_assert_eq!(to.at, LEN);
    to.bytes
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use tickwire_stack::tcp::Algorithm;

    /// A different figure in each field.
    pub(crate) const SAMPLE: TcpInfo = TcpInfo {
        state: TcpState::CloseWait,
        congestion_state: 3,
        retransmits: 2,
        probes: 4,
        backoff: 5,
        timestamps: true,
        sack: false,
        ecn: true,
        scale: Some((7, 9)),
        rto: Span::from_micros(101),
        ack_delay: Span::from_micros(102),
        send_mss: 1000,
        receive_mss: 104,
        outstanding: 10_500,
        sacked: 12_000,
        lost: 13_000,
        resent: 14_000,
        unsent: 115,
        unread: 116,
        unread_to_mark: 116,
        srtt: Span::from_micros(117),
        rttvar: Span::from_micros(118),
        min_rtt: Span::from_micros(119),
        cwnd: 20_999,
        ssthresh: 21_000,
        send_window: 122,
        receive_window: 123,
        receive_buffer: 124,
        path_mtu: 125,
        total_retransmits: 126,
        since_sent: Span::from_millis(127),
        since_received: Span::from_millis(128),
        algorithm: Algorithm::Reno,
        segments_out: 129,
        segments_in: 130,
        data_segments_out: 131,
        data_segments_in: 132,
        bytes_sent: 1 << 33,
        bytes_resent: 1 << 34,
        bytes_acked: 1 << 35,
        bytes_received: 1 << 36,
        delivered: 137,
        delivered_marked: 138,
        duplicates: 139,
        reordering: 140,
        overtaken: 141,
        early: 142,
        busy: Span::from_micros(143),
    };

    /// The offset of each field.
    #[test]
    fn the_structure_is_that_of_linux() {
        let bytes = emit(&SAMPLE);
        assert_eq!(bytes[..8], [8, 3, 2, 4, 5, 0b1101, 0x97, 0]);
        let words = [
            (8, 101), // rto
            (12, 102),
            (16, 1000),
            (20, 104),
            (24, 11), // unacked
            (28, 12),
            (32, 13),
            (36, 14),
            (40, 0),
            (44, 127), // last_data_sent
            (48, 0),
            (52, 128),
            (56, 128),
            (60, 125), // pmtu
            (64, 123),
            (68, 117), // rtt
            (72, 118),
            (76, 21),
            (80, 20),
            (84, 1000),
            (88, 140), // reordering
            (92, 0),
            (96, 124),
            (100, 126), // total_retrans
            (136, 129), // segs_out
            (140, 130),
            (144, 115), // notsent_bytes
            (148, 119),
            (152, 132), // data_segs_in
            (156, 131),
            (192, 137), // delivered
            (196, 138),
            (216, 139), // dsack_dups
            (220, 141),
            (224, 142),
            (228, 122), // snd_wnd
            (232, 123),
            (236, 0),
        ];
        for (at, word) in words {
            assert_eq!(u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap()), word, "at {at}");
        }
        let long = [
            (104, 0),
            (112, 0),
            (120, 1 << 35), // bytes_acked
            (128, 1 << 36),
            (160, 0),
            (168, 143), // busy_time
            (176, 0),
            (184, 0),
            (200, 1 << 33), // bytes_sent
            (208, 1 << 34),
        ];
        for (at, word) in long {
            assert_eq!(u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap()), word, "at {at}");
        }
    }

    /// In TIME-WAIT Linux reports a closed socket.
    #[test]
    fn states_are_numbered_as_by_linux() {
        for (of, number, reported) in [
            (TcpState::Established, 1, 1),
            (TcpState::SynSent, 2, 2),
            (TcpState::SynReceived, 3, 3),
            (TcpState::FinWait1, 4, 4),
            (TcpState::FinWait2, 5, 5),
            (TcpState::TimeWait, 6, 7),
            (TcpState::Closed, 7, 7),
            (TcpState::CloseWait, 8, 8),
            (TcpState::LastAck, 9, 9),
            (TcpState::Closing, 11, 11),
        ] {
            assert_eq!((state(of), emit(&TcpInfo { state: of, ..SAMPLE })[0]), (number, reported), "{of:?}");
        }
    }

    #[test]
    fn what_does_not_fit_its_field_is_cut() {
        let info = TcpInfo { rto: Span::from_secs(5_000), since_sent: Span::from_secs(5_000_000), ..SAMPLE };
        let bytes = emit(&TcpInfo { send_mss: 0, ..info });
        assert_eq!((&bytes[8..12], &bytes[44..48]), ([0xff; 4].as_slice(), [0xff; 4].as_slice()));
        assert_eq!(bytes[24..28], 10_500_u32.to_ne_bytes(), "without a segment size, bytes");
    }
}
