//! Copies of diverted packets for `tickwire capture`.
//!
//! Each capturing process gets the reading end of a socket pair of type `SOCK_SEQPACKET`. One
//! packet is one record, laid out as in the BPF ring buffer (see
//! `tickwire_lane_linux::bpf::CaptureRecord`), with its bytes cut to the requested length. A
//! process that does not keep up loses records; nothing waits for it.
//!
//! Records that wait to be read stay in the kernel's memory for as long as any process keeps the
//! reading end, also when the capture is over. So a connection has one capture, users other than
//! root have few, and the queue of such a one holds no more than that of a user's own socket may.

use super::ConnectionId;
use crate::programs::Programs;
use aya::maps::{MapData, RingBuf};
use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, send, setsockopt, socketpair, sockopt};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use tickwire_lane_linux::bpf::CaptureRecord;
use tickwire_registry::LaneId;

/// Bytes of a record before the packet's.
const HEADER: usize = 32;
/// The range of the number of captured bytes in it.
const CAPTURED: std::ops::Range<usize> = 20..24;

/// At most so many processes capture at once.
const MAX_CAPTURES: usize = 8;
/// So many of these places are for root only.
const FOR_ROOT: usize = 2;
/// At most so many processes of a user other than root capture at once.
const MAX_OF_USER: usize = 2;

/// At most so many records are handled before the loop continues.
const TURN: usize = 1024;

/// Room for records that a process has not read yet, in bytes. Users other than root get no more
/// than `net.core.wmem_max`.
const BACKLOG: usize = 4 << 20;

struct Capture {
    connection: ConnectionId,
    user: u32,
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

    /// Begins a capture, the only one of this user's connection. Returns the reading end of its
    /// stream.
    pub(crate) fn begin(
        &mut self,
        (connection, user): (ConnectionId, u32),
        lanes: Option<Vec<LaneId>>,
        snaplen: u32,
        programs: &mut Programs,
    ) -> io::Result<OwnedFd> {
        let running: Vec<_> = self.all.iter().map(|capture| (capture.connection, capture.user)).collect();
        has_place(&running, (connection, user)).map_err(io::Error::other)?;
        let flags = SockFlag::SOCK_CLOEXEC;
        let (reader, stream) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, flags)?;
        if user != 0 || setsockopt(&stream, sockopt::SndBufForce, &BACKLOG).is_err() {
            let _ = setsockopt(&stream, sockopt::SndBuf, &BACKLOG);
        }
        programs.set_capture(true).map_err(io::Error::other)?;
        self.all.push(Capture { connection, user, lanes, snaplen: snaplen as usize, stream });
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

/// Whether there is a place for a capture beside those that run, each with its user; if not, the
/// reason.
fn has_place(running: &[(ConnectionId, u32)], (connection, user): (ConnectionId, u32)) -> Result<(), &'static str> {
    let number = |counts: &dyn Fn(u32) -> bool| running.iter().filter(|&&(_, other)| counts(other)).count();
    if running.iter().any(|&(other, _)| other == connection) {
        Err("this connection has a capture already")
    } else if running.len() >= MAX_CAPTURES || user != 0 && number(&|other| other != 0) >= MAX_CAPTURES - FOR_ROOT {
        Err("too many captures run already")
    } else if user != 0 && number(&|other| other == user) >= MAX_OF_USER {
        Err("too many captures of this user run already")
    } else {
        Ok(())
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

    /// Begins a capture where there is a place.
    fn begin(running: &mut Vec<(ConnectionId, u32)>, capture: (ConnectionId, u32)) -> bool {
        let has_place = has_place(running, capture).is_ok();
        running.extend(has_place.then_some(capture));
        has_place
    }

    #[test]
    fn a_connection_has_one_capture_and_a_user_few() {
        let mut running = Vec::new();
        assert!(begin(&mut running, (1, 1000)));
        assert!(!begin(&mut running, (1, 1000)), "the connection's second one");
        assert!(begin(&mut running, (2, 1000)));
        assert!(!begin(&mut running, (3, 1000)), "the user's third one");
        assert!(begin(&mut running, (4, 1001)), "another user's");
    }

    #[test]
    fn users_leave_places_for_root() {
        let mut running = Vec::new();
        let begun = (0..20).filter(|&n| begin(&mut running, (n, 1000 + n as u32))).count();
        assert_eq!(begun, MAX_CAPTURES - FOR_ROOT);
        let begun = (100..120).filter(|&n| begin(&mut running, (n, 0))).count();
        assert_eq!(begun, FOR_ROOT);
        running.clear();
        assert!((0..MAX_CAPTURES as u64).all(|n| begin(&mut running, (n, 0))), "root may have them all");
        assert!(!begin(&mut running, (100, 0)));
    }

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
