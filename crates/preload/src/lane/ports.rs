//! Ports to connect from: taken from those that the lane holds, and put back when the connection
//! has ended. The service is asked for more when few are left. A connection waits for them only if
//! there is none.

use crate::lane::{Access, Lane};
use crate::sys;
use crate::table::ports::Ask;
use core::ffi::c_int;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use tickwire_lane::control::{Claim, ClaimPart, EphemeralPort, EphemeralPorts, Reason, Reply, Request};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::time::{Instant, Span};

/// A thread that connects searches for ended connections no more often than this: the list of open
/// ones may be long.
const LOOK_FOR_ENDED: Span = Span::from_millis(5);

/// The time of the last search, in nanoseconds.
static LOOKED_FOR_ENDED: AtomicU64 = AtomicU64::new(0);
/// Whether this process has put a port back since it last found no unused port.
static ANY_RESTS: AtomicBool = AtomicBool::new(false);

/// Whether it is time to look for ended connections.
fn may_look_for_ended(now: Instant) -> bool {
    let last = Instant::from_nanos(LOOKED_FOR_ENDED.load(Relaxed));
    let due = now.since(last) >= LOOK_FOR_ENDED;
    if due {
        LOOKED_FOR_ENDED.store(now.as_nanos(), Relaxed);
    }
    due
}

/// Whether [`Lane::give_surplus_ports_back`] may find something.
pub(crate) fn any_rests() -> bool {
    ANY_RESTS.load(Relaxed)
}

impl Access<'_> {
    /// Puts a port back whose connection has ended. False if there is no room, and its claim is to
    /// be released.
    pub(crate) fn put_port_back(&mut self, claim: u64, local: Endpoint) -> bool {
        let now = self.now;
        let put = self.ports().put_back(local.address, EphemeralPort { claim: Claim(claim), port: local.port }, now);
        if put {
            ANY_RESTS.store(true, Relaxed);
        }
        put
    }
}

/// Ports that the service has bound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PortBatch {
    pub(crate) namespace: u64,
    pub(crate) source: Address,
    pub(crate) ports: EphemeralPorts,
}

impl Lane {
    /// A port of an address from which a socket may be connected, and its claim, which the caller
    /// has to release. `None` if the socket has to be bound and claimed by itself: it belongs to
    /// another network namespace, or the service gives no port. `put_ports_back` puts those of
    /// ended connections back.
    pub(crate) fn take_port(
        &self,
        fd: c_int,
        source: Address,
        put_ports_back: impl Fn(&Lane, &mut Access<'_>),
    ) -> Option<EphemeralPort> {
        let here = sys::namespace(fd).ok()?;
        let look = || {
            self.with(|access| {
                let now = access.now;
                if access.ports().namespace().is_some_and(|namespace| namespace != here) {
                    return Ok(Err(None));
                }
                if access.ports().wants_back() && may_look_for_ended(now) {
                    put_ports_back(self, access);
                }
                let mut ports = access.ports();
                Ok(ports.take(source, now).ok_or_else(|| ports.next_ask(now)))
            })
        };
        let mut found = look().ok()?;
        if matches!(found, Err(Some(Ask { only: true, .. }))) {
            self.look_for_ports();
            found = look().ok()?;
        }
        let Ask { count, only } = match found {
            Ok(port) => return Some(port),
            Err(ask) => ask?,
        };
        let answer = self.ask(&Request::Ports { source, count }, None, |reply| match *reply {
            Reply::Ports { namespace, source, ports } => Ok(PortBatch { namespace, source, ports }),
            _ => Err(Reason::BadRequest),
        });
        if !only {
            self.are_answered();
        }
        let Ok(PortBatch { namespace, source, ports }) = answer else {
            return self.with_quietly(|access| Ok(access.ports().take_early(source))).ok().flatten();
        };
        let (&first, others) = ports.as_slice().split_first()?;
        let other_namespace = namespace != here;
        let kept = if other_namespace { ports } else { EphemeralPorts::new(others) };
        self.hold_ports(&PortBatch { namespace, source, ports: kept });
        (!other_namespace).then_some(first)
    }

    fn are_answered(&self) {
        let _ = self.with_quietly(|access| {
            access.ports().are_answered();
            Ok(())
        });
    }

    /// Stores ports that were requested in advance.
    pub(super) fn ports_have_come(&self, given: &PortBatch) {
        self.are_answered();
        self.hold_ports(given);
    }

    /// Requests further ports of an address if few are left, without waiting for them.
    pub(crate) fn ask_for_ports(&self, source: Address) {
        let count = self.with_quietly(|access| {
            let now = access.now;
            Ok(access.ports().next_ask_in_advance(now))
        });
        if let Ok(count @ 1..) = count
            && !self.tell(&Request::Ports { source, count })
        {
            // Another thread is using the connection: the next connect tries again.
            self.are_answered();
        }
    }

    /// Stores ports that the service has bound; returns those for which there is no room.
    fn hold_ports(&self, given: &PortBatch) {
        let ports = given.ports.as_slice();
        let put = self.with_quietly(|access| Ok(access.ports().put(given.namespace, given.source, ports)));
        self.give_back(ports[put.unwrap_or(0)..].iter().map(|port| port.claim));
    }

    /// Returns ports to the service that have been unused for so long that the program seems not to
    /// need them.
    pub(crate) fn give_surplus_ports_back(&self) {
        loop {
            let mut surplus = [Claim(0); EphemeralPorts::MAX];
            let taken = self.with_quietly(|access| {
                let now = access.now;
                let mut ports = access.ports();
                let taken = surplus.iter_mut().zip(core::iter::from_fn(|| ports.take_surplus(now)));
                let count = taken.map(|(place, claim)| *place = claim).count();
                ANY_RESTS.store(ports.any_rests(), Relaxed);
                Ok(count)
            });
            let Ok(count @ 1..) = taken else { return };
            self.give_back(surplus[..count].iter().copied());
        }
    }

    /// Releases the claims of as many ports as one message carries.
    fn give_back(&self, claims: impl Iterator<Item = Claim>) {
        let mut parts = [ClaimPart::default(); EphemeralPorts::MAX];
        let count = parts.iter_mut().zip(claims).map(|(part, claim)| part.claim = claim).count();
        let told = self.release_parts(&parts[..count]);
        parts[told..count].iter().for_each(|part| self.release(part.claim.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::socket::pending;
    use crate::testing::{self, HERE};
    use std::time::Duration;
    use tickwire_lane::control::{Claim, Parts};
    use tickwire_lane_linux::control::Channel;

    fn asked(service: &Channel) -> (u32, Request) {
        service.receive(Duration::from_secs(5)).unwrap().decode().unwrap()
    }

    fn given(namespace: u64, claims: core::ops::Range<u64>) -> Reply {
        let port = |claim| EphemeralPort { claim: Claim(claim), port: 40_000 + claim as u16 };
        Reply::Ports { namespace, source: HERE, ports: EphemeralPorts::new(&claims.map(port).collect::<Vec<_>>()) }
    }

    /// Takes a port while the service answers one request for `expected` ports with `reply`.
    fn taken(lane: &'static Lane, service: &Channel, fd: c_int, expected: u32, reply: &Reply) -> Option<u64> {
        std::thread::scope(|scope| {
            let taking = scope.spawn(|| lane.take_port(fd, HERE, pending::put_ports_back).map(|port| port.claim.0));
            let (number, request) = asked(service);
            assert!(matches!(request, Request::Ports { source: HERE, count } if count == expected), "{request:?}");
            service.send(reply, number, &[]).unwrap();
            taking.join().unwrap()
        })
    }

    #[test]
    fn the_service_is_asked_when_no_port_is_left_and_in_advance_when_few_are() {
        let (lane, service) = testing::another();
        let fd = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
        let here = sys::namespace(fd).unwrap();
        assert_eq!(taken(lane, &service, fd, 1, &given(here, 1..2)), Some(1));
        lane.ask_for_ports(HERE);
        assert_eq!(taken(lane, &service, fd, 2, &given(here, 2..4)), Some(2), "nothing was asked for in advance");
        lane.ask_for_ports(HERE);
        let (number, request) = asked(&service);
        assert!(matches!(request, Request::Ports { count: 4, .. }), "{request:?}");
        service.send(&given(here, 4..8), number, &[]).unwrap();
        let mut claims: Vec<u64> =
            (0..5).map(|_| lane.take_port(fd, HERE, pending::put_ports_back).unwrap().claim.0).collect();
        claims.sort_unstable();
        assert_eq!(claims, [3, 4, 5, 6, 7], "none is waited for that has come");
        assert_eq!(taken(lane, &service, fd, 8, &Reply::Done), None);
        sys::close(fd);
    }

    #[test]
    fn a_socket_of_another_namespace_gets_no_port() {
        let (lane, service) = testing::another();
        let fd = sys::socket(libc::AF_INET, libc::SOCK_STREAM, 0).unwrap();
        let elsewhere = sys::namespace(fd).unwrap() + 1;
        assert_eq!(taken(lane, &service, fd, 1, &given(elsewhere, 1..2)), None);
        assert!(lane.take_port(fd, HERE, pending::put_ports_back).is_none(), "and the service is not asked again");
        sys::close(fd);
    }

    #[test]
    fn ports_for_which_there_is_no_room_are_given_back() {
        let (lane, service) = testing::another();
        let many = |claims| {
            let Reply::Ports { namespace, source, ports } = given(1, claims) else { unreachable!() };
            PortBatch { namespace, source, ports }
        };
        (0..104).for_each(|n| lane.hold_ports(&many(n * 16 + 1..n * 16 + 17)));
        lane.hold_ports(&many(2000..2003));
        let (_, request) = asked(&service);
        let parts = Parts::new(&[2000, 2001, 2002].map(|n| ClaimPart { claim: Claim(n), ..ClaimPart::default() }));
        assert_eq!(format!("{request:?}"), format!("{:?}", Request::Release { parts }));
    }
}
