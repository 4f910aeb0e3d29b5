//! Copies of diverted packets for `tickwire capture`.
//!
//! Each capturing process gets the reading end of a socket pair of type `SOCK_SEQPACKET`. One
//! packet is one record, laid out as in the BPF ring buffer (see
//! `tickwire_link::bpf::CaptureRecord`), with its bytes cut to the requested length. A process that
//! does not keep up loses records; nothing waits for it.

use super::ConnectionId;
use crate::programs::Programs;
use crate::registry::LaneId;
use aya::maps::{MapData, RingBuf};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, setsockopt, socketpair, sockopt};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use tickwire_link::bpf::CaptureRecord;

/// Bytes of a record before the packet's.
const HEADER: usize = 32;
/// The range of the number of captured bytes in it.
const CAPTURED: std::ops::Range<usize> = 20..24;

/// At most so many processes capture at once.
const MAX_CAPTURES: usize = 8;

/// At most so many records are handled before the loop continues.
const TURN: usize = 1024;

/// Room for records that a process has not read yet, in bytes.
const BACKLOG: usize = 4 << 20;

struct Capture {
    connection: ConnectionId,
    /// The lanes to capture; `None`: all.
    lanes: Option<Vec<LaneId>>,
    snaplen: usize,
    stream: OwnedFd,
}

/// All running captures, and the ring that feeds them.
pub(crate) struct Captures {
    ring: RingBuf<MapData>,
    all: Vec<Capture>,
}

impl Captures {
    pub(crate) fn new(ring: RingBuf<MapData>) -> Self {
        Self { ring, all: Vec::new() }
    }

    /// The ring's descriptor is readable when there are records.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        use std::os::fd::AsFd;
        self.ring.as_fd()
    }

    /// Begins a capture, the only one of its connection. Returns the reading end of its stream.
    pub(crate) fn begin(
        &mut self,
        connection: ConnectionId,
        lanes: Option<Vec<LaneId>>,
        snaplen: u32,
        programs: &mut Programs,
    ) -> io::Result<OwnedFd> {
        let is_anothers = |capture: &Capture| capture.connection != connection;
        if self.all.iter().filter(|&capture| is_anothers(capture)).count() >= MAX_CAPTURES {
            return Err(io::Error::other("too many captures run already"));
        }
        let flags = SockFlag::SOCK_CLOEXEC;
        let (reader, stream) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        if setsockopt(&stream, sockopt::SndBufForce, &BACKLOG).is_err() {
            let _ = setsockopt(&stream, sockopt::SndBuf, &BACKLOG);
        }
        programs.set_capture(true).map_err(io::Error::other)?;
        // It replaces an earlier one: otherwise one process could take the place of all.
        self.all.retain(is_anothers);
        self.all.push(Capture { connection, lanes, snaplen: snaplen as usize, stream });
        Ok(reader)
    }

    /// Ends the captures of a connection.
    pub(crate) fn end(&mut self, connection: ConnectionId, programs: &mut Programs) {
        if self.all.is_empty() {
            return;
        }
        self.all.retain(|capture| capture.connection != connection);
        if self.all.is_empty()
            && let Err(error) = programs.set_capture(false)
        {
            tracing::warn!(%error, "cannot switch capturing off");
        }
    }

    /// Distributes the records in the ring.
    pub(crate) fn drain(&mut self) {
        for _ in 0..TURN {
            let Some(entry) = self.ring.next() else { return };
            let Some((record, bytes)) = CaptureRecord::parse(&entry) else { continue };
            for capture in &self.all {
                if capture.lanes.as_ref().is_none_or(|lanes| lanes.contains(&record.lane)) {
                    let packet = cut(&entry, bytes.len().min(capture.snaplen));
                    // A full queue loses the record; so does a reader that is gone, whose
                    // connection ends soon.
                    let _ = send(capture.stream.as_raw_fd(), &packet, MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL);
                }
            }
        }
    }
}

/// A record, cut to this many captured bytes.
fn cut(entry: &[u8], captured: usize) -> Vec<u8> {
    let mut packet = entry[..HEADER + captured].to_vec();
    packet[CAPTURED].copy_from_slice(&u32::try_from(captured).unwrap_or(0).to_ne_bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_cut_short_is_a_record_still() {
        let mut entry = vec![0; HEADER + 256];
        entry[CAPTURED].copy_from_slice(&100_u32.to_ne_bytes());
        entry[HEADER..HEADER + 100].fill(7);
        let packet = cut(&entry, 60);
        let (_, bytes) = CaptureRecord::parse(&packet).unwrap();
        assert_eq!(bytes, [7; 60]);
    }
}
