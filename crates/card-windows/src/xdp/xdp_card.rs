//! A network card by XDP: the driver redirects the packets of claimed ports to rings, and takes
//! back what is no lane's.
//!
//! Each receive queue has a socket and a program of rules. The rules look at sets of ports in this
//! process's memory, so a port is claimed by setting a bit. Rules for TCP have an address, so there
//! are new programs when addresses change, and the old ones go after that. While no port is claimed
//! there is no program, and no packet of the host takes this way.
//!
//! No rule matches the later fragments of a datagram of IPv4, unless it matches all of UDP. So that
//! is the rule for a while after the first fragment of a claimed port has come; what is not claimed
//! is given back. The first datagrams are lost.
//!
//! What is given back enters the kernel above the rules, so it is not seen again. It has no more of
//! what the network card knew about it: the kernel verifies its checksum.

use super::driver::{SocketRole, XdpDriver};
use super::error::{XdpCardEnd, XdpError};
use super::frame_memory::chunk_for;
use super::port_sets::PortSets;
use super::receiver::{XdpReceiver, open_receivers};
use super::redirection::{first_fragment_of, redirected};
use super::transmitter::{NoTransmitter, XdpTransmitter};
use crate::card::{CardClock, CardLosses, CardWaker, LONGEST_FRAME, NicDescription, PacketCard, ReceivedFrame};
use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant as SystemInstant};
use tickwire_stack::addr::Address;
use tickwire_stack::time::Instant;
use tickwire_stack::{Checksum, ReceiveMetadata};
use tickwire_steer::tables::{NicIndex, Protocol};

/// Frames that a transmit queue has room for.
const TRANSMIT_FRAMES: u32 = 512;

/// So many frames are taken from a queue before it is the next one's turn.
const TURN: u32 = 32;

/// For so long there are programs after the last port was released; and so often they are tried
/// again.
const SETTLE: Duration = Duration::from_secs(1);

/// For so long after a first fragment all of UDP is taken.
const FRAGMENTS_EXPECTED: Duration = Duration::from_secs(30);

/// A card.
pub struct XdpCard<D: XdpDriver> {
    // Programs go before the sockets to which they redirect.
    programs: Vec<D::Program>,
    receivers: Vec<XdpReceiver<D::Socket>>,
    transmitter: XdpTransmitter<D::Socket>,
    give_back: XdpTransmitter<D::Socket>,
    driver: D,
    nic: NicDescription,
    clock: CardClock,
    ports: Arc<PortSets>,
    claimed: BTreeSet<(Protocol, u16)>,
    addresses: Vec<Address>,
    /// The programs are not those of the addresses.
    is_stale: bool,
    /// When the programs were last changed, or could not be.
    changed: SystemInstant,
    /// When the last first fragment of a claimed port has come, while all of UDP is taken.
    fragmented: Option<SystemInstant>,
    /// The queue whose turn it is, and how many frames it has given in this turn.
    queue: usize,
    given: u32,
    frame: Box<[u8]>,
    /// The length of the frame that was received last; 0: none, or it was given back.
    length: usize,
    /// When what is being received was seen.
    seen: Instant,
    /// Lost on the way out since the last flush.
    unsent: u64,
}

impl<D: XdpDriver> XdpCard<D> {
    /// A card that takes no packets yet.
    ///
    /// # Errors
    /// Why there is none.
    pub fn open(mut driver: D, nic: NicDescription, clock: CardClock) -> Result<Self, XdpError> {
        let (chunk, index) = (chunk_for(nic.mtu), nic.index);
        let receivers = open_receivers(&mut driver, index, chunk)?;
        let mut transmitter = |role, queue| {
            let socket = driver.open_socket().map_err(XdpError::of_open)?;
            XdpTransmitter::open(socket, role, (index, queue), (chunk, TRANSMIT_FRAMES)).map_err(|error| match error {
                NoTransmitter::Bind(code) if role == SocketRole::GiveBack => XdpError::GiveBack { code },
                NoTransmitter::Bind(code) => XdpError::of_bind(code, index),
                NoTransmitter::Other(error) => error,
            })
        };
        let give_back = transmitter(SocketRole::GiveBack, 0)?;
        let transmitter = transmitter(SocketRole::Transmit, 0)?;
        let mut card = Self {
            programs: Vec::new(),
            receivers,
            transmitter,
            give_back,
            driver,
            nic,
            clock,
            ports: Arc::default(),
            claimed: BTreeSet::new(),
            addresses: Vec::new(),
            is_stale: false,
            changed: SystemInstant::now(),
            fragmented: None,
            queue: 0,
            given: 0,
            frame: vec![0; LONGEST_FRAME].into(),
            length: 0,
            seen: (clock.now)(),
            unsent: 0,
        };
        // To find out whether the driver takes such rules. They match nothing, as no port is
        // claimed; except ICMP, which is given back for a moment.
        card.install()?;
        card.programs.clear();
        Ok(card)
    }

    /// How many receive queues are served.
    #[must_use]
    pub fn queues(&self) -> usize {
        self.receivers.len()
    }

    /// Makes the programs of all queues; those that there were go after that.
    fn install(&mut self) -> Result<(), XdpError> {
        (self.is_stale, self.changed) = (true, SystemInstant::now());
        let rules = redirected(&self.addresses, self.fragmented.is_some());
        let Self { driver, receivers, ports, nic, .. } = self;
        let program = |(queue, receiver): (usize, &XdpReceiver<_>)| {
            driver.open_program(nic.index, queue as u32, &rules, ports, receiver.target())
        };
        let programs: Result<_, _> = receivers.iter().enumerate().map(program).collect();
        self.programs = programs.map_err(|code| XdpError::Refused { step: "apply rules to what arrives", code })?;
        self.is_stale = false;
        Ok(())
    }

    /// Tries again what the driver has refused, and removes programs that are not needed.
    fn tidy(&mut self) {
        if self.changed.elapsed() < SETTLE {
            return;
        }
        if self.fragmented.is_some_and(|last| last.elapsed() >= FRAGMENTS_EXPECTED) {
            (self.fragmented, self.is_stale) = (None, true);
        }
        if self.claimed.is_empty() {
            self.programs.clear();
        } else if self.is_stale {
            // If that fails, connections to new addresses stay the kernel's.
            let _ = self.install();
        }
    }

    /// Has all of UDP taken if this is the first fragment of a datagram for a claimed port.
    fn expect_fragments(&mut self, length: usize) {
        let is_claimed = |port| self.ports.contains(Protocol::Udp, port);
        if !first_fragment_of(&self.frame[..length]).is_some_and(is_claimed) {
            return;
        }
        let is_new = self.fragmented.replace(SystemInstant::now()).is_none();
        if is_new {
            // If that fails it is tried again later.
            let _ = self.install();
        }
    }

    fn next_frame(&mut self) -> Result<Option<usize>, XdpCardEnd> {
        for _ in 0..=self.receivers.len() {
            if self.given < TURN
                && let Some(frame) = self.receivers[self.queue].receive(&mut self.frame)?
            {
                self.given += 1;
                if frame.is_first {
                    self.seen = (self.clock.now)();
                }
                self.expect_fragments(frame.length);
                return Ok(Some(frame.length));
            }
            (self.queue, self.given) = ((self.queue + 1) % self.receivers.len(), 0);
        }
        self.receivers.iter_mut().try_for_each(XdpReceiver::check)?;
        self.transmitter.check()?;
        self.give_back.check()?;
        Ok(None)
    }
}

impl<D: XdpDriver> PacketCard for XdpCard<D> {
    fn nic(&self) -> NicIndex {
        self.nic.index
    }

    fn receive(&mut self) -> io::Result<Option<ReceivedFrame<'_>>> {
        self.length = 0;
        let Some(length) = self.next_frame()? else { return Ok(None) };
        self.length = length;
        let packet = ReceiveMetadata {
            len: length as u32,
            segment: 0,
            checksum: Checksum::Unknown,
            at: self.seen,
            interface: self.nic.index,
        };
        Ok(Some(ReceivedFrame { bytes: &self.frame[..length], packet, tag: None }))
    }

    fn pass(&mut self) -> io::Result<()> {
        let length = std::mem::take(&mut self.length);
        if length == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        self.unsent += u64::from(!self.give_back.send(&self.frame[..length])?);
        Ok(())
    }

    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        let has_room = self.transmitter.send(frame)?;
        if has_room { Ok(()) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    fn flush(&mut self) -> u64 {
        // A card that is gone says so when it is received from.
        let _ = (self.transmitter.flush(), self.give_back.flush());
        std::mem::take(&mut self.unsent)
    }

    fn losses(&self) -> CardLosses {
        let receivers = self.receivers.iter().map(XdpReceiver::counters);
        let all = receivers.chain([self.transmitter.counters(), self.give_back.counters()]);
        all.fold(CardLosses::default(), |sum, (driver, malformed)| CardLosses {
            malformed: sum.malformed + malformed + driver.refused_chunks + driver.refused_frames,
            truncated: sum.truncated + driver.truncated,
            no_room: sum.no_room + driver.no_room,
            ..sum
        })
    }

    fn set_claimed(&mut self, protocol: Protocol, port: u16, is_claimed: bool) -> io::Result<()> {
        self.ports.set(protocol, port, is_claimed);
        if !is_claimed {
            self.claimed.remove(&(protocol, port));
            self.changed = SystemInstant::now();
            return Ok(());
        }
        self.claimed.insert((protocol, port));
        if !self.programs.is_empty() {
            return Ok(());
        }
        self.install().map_err(|error| {
            self.ports.set(protocol, port, false);
            self.claimed.remove(&(protocol, port));
            io::Error::other(error)
        })
    }

    fn set_addresses(&mut self, addresses: &mut dyn Iterator<Item = Address>) -> io::Result<()> {
        let before = std::mem::replace(&mut self.addresses, addresses.collect());
        // Something else of the host may have changed.
        let is_same = self.addresses == before && !self.is_stale;
        if self.programs.is_empty() || is_same {
            return Ok(());
        }
        self.install().map_err(io::Error::other)
    }

    fn wait(&mut self, time: Duration) {
        self.tidy();
        let mut sockets = self.receivers.iter_mut().map(XdpReceiver::socket);
        self.driver.wait(&mut sockets, time);
    }

    fn waker(&self) -> Arc<dyn CardWaker> {
        self.driver.waker()
    }
}

#[cfg(test)]
mod tests;
