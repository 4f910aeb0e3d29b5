//! Which network card is accelerated.

use anyhow::{Result, bail};
use tickwire_host_windows::{HostInterface, HostTables};

/// The interface of this name or index; without one, the only candidate.
pub(crate) fn choose<'t>(tables: &'t HostTables, wanted: Option<&str>) -> Result<&'t HostInterface> {
    let candidates = candidates(tables);
    let Some(wanted) = wanted else {
        return match candidates[..] {
            [only] => Ok(only),
            [] => bail!(
                "no Ethernet interface is connected and has an address: connect one, or name one with --interface"
            ),
            _ => bail!("several interfaces could be accelerated: name one with --interface ({})", names(&candidates)),
        };
    };
    let is_wanted = |interface: &&HostInterface| {
        interface.alias.eq_ignore_ascii_case(wanted) || interface.index.to_string() == wanted
    };
    match tables.interfaces().iter().find(is_wanted) {
        Some(interface) if interface.ethernet().is_some() => Ok(interface),
        Some(interface) => bail!("the interface {:?} is not one of Ethernet: name another", interface.alias),
        None => bail!("there is no interface {wanted:?}: those that could be accelerated are {}", names(&candidates)),
    }
}

/// The Ethernet interfaces that are connected and have an address.
pub(crate) fn candidates(tables: &HostTables) -> Vec<&HostInterface> {
    let has_address = |interface: &HostInterface| !tables.addresses_of(interface.index).is_empty();
    let is_candidate =
        |interface: &&HostInterface| interface.is_up && interface.ethernet().is_some() && has_address(interface);
    tables.interfaces().iter().filter(is_candidate).collect()
}

fn names(interfaces: &[&HostInterface]) -> String {
    let names: Vec<_> =
        interfaces.iter().map(|interface| format!("{:?} or {}", interface.alias, interface.index)).collect();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_host_windows::{InterfaceKind, UnicastAddress};
    use tickwire_stack::addr::{Address, Mac};

    fn interface(index: u32, alias: &str, kind: InterfaceKind) -> HostInterface {
        HostInterface {
            index,
            luid: index.into(),
            alias: alias.into(),
            description: String::new(),
            kind,
            mac: Some(Mac([2, 0, 0, 0, 0, index as u8])),
            is_up: true,
            v4: None,
            v6: None,
        }
    }

    fn tables(interfaces: Vec<HostInterface>) -> HostTables {
        let addresses: Vec<_> = interfaces.iter().map(|interface| own(interface.index)).collect();
        HostTables::new(interfaces, addresses, Vec::new())
    }

    fn own(interface: u32) -> UnicastAddress {
        let address = Address::v4([10, 0, 0, interface as u8]);
        UnicastAddress {
            interface,
            address,
            prefix_length: 24,
            is_deprecated: false,
            is_temporary: false,
            is_skipped: false,
        }
    }

    #[test]
    fn the_only_candidate_is_taken_and_of_several_none() {
        use InterfaceKind::{Ethernet, Loopback};
        let one = tables(vec![interface(1, "lo", Loopback), interface(7, "Ethernet 2", Ethernet)]);
        assert_eq!(choose(&one, None).unwrap().index, 7);
        let two = tables(vec![interface(7, "Ethernet 2", Ethernet), interface(9, "Ethernet", Ethernet)]);
        let error = choose(&two, None).unwrap_err().to_string();
        assert!(error.contains("--interface (\"Ethernet 2\" or 7, \"Ethernet\" or 9)"), "{error}");
        for name in ["9", "ethernet"] {
            assert_eq!(choose(&two, Some(name)).unwrap().index, 9);
        }
        assert!(choose(&two, Some("8")).unwrap_err().to_string().contains("there is no interface \"8\""));
        assert!(choose(&one, Some("lo")).unwrap_err().to_string().contains("not one of Ethernet"));
        assert!(choose(&tables(Vec::new()), None).is_err());
    }
}
