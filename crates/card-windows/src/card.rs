//! What a driver has to offer: frames from and to a network card, in user mode.

use std::any::Any;
use std::io;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tickwire_stack::ReceiveMetadata;
use tickwire_stack::addr::{Address, Mac};
use tickwire_stack::time::Instant;
use tickwire_steer::tables::{NicIndex, Protocol};

/// A network card's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NicDescription {
    /// Its index.
    pub index: NicIndex,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its longest packet, without the Ethernet header.
    pub mtu: u32,
}

/// The clock by which arrivals are stamped.
#[derive(Clone, Copy, Debug)]
pub struct CardClock {
    /// The current time.
    pub now: fn() -> Instant,
    /// The time of a count of Windows' performance counter.
    pub at_count: fn(i64) -> Instant,
}

/// The longest frame: an Ethernet header and the longest IP packet, rounded up.
pub const LONGEST_FRAME: usize = 65_536 + 64;

/// A frame that a card has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedFrame<'f> {
    /// It, from its Ethernet header on.
    pub bytes: &'f [u8],
    /// Its length, arrival and checksum.
    pub packet: ReceiveMetadata,
    /// The VLAN tag that is not in the frame.
    pub tag: Option<u16>,
}

/// What a card has lost between driver and service, or has given back on its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CardLosses {
    /// Packets that were lost because they, or others that came with them, were broken.
    pub malformed: u64,
    /// Packets that had not arrived at this interface.
    pub strays: u64,
    /// Packets that were lost because the room was too small for them.
    pub truncated: u64,
    /// Packets that were lost because the driver had no room left.
    pub no_room: u64,
}

/// Work of a driver that takes time. It is done on any thread, while the card moves packets. The
/// result is for [`PacketCard::take_prepared`].
pub type SlowWork = Box<dyn FnOnce() -> io::Result<Box<dyn Any + Send>> + Send>;

/// A network card, by a driver.
pub trait PacketCard: Send {
    /// The index of its interface.
    fn nic(&self) -> NicIndex;

    /// Whether a driver gives its packets. If none does, all sockets stay on the kernel.
    fn has_driver(&self) -> bool {
        true
    }

    /// Takes the next frame that the card has received, if there is one. It is valid until the next
    /// call, and [`LONGEST_FRAME`] bytes long at most.
    ///
    /// # Errors
    /// If the card or its driver is gone.
    fn receive(&mut self) -> io::Result<Option<ReceivedFrame<'_>>>;

    /// Gives the frame that was received last back to the kernel, as if it had not been taken.
    ///
    /// # Errors
    /// As [`PacketCard::receive`].
    fn pass(&mut self) -> io::Result<()>;

    /// Sends a frame, at the latest with [`PacketCard::flush`]. If it cannot be sent it is lost, as
    /// on a wire.
    ///
    /// # Errors
    /// If the card has no room for it, or is gone.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Sends what the card has kept back, so that several frames are one call to the driver.
    /// Returns how many of them were lost. A card that keeps nothing back need not do anything.
    fn flush(&mut self) -> u64 {
        0
    }

    /// What it has lost since it was opened.
    fn losses(&self) -> CardLosses {
        CardLosses::default()
    }

    /// Lanes have claimed something of a port, or do not any more: from now on the driver is to
    /// take its packets, or to leave them to the kernel. A driver that takes all packets need not
    /// do anything.
    ///
    /// # Errors
    /// If the driver cannot do that: the port stays the kernel's.
    fn set_claimed(&mut self, protocol: Protocol, port: u16, is_claimed: bool) -> io::Result<()>;

    /// The most tests of its driver's filter that claimed ports may take: see
    /// [`DivertedPorts::tests`](crate::windivert::filter::DivertedPorts::tests). `None`: there is
    /// no such limit.
    fn most_port_tests(&self) -> Option<usize> {
        None
    }

    /// What takes time of claiming these ports. `None` if nothing does. It may be left out; then
    /// [`PacketCard::set_claimed`] takes the time.
    fn prepare(&mut self, ports: &[(Protocol, u16)]) -> Option<SlowWork> {
        let _ = ports;
        None
    }

    /// What takes time of leaving ports to the kernel that are not claimed any more: to be asked
    /// for after they have ended, and about once a second. `None` if nothing is to be done (yet).
    fn prepare_less(&mut self) -> Option<SlowWork> {
        None
    }

    /// Takes the result of such work.
    fn take_prepared(&mut self, done: Box<dyn Any + Send>) {
        drop(done);
    }

    /// Lanes will claim ports of this block, one after the other: a driver for which each is work
    /// may take the packets of all of them at once. It gives back what is no lane's.
    fn set_block(&mut self, ports: RangeInclusive<u16>) {
        let _ = ports;
    }

    /// The addresses of the interface are these. A driver whose rules have no addresses need not do
    /// anything.
    ///
    /// # Errors
    /// If the driver cannot follow yet: then packets to new addresses are the kernel's for a while.
    fn set_addresses(&mut self, _addresses: &mut dyn Iterator<Item = Address>) -> io::Result<()> {
        Ok(())
    }

    /// Sleeps until a frame has been received, the card's waker is used, or for so long.
    fn wait(&mut self, time: Duration);

    /// What ends [`PacketCard::wait`].
    fn waker(&self) -> Arc<dyn CardWaker>;
}

/// Ends a thread's sleep in [`PacketCard::wait`], now or the next one.
pub trait CardWaker: Send + Sync {
    /// Wakes it.
    fn wake(&self);
}
