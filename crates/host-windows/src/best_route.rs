//! Selection of a route in the tables: the longest prefix, then the least sum of both metrics.
//!
//! Windows' own `GetBestRoute2` goes first where it works. This is for systems where it does not
//! (Wine).

use crate::interface::HostInterface;
use crate::path::RouteChoice;
use crate::source::choose_source;
use crate::tables::HostTables;
use std::cmp::Reverse;
use tickwire_stack::addr::Family;
use tickwire_stack::path::Query;

impl HostTables {
    /// The route and the source address for a query; `None` if no route leads there.
    ///
    /// A source address restricts the routes to its own interface, unless both interfaces allow
    /// weak host sends (RFC 1122 §3.3.4.2). The type of service does not matter to Windows.
    #[must_use]
    pub fn best_route(&self, query: &Query) -> Option<RouteChoice> {
        let family = query.destination.family();
        let has_source = !query.source.is_unspecified();
        if has_source && query.source.family() != family {
            return None;
        }
        let usable = |index: u32| {
            let interface = self.interface(index).filter(|interface| interface.is_up)?;
            let metric = interface.settings(family)?.metric;
            let named = query.interface == 0 || query.interface == index;
            (named && (!has_source || self.may_send(interface, query, family))).then_some(metric)
        };
        let routes = self.routes().iter().filter(|route| route.destination.contains(query.destination));
        let rated = routes.filter_map(|route| {
            let metric = u64::from(route.metric) + u64::from(usable(route.interface)?);
            Some(((Reverse(route.destination.length()), metric, route.interface), route))
        });
        let (_, route) = rated.min_by_key(|(rank, _)| *rank)?;
        let source = if has_source {
            Some(query.source)
        } else {
            choose_source(self.addresses_of(route.interface), query.destination)
        };
        Some(RouteChoice { interface: route.interface, gateway: route.gateway, source })
    }

    /// Whether the query's source address may be used on an interface.
    fn may_send(&self, interface: &HostInterface, query: &Query, family: Family) -> bool {
        let is_weak = |interface: &HostInterface| interface.settings(family).is_some_and(|s| s.weak_host_send);
        self.owners(query.source).any(|own| {
            own.interface == interface.index || is_weak(interface) && self.interface(own.interface).is_some_and(is_weak)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::interface::FamilySettings;
    use crate::tables::testing::{address, ethernet, own, route, two_cards};
    use tickwire_stack::addr::Address;

    fn best(tables: &HostTables, query: Query) -> Option<(u32, Option<Address>, Option<Address>)> {
        tables.best_route(&query).map(|choice| (choice.interface, choice.gateway, choice.source))
    }

    fn to(text: &str) -> Query {
        Query::to(address(text))
    }

    #[test]
    fn the_longest_prefix_goes_before_any_metric() {
        let tables = two_cards();
        let source = Some(address("192.168.7.1"));
        assert_eq!(best(&tables, to("192.168.7.9")), Some((6, None, source)));
    }

    #[test]
    fn of_equal_prefixes_the_sum_of_metrics_decides() {
        let tables = two_cards();
        let (router, source) = (Some(address("10.0.0.254")), Some(address("10.0.0.1")));
        assert_eq!(best(&tables, to("8.8.8.8")), Some((5, router, source)));
        // A route's own metric counts as well.
        let routes = [route("0.0.0.0/0", 5, Some("10.0.0.254"), 41), route("0.0.0.0/0", 6, None, 0)];
        let tables = HostTables::new(tables.interfaces().to_vec(), tables.addresses().to_vec(), routes);
        assert_eq!(best(&tables, to("8.8.8.8")).map(|choice| choice.0), Some(6));
    }

    #[test]
    fn the_largest_metrics_do_not_overflow() {
        let routes = [route("0.0.0.0/0", 5, None, u32::MAX), route("0.0.0.0/0", 6, None, u32::MAX)];
        let tables = HostTables::new([ethernet(5, u32::MAX), ethernet(6, 1)], [], routes);
        assert_eq!(best(&tables, to("8.8.8.8")).map(|choice| choice.0), Some(6));
    }

    #[test]
    fn interfaces_that_are_down_or_lack_the_family_are_left_out() {
        let tables = two_cards();
        let mut down = tables.interfaces().to_vec();
        down[1].is_up = false;
        let tables = HostTables::new(down, tables.addresses().to_vec(), tables.routes().to_vec());
        assert_eq!(best(&tables, to("8.8.8.8")).map(|choice| choice.0), Some(6));
        let mut without = tables.interfaces().to_vec();
        without[2].v4 = None;
        let tables = HostTables::new(without, tables.addresses().to_vec(), tables.routes().to_vec());
        assert_eq!(best(&tables, to("8.8.8.8")), None);
    }

    #[test]
    fn an_interface_or_a_source_restricts_the_routes() {
        let tables = two_cards();
        assert_eq!(best(&tables, to("8.8.8.8").by(6)).map(|choice| choice.0), Some(6));
        assert_eq!(best(&tables, to("10.0.0.9").by(7)), None);
        let from = to("10.0.0.9").from(address("192.168.7.1"));
        let router = Some(address("192.168.7.254"));
        assert_eq!(best(&tables, from), Some((6, router, Some(address("192.168.7.1")))), "strong host model");
        let contradiction = from.by(5);
        assert_eq!(best(&tables, contradiction), None);
    }

    #[test]
    fn weak_host_sends_must_be_allowed_on_both_interfaces() {
        let tables = two_cards();
        let from = to("10.0.0.9").from(address("192.168.7.1"));
        let with = |weak: &[u32]| {
            let mut interfaces = tables.interfaces().to_vec();
            for interface in interfaces.iter_mut().filter(|interface| weak.contains(&interface.index)) {
                interface.v4 = interface.v4.map(|v4| FamilySettings { weak_host_send: true, ..v4 });
            }
            let tables = HostTables::new(interfaces, tables.addresses().to_vec(), tables.routes().to_vec());
            best(&tables, from).map(|choice| choice.0)
        };
        assert_eq!(with(&[5]), Some(6));
        assert_eq!(with(&[6]), Some(6));
        assert_eq!(with(&[5, 6]), Some(5));
    }

    #[test]
    fn link_local_destinations_need_the_interface_only_if_there_are_several() {
        let tables = two_cards();
        assert_eq!(best(&tables, to("fe80::9")).map(|choice| choice.0), Some(5), "the least metric");
        assert_eq!(best(&tables, to("fe80::9").by(6)), Some((6, None, Some(address("fe80::6")))));
    }

    #[test]
    fn the_families_of_source_and_destination_must_agree() {
        let tables = two_cards();
        assert_eq!(best(&tables, to("8.8.8.8").from(address("fe80::5"))), None);
    }

    #[test]
    fn a_route_without_a_usable_source_has_none() {
        let tables = HostTables::new([ethernet(5, 1)], [own(5, "fe80::5", 64)], [route("10.0.0.0/8", 5, None, 1)]);
        assert_eq!(best(&tables, to("10.1.1.1")), Some((5, None, None)));
    }
}
