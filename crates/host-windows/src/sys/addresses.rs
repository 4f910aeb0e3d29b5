//! Addresses of interfaces (`GetUnicastIpAddressTable`).

use super::FAMILIES;
use super::table::{MibTable, RowRef, field, flag};
use crate::address::{UnicastAddress, deprecated};
use crate::error::Result;
use tickwire_windows_abi::sockaddr::address as to_address;
use windows_sys::Win32::NetworkManagement::IpHelper::{
    GetUnicastIpAddressTable, MIB_UNICASTIPADDRESS_ROW, MIB_UNICASTIPADDRESS_TABLE,
};
use windows_sys::Win32::Networking::WinSock::{IpPrefixOriginRouterAdvertisement, IpSuffixOriginRandom};

/// The addresses that can be used, in no order.
pub(crate) fn addresses() -> Result<Vec<UnicastAddress>> {
    let mut all = Vec::new();
    for family in FAMILIES {
        // SAFETY: it stores such a table.
        let table = unsafe {
            MibTable::<MIB_UNICASTIPADDRESS_TABLE>::read("list the addresses", |place| {
                GetUnicastIpAddressTable(family, place)
            })
        }?;
        all.extend(table.rows().filter_map(address));
    }
    Ok(all)
}

fn address(row: RowRef<'_, MIB_UNICASTIPADDRESS_ROW>) -> Option<UnicastAddress> {
    let is_announced = field!(row.PrefixOrigin) == IpPrefixOriginRouterAdvertisement;
    Some(UnicastAddress {
        interface: field!(row.InterfaceIndex),
        address: to_address(&field!(row.Address))?,
        prefix_length: field!(row.OnLinkPrefixLength),
        is_deprecated: deprecated(field!(row.DadState))?,
        // Other addresses of an announced prefix have the interface's identifier.
        is_temporary: is_announced && field!(row.SuffixOrigin) == IpSuffixOriginRandom,
        is_skipped: flag!(row.SkipAsSource),
    })
}
