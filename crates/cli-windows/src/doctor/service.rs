//! The service, and what it says about its network card.

use crate::client::Client;
use crate::{nic, stat};
use std::collections::BTreeMap;
use tickwire_host_windows::{HostTables, read_tables};
use tickwire_lane::control::{Name, Reply, Request};
use tickwire_lane_windows::control::ConnectError;
use tickwire_show::finding::Finding;
use tickwire_show::stat::Interface;
use tickwire_stack::Memory;

/// Until it is mended, nothing else is.
const UNTIL_THEN: &str = "until then all programs run on the kernel";

/// Is there a service, may this user use it, does it give a lane, and for which interface?
pub(super) fn check(pipe: &str) -> Vec<Finding> {
    let mut client = match Client::connect(pipe) {
        Ok(client) => client,
        Err(error) => {
            let check = if matches!(error, ConnectError::NotPermitted(_)) { "access" } else { "service" };
            let tables = read_tables().unwrap_or_default();
            return vec![Finding::missing(check, error.to_string(), UNTIL_THEN), without_service(&tables)];
        }
    };
    let mut findings =
        vec![Finding::good("service", format!("answers at {pipe}, and this user may use it")), lane(&mut client)];
    match stat::interfaces(&mut client) {
        Ok(interfaces) if interfaces.is_empty() => {
            findings.push(Finding::missing(
                "interface",
                "the service accelerates none",
                "name one with `tickwire service --interface`",
            ));
        }
        Ok(interfaces) => {
            let tables = read_tables().unwrap_or_default();
            findings.extend(interfaces.iter().map(|interface| of_interface(interface, &tables)));
        }
        Err(error) => findings.push(Finding::missing("interface", format!("{error:#}"), UNTIL_THEN)),
    }
    findings.extend(stat::host_counters(&mut client).map(|counters| losses(&counters)));
    findings
}

/// What the driver has lost, or the service could not give to it.
fn losses(counters: &BTreeMap<&'static str, u64>) -> Finding {
    const OF_DRIVER: [&str; 4] = ["unsent", "card_no_room", "card_truncated", "card_malformed"];
    let some = OF_DRIVER.iter().filter_map(|name| Some((name, *counters.get(name)?))).filter(|(_, count)| *count > 0);
    let lost: Vec<_> = some.map(|(name, count)| format!("{name} {count}")).collect();
    if lost.is_empty() {
        return Finding::good("losses", "none between the network card's driver and the service");
    }
    Finding::improve(
        "losses",
        lost.join(", "),
        "if they grow the service has too little of a processor, or the driver is in trouble: see `tickwire stat --help`",
    )
}

/// Asks for a lane, as a program does, and gives it back.
fn lane(client: &mut Client) -> Finding {
    let hello = Request::Hello { program: Name::new("tickwire doctor"), layout: Memory::LAYOUT_HASH };
    match client.ask(&hello) {
        Ok((Reply::Lane { lane, .. }, _)) => {
            Finding::good("lane", format!("the service has given one (number {lane})"))
        }
        Ok((reply, _)) => Finding::missing("lane", crate::client::unexpected(&reply).to_string(), UNTIL_THEN),
        Err(error) => Finding::missing("lane", format!("{error:#}"), UNTIL_THEN),
    }
}

fn of_interface(interface: &Interface, tables: &HostTables) -> Finding {
    let Interface { name, driver, mac, mtu, reason, .. } = interface;
    let found = |more: &str| format!("{name} ({driver}), {mac}, MTU {mtu}: {more}");
    if let Some(reason) = reason {
        return Finding::missing("interface", found(reason), "see the service's log");
    }
    let own = tables.interfaces().iter().find(|own| own.alias == *name);
    let addresses = own.map(|own| tables.addresses_of(own.index)).unwrap_or_default();
    if addresses.is_empty() {
        return Finding::missing("interface", found("it has no address"), "connect it, or give it an address");
    }
    let addresses: Vec<_> = addresses.iter().map(|own| own.address.to_string()).collect();
    Finding::good("interface", found(&addresses.join(", ")))
}

/// Without a service: which interface it would accelerate.
fn without_service(tables: &HostTables) -> Finding {
    match nic::choose(tables, None) {
        Ok(interface) => Finding::good("interface", format!("{}: the only candidate", interface.alias)),
        Err(error) if nic::candidates(tables).is_empty() => Finding::missing("interface", "none", error.to_string()),
        Err(error) => Finding::improve("interface", "there are several", error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_show::finding::Verdict;

    #[test]
    fn without_a_service_it_is_said_what_to_do() {
        let findings = check(r"\\.\pipe\tickwire-no-such-service");
        assert_eq!((findings[0].check.as_str(), findings[0].verdict), ("service", Verdict::Missing));
        assert!(findings[0].found.contains("start it with `tickwire service`"), "{}", findings[0]);
        assert_eq!(findings[1].check, "interface");
    }

    #[test]
    fn losses_of_the_driver_are_named() {
        let counters = BTreeMap::from([("passed", 9), ("unsent", 0), ("card_no_room", 7), ("card_truncated", 1)]);
        let finding = losses(&counters);
        assert_eq!((finding.verdict, finding.found.as_str()), (Verdict::Improve, "card_no_room 7, card_truncated 1"));
        assert_eq!(losses(&BTreeMap::from([("passed", 9)])).verdict, Verdict::Good);
    }

    #[test]
    fn an_interface_without_an_address_is_missing() {
        let interface = Interface {
            name: "Ethernet".into(),
            driver: "lab".into(),
            mac: "02:00:00:00:00:01".into(),
            mtu: 1500,
            mode: "driver",
            reason: None,
        };
        let finding = of_interface(&interface, &HostTables::default());
        assert_eq!(finding.verdict, Verdict::Missing);
        assert!(finding.found.contains("it has no address"), "{finding}");
    }
}
