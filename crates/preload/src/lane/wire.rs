//! Where the stack's packets come from and go to: the lane's rings; in tests, another stack.

use core::ffi::c_int;
use std::io;
use tickwire_link::bulk::{Bulk, Load};
use tickwire_link::port::Port;
use tickwire_link::region::Region;
use tickwire_stack::Stack;
use tickwire_stack::time::Instant;

/// Carries packets between a stack and whatever a test put behind it; says how many came in.
#[cfg(any(test, fuzzing))]
pub(crate) type Exchange = Box<dyn FnMut(&mut Stack<'static>, Instant) -> u32 + Send>;

/// The rings.
pub(crate) enum Wire {
    Ring(&'static Port),
    #[cfg(any(test, fuzzing))]
    Test(Exchange),
}

impl Wire {
    /// Maps the rings of the lane's socket; `bulk` is the lane's bulk device, if it has one.
    ///
    /// # Errors
    /// As [`Port::attach`].
    pub(crate) fn attach(ring: c_int, bulk: Option<c_int>, region: &Region) -> io::Result<Self> {
        let mut port = Port::attach(crate::c::shared::own(ring), region.rings())?;
        if let Some(bulk) = bulk {
            port = port.with_bulk(Bulk::new(crate::c::shared::own(bulk)));
        }
        Ok(Self::Ring(Box::leak(Box::new(port))))
    }

    /// The rings, which may be looked at and kicked without the lock.
    pub(crate) fn port(&self) -> Option<&'static Port> {
        match self {
            Self::Ring(port) => Some(port),
            #[cfg(any(test, fuzzing))]
            Self::Test(_) => None,
        }
    }

    /// Takes in what has come, and says how many frames that was.
    pub(crate) fn poll(&mut self, stack: &mut Stack<'static>, now: Instant) -> u32 {
        match self {
            Self::Ring(port) => port.poll(stack, now).received,
            #[cfg(any(test, fuzzing))]
            Self::Test(exchange) => exchange(stack, now),
        }
    }

    /// Whether there is something that the bulk device may be worth.
    pub(crate) fn has_load(&self, stack: &Stack<'static>) -> bool {
        self.port().is_some_and(|port| port.has_load(stack))
    }

    /// Hands over what is not of streams by the rings; says whether the kernel must be told.
    pub(crate) fn flush_prompt(&self, stack: &mut Stack<'static>) -> bool {
        self.port().is_some_and(|port| port.flush_prompt(stack))
    }

    /// Whether packets wait for a kick.
    pub(crate) fn kick_due(&self) -> bool {
        self.port().is_some_and(Port::kick_due)
    }

    /// Takes what is to go by the bulk device.
    pub(crate) fn load(&mut self, stack: &mut Stack<'static>) -> Option<Load> {
        match self {
            Self::Ring(port) => port.load(stack),
            #[cfg(any(test, fuzzing))]
            Self::Test(_) => None,
        }
    }

    /// Hands over what is to be sent by the rings; says whether the kernel must be told.
    pub(crate) fn flush(&mut self, stack: &mut Stack<'static>, now: Instant) -> bool {
        match self {
            Self::Ring(port) => port.flush(stack, now),
            #[cfg(any(test, fuzzing))]
            Self::Test(exchange) => {
                exchange(stack, now);
                false
            }
        }
    }
}
