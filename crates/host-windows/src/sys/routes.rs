//! Routes (`GetIpForwardTable2`).

use super::FAMILIES;
use super::table::{MibTable, RowRef, field};
use crate::error::Result;
use crate::prefix::IpPrefix;
use crate::route::RouteEntry;
use tickwire_windows_abi::sockaddr::address as to_address;
use windows_sys::Win32::NetworkManagement::IpHelper::{GetIpForwardTable2, MIB_IPFORWARD_ROW2, MIB_IPFORWARD_TABLE2};

/// All routes, in no order.
pub(crate) fn routes() -> Result<Vec<RouteEntry>> {
    let mut all = Vec::new();
    for family in FAMILIES {
        // SAFETY: it stores such a table.
        let table = unsafe {
            MibTable::<MIB_IPFORWARD_TABLE2>::read("list the routes", |place| GetIpForwardTable2(family, place))
        }?;
        all.extend(table.rows().filter_map(route));
    }
    Ok(all)
}

/// A route; `None` if its addresses are none.
pub(super) fn route(row: RowRef<'_, MIB_IPFORWARD_ROW2>) -> Option<RouteEntry> {
    let first = to_address(&field!(row.DestinationPrefix.Prefix))?;
    Some(RouteEntry {
        destination: IpPrefix::new(first, field!(row.DestinationPrefix.PrefixLength))?,
        interface: field!(row.InterfaceIndex),
        gateway: to_address(&field!(row.NextHop)).filter(|hop| !hop.is_unspecified()),
        metric: field!(row.Metric),
    })
}
