//! Routes: each request to the kernel is for one destination; its table is never copied.

use crate::RouteNetlink;
use crate::error::{HostError, Result};
use netlink_packet_route::AddressFamily;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteType, RouteVia};
use std::net::IpAddr;
use tickwire_stack::addr::{Address, Family};
use tickwire_stack::path::Metrics;

/// A query of the kernel's routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RouteQuery {
    /// The destination.
    pub destination: Address,
    /// The source address, if it is given already (a bound socket).
    pub source: Option<Address>,
    /// The interface, if it is given (`SO_BINDTODEVICE`, a scope); 0 if not.
    pub interface: u32,
    /// The socket's mark (`SO_MARK`); 0 if none.
    pub mark: u32,
    /// The type of service or traffic class, without the bits of ECN; 0 if none.
    pub tos: u8,
}

impl RouteQuery {
    /// A query for a destination, with nothing else given.
    #[must_use]
    pub const fn to(destination: Address) -> Self {
        Self { destination, source: None, interface: 0, mark: 0, tos: 0 }
    }
}

/// The kind of route the kernel found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteKind {
    /// To another host.
    Unicast,
    /// To this host.
    Local,
    /// To a subnet's broadcast address, or to all.
    Broadcast,
    /// To a group.
    Multicast,
    /// Nowhere: no route, or a prohibiting one.
    Unreachable,
}

/// The kernel's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// Its kind.
    pub kind: RouteKind,
    /// The interface of outgoing packets; 0 if none.
    pub interface: u32,
    /// The router, `None` if the destination is on the link.
    pub gateway: Option<Address>,
    /// The source address the kernel would use.
    pub source: Option<Address>,
    /// The route's own MTU (configured, or learnt by the kernel), `None` if the link's applies.
    pub mtu: Option<u32>,
    /// Its other metrics.
    pub metrics: Metrics,
}

impl Route {
    const NOWHERE: Self = Self {
        kind: RouteKind::Unreachable,
        interface: 0,
        gateway: None,
        source: None,
        mtu: None,
        metrics: Metrics { rto_min_ms: 0, initcwnd: 0, initrwnd: 0, advmss: 0, hop_limit: 0, quick_ack: false },
    };

    fn parse(message: &RouteMessage) -> Self {
        let kind = match message.header.kind {
            RouteType::Unicast => RouteKind::Unicast,
            RouteType::Local | RouteType::Anycast => RouteKind::Local,
            RouteType::Broadcast => RouteKind::Broadcast,
            RouteType::Multicast => RouteKind::Multicast,
            _ => RouteKind::Unreachable,
        };
        let mut route = Self { kind, ..Self::NOWHERE };
        for attribute in &message.attributes {
            match attribute {
                RouteAttribute::Oif(index) => route.interface = *index,
                RouteAttribute::Gateway(address) => route.gateway = plain(address),
                RouteAttribute::PrefSource(address) => route.source = plain(address),
                // An IPv4 route via an IPv6 router (RFC 5549).
                RouteAttribute::Via(RouteVia::Inet(ip)) => route.gateway = Some((*ip).into()),
                RouteAttribute::Via(RouteVia::Inet6(ip)) => route.gateway = Some((*ip).into()),
                RouteAttribute::Metrics(metrics) => {
                    metrics.iter().for_each(|metric| route.take_metric(metric));
                }
                _ => {}
            }
        }
        route
    }

    /// Takes one metric; those that only the kernel's own TCP uses are skipped.
    fn take_metric(&mut self, metric: &RouteMetric) {
        let metrics = &mut self.metrics;
        let short = |value: u32| u16::try_from(value).unwrap_or(u16::MAX);
        match metric {
            RouteMetric::Mtu(mtu) => self.mtu = Some(*mtu),
            RouteMetric::RtoMin(ms) => metrics.rto_min_ms = short(*ms),
            RouteMetric::InitCwnd(segments) => metrics.initcwnd = short(*segments),
            RouteMetric::InitRwnd(segments) => metrics.initrwnd = short(*segments),
            RouteMetric::Advmss(bytes) => metrics.advmss = short(*bytes),
            RouteMetric::Hoplimit(hops) => metrics.hop_limit = u8::try_from(*hops).unwrap_or(u8::MAX),
            RouteMetric::QuickAck(on) => metrics.quick_ack = *on != 0,
            _ => {}
        }
    }
}

fn plain(address: &RouteAddress) -> Option<Address> {
    match address {
        RouteAddress::Inet(v4) => Some((*v4).into()),
        RouteAddress::Inet6(v6) => Some((*v6).into()),
        _ => None,
    }
}

fn request(query: &RouteQuery) -> RouteMessage {
    let mut message = RouteMessage::default();
    let (family, bits) = match query.destination.family() {
        Family::V4 => (AddressFamily::Inet, 32),
        Family::V6 => (AddressFamily::Inet6, 128),
    };
    message.header.address_family = family;
    message.header.destination_prefix_length = bits;
    message.header.tos = query.tos;
    message.attributes.push(RouteAttribute::Destination(IpAddr::from(query.destination).into()));
    if let Some(source) = query.source.filter(|s| s.family() == query.destination.family() && !s.is_unspecified()) {
        message.header.source_prefix_length = bits;
        message.attributes.push(RouteAttribute::Source(IpAddr::from(source).into()));
    }
    if query.interface != 0 {
        message.attributes.push(RouteAttribute::Oif(query.interface));
    }
    if query.mark != 0 {
        message.attributes.push(RouteAttribute::Mark(query.mark));
    }
    message
}

impl RouteNetlink {
    /// Asks the kernel how it would reach a destination. "No route" is a result
    /// ([`RouteKind::Unreachable`]), not an error.
    ///
    /// # Errors
    /// If the kernel cannot be asked.
    pub fn route(&mut self, query: &RouteQuery) -> Result<Route> {
        use nix::errno::Errno;
        match self.netlink.ask("find a route", RouteNetlinkMessage::GetRoute(request(query))) {
            Ok(answers) => Ok(answers
                .iter()
                .find_map(|m| match m {
                    RouteNetlinkMessage::NewRoute(route) => Some(Route::parse(route)),
                    _ => None,
                })
                .unwrap_or(Route::NOWHERE)),
            Err(HostError::Refused { source, .. })
                if matches!(
                    Errno::from_raw(source.raw_os_error().unwrap_or(0)),
                    // EINVAL: the source is not (or no longer) an address of this host, or a
                    // blackhole route.
                    Errno::ENETUNREACH | Errno::EHOSTUNREACH | Errno::EACCES | Errno::EINVAL | Errno::ENODEV
                ) =>
            {
                Ok(Route::NOWHERE)
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_addresses_are_local() {
        let mut host = RouteNetlink::open().unwrap();
        let query = RouteQuery::to(Address::v4([127, 0, 0, 1]));
        assert_eq!(host.route(&query).unwrap().kind, RouteKind::Local);
    }

    #[test]
    fn a_source_of_the_other_family_is_not_sent() {
        let query =
            RouteQuery { source: Some(Address::ANY), interface: 3, ..RouteQuery::to(Address::v4([10, 0, 0, 1])) };
        let message = request(&query);
        assert_eq!(message.attributes.len(), 2);
        assert_eq!(message.header.source_prefix_length, 0);
    }
}
