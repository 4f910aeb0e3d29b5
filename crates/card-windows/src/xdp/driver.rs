//! What a card needs of the driver: sockets and programs. On Windows it is the real one; in tests
//! another stands in for it.

use super::frame_memory::FrameMemory;
use super::port_sets::PortSets;
use super::xsk_ring::XskRing;
use crate::card::CardWaker;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tickwire_stack::addr::Address;

/// An error of Windows, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DriverCode(pub u32);

impl fmt::Display for DriverCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error {}", self.0)
    }
}

/// A ring of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RingKind {
    /// Chunks for frames that will be received.
    Fill,
    /// Frames that have been received.
    Receive,
    /// Frames to send.
    Transmit,
    /// Chunks of frames that have been sent.
    Completion,
}

/// What a socket does, which is fixed when it is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketRole {
    /// It receives what programs redirect to it.
    Receive,
    /// What it sends leaves by the network card.
    Transmit,
    /// What it sends goes to the kernel, as if the network card had received it.
    GiveBack,
}

/// What a driver counts for a socket (`XSK_STATISTICS`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct SocketStatistics {
    /// Received frames for which there was no room.
    pub no_room: u64,
    /// Received frames that were longer than a chunk.
    pub truncated: u64,
    /// Chunks for received frames that were refused.
    pub refused_chunks: u64,
    /// Frames to send that were refused.
    pub refused_frames: u64,
}

/// A socket of XDP (an XSK). Its memory and rings are those of the driver until it is dropped.
pub trait XdpSocket: Send {
    /// Has the driver use memory for frames. To be called before the socket is bound.
    ///
    /// # Errors
    /// Why it does not. (As for the others.)
    fn register(&mut self, memory: &Arc<FrameMemory>) -> Result<(), DriverCode>;

    /// Has the driver make a ring of so many elements, a power of two.
    ///
    /// # Errors
    /// As [`XdpSocket::register`].
    fn set_ring_size(&mut self, ring: RingKind, size: u32) -> Result<(), DriverCode>;

    /// Binds it to a receive or transmit queue of an interface. (The driver may not find out before
    /// a program is made that there is no such queue to receive.)
    ///
    /// # Errors
    /// As [`XdpSocket::register`].
    fn bind(&mut self, interface: u32, queue: u32, role: SocketRole) -> Result<(), DriverCode>;

    /// Begins its work.
    ///
    /// # Errors
    /// As [`XdpSocket::register`].
    fn activate(&mut self) -> Result<(), DriverCode>;

    /// A ring of addresses; `None`: it has another size or layout than expected.
    ///
    /// # Errors
    /// As [`XdpSocket::register`].
    fn address_ring(&mut self, ring: RingKind, size: u32) -> Result<Option<XskRing<1>>, DriverCode>;

    /// A ring of frames; `None` as with [`XdpSocket::address_ring`].
    ///
    /// # Errors
    /// As [`XdpSocket::register`].
    fn frame_ring(&mut self, ring: RingKind, size: u32) -> Result<Option<XskRing<2>>, DriverCode>;

    /// Tells the driver to look at a ring: that of frames to send, or that of chunks to fill.
    ///
    /// # Errors
    /// If the interface or the driver is gone.
    fn poke(&mut self, ring: RingKind) -> Result<(), DriverCode>;

    /// Why the driver has given up a ring (`XSK_ERROR`).
    ///
    /// # Errors
    /// As [`XdpSocket::poke`].
    fn ring_error(&self, ring: RingKind) -> Result<u32, DriverCode>;

    /// What it has counted.
    ///
    /// # Errors
    /// As [`XdpSocket::poke`].
    fn statistics(&self) -> Result<SocketStatistics, DriverCode>;
}

/// Which frames a program redirects to a socket. The first rule that matches counts; a frame that
/// none matches is the kernel's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpRule {
    /// Those of UDP to the ports of the set.
    UdpPorts,
    /// All of UDP.
    Udp,
    /// Those of TCP to an address and the ports of the set. (There is no rule without the address.)
    TcpPortsOf(Address),
    /// Those with this number behind the IP header: `Protocol` of IPv4, `Next Header` of IPv6.
    NextHeader(u8),
}

/// The driver.
pub trait XdpDriver: Send {
    /// Its sockets.
    type Socket: XdpSocket;
    /// Its programs, which look at frames until they are dropped.
    type Program: Send;

    /// Makes a socket.
    ///
    /// # Errors
    /// Why the driver refuses that.
    fn open_socket(&mut self) -> Result<Self::Socket, DriverCode>;

    /// Has the driver apply rules to what a receive queue of an interface receives. Several
    /// programs of a queue are applied in turn.
    ///
    /// # Errors
    /// Why the driver refuses that.
    fn open_program(
        &mut self,
        interface: u32,
        queue: u32,
        rules: &[XdpRule],
        ports: &Arc<PortSets>,
        target: &Self::Socket,
    ) -> Result<Self::Program, DriverCode>;

    /// Sleeps until one of the sockets has received something, the waker is used, or for so long.
    fn wait(&mut self, sockets: &mut dyn Iterator<Item = &mut Self::Socket>, time: Duration);

    /// What ends [`XdpDriver::wait`].
    fn waker(&self) -> Arc<dyn CardWaker>;
}
