//! No driver: a card that has no packets. The service that has it serves programs whose sockets all
//! stay on the kernel.

use crate::card::{CardWaker, NicDescription, PacketCard, ReceivedFrame};
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;
use tickwire_steer::tables::{NicIndex, Protocol};

/// A card without a driver.
#[derive(Debug)]
pub struct CardWithoutDriver {
    nic: NicDescription,
    woken: Receiver<()>,
    waker: Arc<Waker>,
}

impl CardWithoutDriver {
    /// For this card.
    #[must_use]
    pub fn new(nic: NicDescription) -> Self {
        let (wake, woken) = sync_channel(1);
        Self { nic, woken, waker: Arc::new(Waker(wake)) }
    }
}

fn no_driver() -> io::Error {
    io::Error::other("there is no driver")
}

impl PacketCard for CardWithoutDriver {
    fn nic(&self) -> NicIndex {
        self.nic.index
    }

    fn has_driver(&self) -> bool {
        false
    }

    fn receive(&mut self) -> io::Result<Option<ReceivedFrame<'_>>> {
        Ok(None)
    }

    fn pass(&mut self) -> io::Result<()> {
        Ok(())
    }

    fn send(&mut self, _frame: &[u8]) -> io::Result<()> {
        Err(no_driver())
    }

    fn set_claimed(&mut self, _protocol: Protocol, _port: u16, is_claimed: bool) -> io::Result<()> {
        if is_claimed { Err(no_driver()) } else { Ok(()) }
    }

    fn wait(&mut self, time: Duration) {
        // (Its own sender is always there.)
        let _ = self.woken.recv_timeout(time);
    }

    fn waker(&self) -> Arc<dyn CardWaker> {
        Arc::clone(&self.waker) as Arc<dyn CardWaker>
    }
}

#[derive(Debug)]
struct Waker(SyncSender<()>);

impl CardWaker for Waker {
    fn wake(&self) {
        // One that is there already is enough.
        let _ = self.0.try_send(());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::Mac;

    #[test]
    fn it_has_no_packets_takes_none_and_can_be_woken() {
        let nic = NicDescription { index: 3, mac: Mac([2, 0, 0, 0, 0, 1]), mtu: 1500 };
        let mut card = CardWithoutDriver::new(nic);
        assert!(card.nic() == 3 && !card.has_driver());
        assert!(matches!(card.receive(), Ok(None)) && card.send(&[0; 64]).is_err());
        assert!(card.set_claimed(Protocol::Tcp, 7, true).is_err() && card.set_claimed(Protocol::Tcp, 7, false).is_ok());
        let waker = card.waker();
        waker.wake();
        waker.wake();
        // Without end, if it were not woken.
        card.wait(Duration::from_secs(1 << 32));
        card.wait(Duration::ZERO);
    }
}
