//! What a card needs of the driver: handles, each with a filter.

use super::batch::{OutgoingBatch, ReceivedBatch};
use super::error::WinDivertError;
use crate::card::CardWaker;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// What a handle has received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reception {
    /// Packets, which are in the batch.
    Packets,
    /// A packet that is lost, because there was no room for all of it. Others may follow.
    Truncated,
    /// Nothing yet.
    Nothing,
    /// Nothing, and nothing will follow: the handle was told to stop.
    Ended,
}

/// A handle: it takes the packets that its filter describes from the kernel.
pub trait DivertHandle: Send {
    /// Takes what has been received into a batch, in order.
    ///
    /// # Errors
    /// If the driver is gone.
    fn receive(&mut self, batch: &mut ReceivedBatch) -> io::Result<Reception>;

    /// Sends packets: outbound ones to the network, others to the kernel, as if they had arrived.
    ///
    /// # Errors
    /// If at least one of them could not be sent.
    fn send(&mut self, batch: &OutgoingBatch) -> io::Result<()>;

    /// From now on it takes no packets. Those that it has taken can be received.
    fn stop(&mut self);
}

/// Opens a handle on any thread.
pub type Opener<H> = Box<dyn FnOnce(&str) -> Result<H, WinDivertError> + Send>;

/// The driver.
pub trait DivertDriver: Send {
    /// Its handles.
    type Handle: DivertHandle + 'static;

    /// Opens a handle.
    ///
    /// # Errors
    /// Why the driver refuses that.
    fn open(&mut self, filter: &str) -> Result<Self::Handle, WinDivertError> {
        self.opener()(filter)
    }

    /// What opens a handle, which may take the driver milliseconds.
    fn opener(&self) -> Opener<Self::Handle>;

    /// Sleeps until one of the handles has received something, the waker is used, or for so long.
    fn wait(&mut self, handles: &[Self::Handle], time: Duration);

    /// What ends [`DivertDriver::wait`].
    fn waker(&self) -> Arc<dyn CardWaker>;
}
