//! What a driver has to offer: frames from and to a network card, in user mode.

use std::io;
use std::sync::Arc;
use std::time::Duration;
use tickwire_stack::ReceiveMetadata;
use tickwire_steer::tables::{NicIndex, Protocol};

/// What comes with a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedFrame {
    /// Its length, arrival and checksum.
    pub packet: ReceiveMetadata,
    /// The VLAN tag that is not in the frame.
    pub tag: Option<u16>,
}

/// A network card, by a driver.
pub trait PacketCard: Send {
    /// The index of its interface.
    fn nic(&self) -> NicIndex;

    /// Takes the next frame that the card has received, if there is one. It is at the beginning of
    /// `frame`, which has room for the longest.
    ///
    /// # Errors
    /// If the card or its driver is gone.
    fn receive(&mut self, frame: &mut [u8]) -> io::Result<Option<ReceivedFrame>>;

    /// Gives a received frame back to the kernel, as if it had not been taken.
    ///
    /// # Errors
    /// As [`PacketCard::receive`].
    fn pass(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Sends a frame. If it cannot be sent it is lost, as on a wire.
    ///
    /// # Errors
    /// If the card has no room for it, or is gone.
    fn send(&mut self, frame: &[u8]) -> io::Result<()>;

    /// Lanes have claimed something of a port, or do not any more: from now on the driver is to
    /// take its packets, or to leave them to the kernel. A driver that takes all packets need not
    /// do anything.
    ///
    /// # Errors
    /// If the driver cannot do that: the port stays the kernel's.
    fn set_claimed(&mut self, protocol: Protocol, port: u16, is_claimed: bool) -> io::Result<()>;

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
