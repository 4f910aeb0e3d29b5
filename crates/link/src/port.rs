//! The program's side of a lane's rings, coupled to a stack.
//!
//! Everything but [`Port::quiet`], [`Port::unsent`], [`Port::kick_due`], [`Port::kick`] and [`Port::statistics`] is to be called under the lane's lock. A port keeps no state of its own
//! (the rings have it), so a forked child goes on with its copy.

use crate::bulk::{Bulk, Load, Sent};
use crate::ring::{Desc, DescCell, Ring, Writer};
use crate::xsk::{self, RingSizes, XskStatistics};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use tickwire_stack::frame::{FRAME_SIZE, FrameId};
use tickwire_stack::time::Instant;
use tickwire_stack::{Stack, Transmit};

/// The most packets that one poll takes in, so that a flood leaves time for sending.
const RX_BATCH: u32 = 64;

/// The most completions that one poll takes.
const COMPLETION_BATCH: u32 = 256;

/// From how many frames on packets go by the bulk device. A shorter train costs less than its packets one by one, too, but none of them arrives before all have
/// been made: with 3 frames, messages of 20 and 640 KB over a cable that loses took a tenth longer than by the rings; with 24 as long, and a stream is as quick with either.
const BULK_FROM: usize = 24;

/// The most system calls of one kick. The kernel sends some 32 packets each.
const KICKS: u32 = 128;

/// The rings of a lane in one process.
#[derive(Debug)]
pub struct Port {
    socket: OwnedFd,
    rx: Ring<DescCell>,
    tx: Ring<DescCell>,
    fill: Ring<AtomicU64>,
    completion: Ring<AtomicU64>,
    bulk: Option<Bulk>,
}

/// What a poll found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Polled {
    /// Frames received.
    pub received: u32,
    /// Frames that the kernel has sent.
    pub completed: u32,
}

/// A frame that the kernel has filled: a packet, or a piece of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// The frame.
    pub frame: FrameId,
    /// Where the bytes start in it.
    pub offset: u16,
    /// How many there are.
    pub len: u16,
    /// Whether the packet goes on in the next frame.
    pub more: bool,
}

/// Packets on their way into the transmit ring.
#[must_use = "packets that are not submitted are not sent"]
pub struct Transmission<'p>(Writer<'p, DescCell>);

impl Transmission<'_> {
    /// Puts in one packet, or a piece of one; `false` if the ring is full. The kernel waits for the rest of a packet. No piece is empty:
    /// the kernel drops such a descriptor with the packet it belongs to, and never completes its frame.
    pub fn put(&mut self, packet: Transmit) -> bool {
        debug_assert!(packet.len > 0, "a piece without a byte, frame {}", packet.frame);
        let address = address(packet.frame) + u64::from(packet.offset);
        let options = if packet.more { libc::XDP_PKT_CONTD } else { 0 };
        self.0.put(Desc { address, len: packet.len.into(), options })
    }

    /// Hands them over and says how many there were.
    pub fn submit(self) -> u32 {
        self.0.submit()
    }
}

/// How a kick ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kicked {
    /// The kernel has taken all there was.
    Done,
    /// The device's queue is full: packets are left in the ring, and a later kick sends them.
    Busy,
}

impl Port {
    /// Maps the rings of an AF_XDP socket that was made with these sizes.
    ///
    /// # Errors
    /// If it is no such socket; `ResourceBusy` if it is bound already and the kernel (before Linux 6.4) lets nobody map its rings then.
    pub fn attach(socket: OwnedFd, sizes: RingSizes) -> io::Result<Self> {
        let fd = socket.as_fd();
        let offsets = xsk::offsets(fd)?;
        let place = |value: u64| i64::try_from(value).map_err(io::Error::other);
        let rx = Ring::map(fd, libc::XDP_PGOFF_RX_RING, &offsets.rx, sizes.rx)?;
        let tx = Ring::map(fd, libc::XDP_PGOFF_TX_RING, &offsets.tx, sizes.tx)?;
        let fill = Ring::map(fd, place(libc::XDP_UMEM_PGOFF_FILL_RING)?, &offsets.fr, sizes.fill)?;
        let completion = Ring::map(fd, place(libc::XDP_UMEM_PGOFF_COMPLETION_RING)?, &offsets.cr, sizes.completion)?;
        Ok(Self { socket, rx, tx, fill, completion, bulk: None })
    }

    /// The same, with a bulk device beside the rings.
    #[must_use]
    pub fn with_bulk(self, bulk: Bulk) -> Self {
        Self { bulk: Some(bulk), ..self }
    }

    /// Whether nothing has been received. A guess without the lock, for polling threads.
    #[must_use]
    pub fn quiet(&self) -> bool {
        self.rx.filled(Relaxed) == 0
    }

    /// Whether packets that were handed over still wait for the kernel: time for another [`Port::kick`].
    #[must_use]
    pub fn unsent(&self) -> bool {
        self.tx.filled(Relaxed) != 0
    }

    /// Takes in what has come, takes back what was sent, and gives the kernel free frames.
    pub fn poll(&self, stack: &mut Stack<'_>, now: Instant) -> Polled {
        stack.bulk_recover();
        // A wild address names no frame that is in the kernel, and is counted by the stack.
        let completed = self.completed(|frame| stack.completed(frame));
        stack.batch_begin(self.rx.filled(Relaxed));
        let received = self.receive(|f| stack.ingress(now, f.frame, f.offset, f.len, f.more));
        stack.batch_end(now);
        self.refill(|| stack.refill());
        Polled { received, completed }
    }

    /// Whether there is something that the bulk device may be worth: enough of streams. Nothing overtakes what waits in the ring; what has left either way goes through
    /// the same devices.
    #[must_use]
    pub fn has_load(&self, stack: &Stack<'_>) -> bool {
        self.bulk.is_some() && stack.stream_len() >= BULK_FROM && !self.unsent() && !stack.egress_is_cut()
    }

    /// Takes packets of streams out of the stack that are to go by the bulk device, if [`Port::has_load`] and it is worth it; [`Port::carry`] sends them, and
    /// [`Port::carried`] is to follow. None before [`Port::flush_prompt`], if there is something for that.
    pub fn load(&self, stack: &mut Stack<'_>) -> Option<Load> {
        if !self.has_load(stack) {
            return None;
        }
        let mut load = Load::new();
        stack.bulk_begin(|packet| load.put(packet));
        if load.is_worth_it(stack) {
            return Some(load);
        }
        self.carried(stack, &load, Sent::NOTHING);
        None
    }

    /// Sends what was taken, train by train until `enough`. The only call of the bulk device; nothing changes meanwhile.
    #[must_use]
    pub fn carry(&self, stack: &Stack<'_>, load: &Load, enough: impl Fn() -> bool) -> Sent {
        self.bulk.as_ref().map_or(Sent::NOTHING, |bulk| bulk.send(stack, load.packets(), enough))
    }

    /// Tells the stack what has gone. What has not stays where it was, or goes into the ring if the device does not take it.
    pub fn carried(&self, stack: &mut Stack<'_>, load: &Load, sent: Sent) {
        let (gone, left) = load.packets().split_at(sent.gone);
        if sent.fails {
            left.iter().for_each(|&packet| stack.bulk_refused(packet));
        } else {
            stack.bulk_return(left.iter().map(|packet| packet.frame));
        }
        stack.bulk_end(gone.iter().copied());
        if sent.fails && !left.is_empty() {
            // The ring is empty, and longer than a load.
            let mut transmission = self.transmission();
            for &packet in left {
                transmission.put(packet);
            }
            transmission.submit();
        }
    }

    /// Hands over what the stack has to send by the ring. Says whether a [`Port::kick`] is due, which is best done after the lock was released.
    pub fn flush(&self, stack: &mut Stack<'_>, now: Instant) -> bool {
        if stack.has_egress() {
            let mut transmission = self.transmission();
            stack.egress(now, |packet| transmission.put(packet));
            transmission.submit();
        }
        self.kick_due()
    }

    /// The same of what is not of streams, while [`Port::has_load`].
    pub fn flush_prompt(&self, stack: &mut Stack<'_>) -> bool {
        let mut transmission = self.transmission();
        stack.egress_prompt(|packet| transmission.put(packet));
        transmission.submit();
        self.kick_due()
    }

    /// Without a stack: takes the frames that the kernel has filled. What is in them, and the bounds, is not to be trusted.
    pub fn receive(&self, mut take: impl FnMut(Received)) -> u32 {
        self.rx.consume(RX_BATCH, |desc| {
            let (frame, offset) = split(desc.address);
            // A length that no frame can have stays one, and is refused by whoever checks bounds.
            let len = u16::try_from(desc.len).unwrap_or(u16::MAX);
            take(Received { frame, offset, len, more: desc.options & libc::XDP_PKT_CONTD != 0 });
        })
    }

    /// Without a stack: takes back the frames that the kernel has sent.
    pub fn completed(&self, mut take: impl FnMut(FrameId)) -> u32 {
        self.completion.consume(COMPLETION_BATCH, |address| take(split(address).0))
    }

    /// Without a stack: gives the kernel free frames for as long as there are some and the ring has room.
    pub fn refill(&self, mut next: impl FnMut() -> Option<FrameId>) -> u32 {
        self.fill.produce(|| next().map(address))
    }

    /// Packets to be put into the transmit ring together.
    pub fn transmission(&self) -> Transmission<'_> {
        Transmission(self.tx.writer())
    }

    /// Whether packets wait for a [`Port::kick`].
    #[must_use]
    pub fn kick_due(&self) -> bool {
        self.unsent() && self.tx.wants_kick()
    }

    /// Makes the kernel send what is in the transmit ring. With [`Port::carry`]'s, the only system call of the data path.
    ///
    /// # Errors
    /// If the lane's device is gone or down (`ENETDOWN`, `ENXIO`).
    pub fn kick(&self) -> io::Result<Kicked> {
        for _ in 0..KICKS {
            // SAFETY: no memory is passed.
            let sent = unsafe {
                let nothing = std::ptr::null::<u8>();
                libc::syscall(libc::SYS_sendto, self.socket.as_raw_fd(), nothing, 0, libc::MSG_DONTWAIT, nothing, 0)
            };
            if sent >= 0 {
                return Ok(Kicked::Done);
            }
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                // As many as it does in one call: the rest.
                Some(libc::EAGAIN | libc::EINTR) if self.unsent() => {}
                Some(libc::EAGAIN | libc::EINTR) => return Ok(Kicked::Done),
                Some(libc::EBUSY | libc::ENOBUFS) => return Ok(Kicked::Busy),
                _ => return Err(error),
            }
        }
        Ok(Kicked::Busy)
    }

    /// What the kernel has counted about the rings.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn statistics(&self) -> io::Result<XskStatistics> {
        xsk::statistics(self.socket.as_fd())
    }
}

impl AsFd for Port {
    /// The AF_XDP socket: readable when something was received.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The address of a frame's first byte in the UMEM.
fn address(frame: FrameId) -> u64 {
    u64::from(frame) * FRAME_SIZE as u64
}

/// The frame of an address, and the place in it. An address outside of all frames yields a frame that does not exist.
fn split(address: u64) -> (FrameId, u16) {
    let frame = FrameId::try_from(address / FRAME_SIZE as u64).unwrap_or(FrameId::MAX);
    (frame, (address % FRAME_SIZE as u64) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_frames_and_wild_ones_name_none() {
        assert_eq!(split(address(5) + 256), (5, 256));
        assert_eq!(split(u64::MAX).0, FrameId::MAX);
        assert_eq!(split(2047), (0, 2047));
    }
}
