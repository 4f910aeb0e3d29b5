//! Resolution of neighbours by the kernel, without waiting for it.
//!
//! `ResolveIpNetEntry2` waits for the answer, so it is called on a thread of its own. Where it is
//! missing (Wine), or all threads are in use, an empty datagram to the neighbour makes the kernel
//! resolve it: to the discard port (RFC 863), where nothing answers.

use crate::error::{IpHelperError, Result};
use crate::resolution::{ResolutionHistory, ResolutionLimits};
use crate::sys;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, SocketAddrV6, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tickwire_stack::addr::Address;

/// RFC 863.
const DISCARD_PORT: u16 = 9;

/// Whether the kernel resolves a neighbour now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResolutionStart {
    /// It was made to.
    Started,
    /// Not again yet: it was a short time ago, or too many others were.
    Limited,
}

/// Has the kernel resolve neighbours, within bounds.
#[derive(Debug)]
pub struct NeighbourResolver {
    limits: ResolutionLimits,
    history: ResolutionHistory,
    outstanding: Arc<AtomicUsize>,
}

impl NeighbourResolver {
    /// One that has resolved nothing yet.
    #[must_use]
    pub fn new(limits: ResolutionLimits) -> Self {
        Self { limits, history: ResolutionHistory::new(limits), outstanding: Arc::default() }
    }

    /// Has the kernel resolve a neighbour that it does not know. The outcome appears in its table.
    ///
    /// # Errors
    /// If neither a thread can be made nor a datagram sent.
    pub fn resolve(&mut self, interface: u32, neighbour: Address, source: Address) -> Result<ResolutionStart> {
        if !self.history.admit(interface, neighbour, Instant::now()) {
            return Ok(ResolutionStart::Limited);
        }
        if !(sys::can_resolve() && self.start_thread(interface, neighbour, source)) {
            send_empty(interface, neighbour, source)?;
        }
        Ok(ResolutionStart::Started)
    }

    /// Has the kernel confirm a neighbour that it knows but has not used for a while.
    ///
    /// This is always a datagram: `ResolveIpNetEntry2` would forget the neighbour first.
    ///
    /// # Errors
    /// If the datagram cannot be sent.
    pub fn confirm(&mut self, interface: u32, neighbour: Address, source: Address) -> Result<ResolutionStart> {
        if !self.history.admit(interface, neighbour, Instant::now()) {
            return Ok(ResolutionStart::Limited);
        }
        send_empty(interface, neighbour, source)?;
        Ok(ResolutionStart::Started)
    }

    /// How long ago the last resolution of a neighbour was started; `None` if that is long ago.
    #[must_use]
    pub fn age(&self, interface: u32, neighbour: Address) -> Option<Duration> {
        self.history.age(interface, neighbour, Instant::now())
    }

    /// Starts a thread that resolves one neighbour. False if there are as many as there may be.
    fn start_thread(&self, interface: u32, neighbour: Address, source: Address) -> bool {
        let Some(place) = Outstanding::take(&self.outstanding, self.limits.outstanding) else { return false };
        let resolve = move || {
            let _place = place;
            // The outcome is in the kernel's table.
            let _ = sys::resolve(interface, neighbour, source);
        };
        let thread = std::thread::Builder::new().name("neighbour".into()).stack_size(64 << 10);
        thread.spawn(resolve).is_ok()
    }
}

/// One of the calls that may wait at the same time; ends when it is dropped.
struct Outstanding(Arc<AtomicUsize>);

impl Outstanding {
    fn take(count: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let one_more = |now| (now < most).then_some(now + 1);
        count.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more).ok()?;
        Some(Self(Arc::clone(count)))
    }
}

impl Drop for Outstanding {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Sends an empty datagram to a neighbour.
fn send_empty(interface: u32, neighbour: Address, source: Address) -> Result<()> {
    let send = || {
        let socket = UdpSocket::bind(socket_address(source, interface, 0))?;
        socket.set_nonblocking(true)?;
        socket.send_to(&[], socket_address(neighbour, interface, DISCARD_PORT))
    };
    send().map(drop).map_err(|source| IpHelperError::Refused { what: "send to a neighbour", source })
}

/// A link-local IPv6 address means one on this interface.
fn socket_address(address: Address, interface: u32, port: u16) -> SocketAddr {
    let ip: Ipv6Addr = match IpAddr::from(address) {
        IpAddr::V4(v4) => return SocketAddr::new(v4.into(), port),
        IpAddr::V6(v6) => v6,
    };
    let zone = if address.is_link_local() { interface } else { 0 };
    SocketAddrV6::new(ip, port, 0, zone).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::testing::address;

    #[test]
    fn calls_that_wait_are_bounded() {
        let count = Arc::default();
        let one = Outstanding::take(&count, 2);
        let other = Outstanding::take(&count, 2);
        assert!(one.is_some() && other.is_some());
        assert!(Outstanding::take(&count, 2).is_none());
        drop(one);
        assert!(Outstanding::take(&count, 2).is_some());
    }

    #[test]
    fn a_datagram_goes_to_the_neighbour() {
        let loopback = address("127.0.0.1");
        let mut resolver = NeighbourResolver::new(ResolutionLimits::default());
        assert_eq!(resolver.confirm(1, loopback, loopback).unwrap(), ResolutionStart::Started);
        assert_eq!(resolver.confirm(1, loopback, loopback).unwrap(), ResolutionStart::Limited);
        assert_eq!(resolver.resolve(1, loopback, loopback).unwrap(), ResolutionStart::Limited);
        assert!(resolver.age(1, loopback).is_some());
    }

    #[test]
    fn zones_are_for_link_local_addresses() {
        assert_eq!(socket_address(address("fe80::1"), 7, 9).to_string(), "[fe80::1%7]:9");
        assert_eq!(socket_address(address("2001:db8::1"), 7, 9).to_string(), "[2001:db8::1]:9");
        assert_eq!(socket_address(address("10.0.0.1"), 7, 9).to_string(), "10.0.0.1:9");
    }
}
