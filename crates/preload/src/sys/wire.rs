//! The source and sink of the stack's packets: the lane's ring and TAP device; in tests, another
//! stack.

use crate::sys;
use core::ffi::c_int;
use std::io;
use tickwire_lane::record_ring::RecordRing;
use tickwire_lane_linux::mapped_ring::MappedRing;
use tickwire_lane_linux::port::Port;
use tickwire_lane_linux::region::Region;
use tickwire_stack::Stack;
use tickwire_stack::time::Instant;

/// Carries packets between a stack and a test's peer; returns how many came in.
#[cfg(any(test, fuzzing))]
pub(crate) type Exchange = Box<dyn FnMut(&mut Stack<'static>, Instant) -> u32 + Send>;

/// The lane's ring and TAP device.
pub(crate) enum Wire {
    Port(&'static Port),
    #[cfg(any(test, fuzzing))]
    Test(Exchange),
}

impl Wire {
    /// Maps the receive ring of the lane.
    ///
    /// # Errors
    /// As [`MappedRing::map`].
    pub(crate) fn attach(ring: c_int, tap: c_int, region: &Region) -> io::Result<Self> {
        let rx = RecordRing::new(MappedRing::map(sys::owned(ring), region.ring())?);
        Ok(Self::Port(Box::leak(Box::new(Port::new(rx, sys::owned(tap))))))
    }

    /// The port, which may be read without the lock.
    pub(crate) fn port(&self) -> Option<&'static Port> {
        match self {
            Self::Port(port) => Some(port),
            #[cfg(any(test, fuzzing))]
            Self::Test(_) => None,
        }
    }

    /// Takes in the received packets, and returns how many there were.
    pub(crate) fn poll(&mut self, stack: &mut Stack<'static>, now: Instant) -> u32 {
        match self {
            Self::Port(port) => port.poll(stack, now),
            #[cfg(any(test, fuzzing))]
            Self::Test(exchange) => exchange(stack, now),
        }
    }
}
