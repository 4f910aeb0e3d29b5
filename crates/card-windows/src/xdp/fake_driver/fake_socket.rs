//! Sockets, as a card has them.

use super::super::driver::{DriverCode, RingKind, SocketRole, SocketStatistics, XdpSocket};
use super::super::frame_memory::FrameMemory;
use super::super::ring::{ConsumerEnd, ProducerEnd};
use super::super::xsk_ring::XskRing;
use super::super::xsk_ring::owned::OwnedRing;
use super::FakeNetwork;
use super::network::{DriverEnds, FakeCall, SocketState};
use std::sync::Arc;

/// Errors of Windows that the driver gives.
const NOT_FOUND: DriverCode = DriverCode(1168);
const BAD_STATE: DriverCode = DriverCode(5023);
pub(super) const BAD_PARAMETER: DriverCode = DriverCode(87);

/// A socket of the stand-in.
pub struct FakeSocket {
    pub(super) network: FakeNetwork,
    pub(super) number: u64,
}

impl FakeSocket {
    fn change<T>(
        &self,
        call: FakeCall,
        change: impl FnOnce(&mut SocketState) -> Result<T, DriverCode>,
    ) -> Result<T, DriverCode> {
        self.network.change(|state| {
            state.call(call)?;
            change(state.sockets.get_mut(&self.number).ok_or(BAD_STATE)?)
        })
    }
}

impl XdpSocket for FakeSocket {
    fn register(&mut self, memory: &Arc<FrameMemory>) -> Result<(), DriverCode> {
        self.network.change(|state| state.memories.push(Arc::downgrade(memory)));
        self.change(FakeCall::Register, |socket| {
            // (Up to version 1.3.)
            if socket.bound.is_some() {
                return Err(BAD_STATE);
            }
            socket.memory = Some(Arc::clone(memory));
            Ok(())
        })
    }

    fn set_ring_size(&mut self, ring: RingKind, size: u32) -> Result<(), DriverCode> {
        self.change(FakeCall::SetRingSize, |socket| {
            let words = if matches!(ring, RingKind::Fill | RingKind::Completion) { 1 } else { 2 };
            socket.rings.insert(ring, OwnedRing::new(size, words));
            Ok(())
        })
    }

    fn bind(&mut self, interface: u32, queue: u32, role: SocketRole) -> Result<(), DriverCode> {
        let queues = self.network.state().nics.get(&interface).map(|nic| nic.queues);
        self.change(FakeCall::Bind, |socket| {
            let queues = queues.ok_or(NOT_FOUND)?;
            // Whether there is such a queue to receive is found out when a program is attached.
            if queue >= queues && role != SocketRole::Receive {
                return Err(BAD_PARAMETER);
            }
            socket.bound = Some((interface, queue, role));
            Ok(())
        })
    }

    fn activate(&mut self) -> Result<(), DriverCode> {
        self.change(FakeCall::Activate, |socket| {
            let ring = |kind| socket.rings.get(&kind).ok_or(BAD_STATE);
            socket.memory.as_ref().ok_or(BAD_STATE)?;
            let (_, _, role) = socket.bound.ok_or(BAD_STATE)?;
            socket.ends = Some(match role {
                SocketRole::Receive => DriverEnds::Receive {
                    fill: ConsumerEnd::new(ring(RingKind::Fill)?.view()),
                    received: ProducerEnd::new(ring(RingKind::Receive)?.view()),
                },
                SocketRole::Transmit | SocketRole::GiveBack => DriverEnds::Transmit {
                    transmit: ConsumerEnd::new(ring(RingKind::Transmit)?.view()),
                    completed: ProducerEnd::new(ring(RingKind::Completion)?.view()),
                },
            });
            Ok(())
        })?;
        self.network.change(|state| state.set_poke(state.needs_poke));
        Ok(())
    }

    fn address_ring(&mut self, ring: RingKind, _: u32) -> Result<Option<XskRing<1>>, DriverCode> {
        self.change(FakeCall::Rings, |socket| Ok(socket.rings.get(&ring).map(OwnedRing::view)))
    }

    fn frame_ring(&mut self, ring: RingKind, _: u32) -> Result<Option<XskRing<2>>, DriverCode> {
        self.change(FakeCall::Rings, |socket| Ok(socket.rings.get(&ring).map(OwnedRing::view)))
    }

    fn poke(&mut self, _: RingKind) -> Result<(), DriverCode> {
        self.network.change(|state| state.poke(self.number))
    }

    fn ring_error(&self, _: RingKind) -> Result<u32, DriverCode> {
        self.network.state().sockets.get(&self.number).map(|socket| socket.error).ok_or(BAD_STATE)
    }

    fn statistics(&self) -> Result<SocketStatistics, DriverCode> {
        self.network.state().sockets.get(&self.number).map(|socket| socket.statistics).ok_or(BAD_STATE)
    }
}

impl Drop for FakeSocket {
    fn drop(&mut self) {
        self.network.change(|state| state.sockets.remove(&self.number));
    }
}
