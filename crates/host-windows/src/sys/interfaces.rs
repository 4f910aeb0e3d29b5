//! Interfaces (`GetIfTable2`, `GetIpInterfaceTable`).

use super::FAMILIES;
use super::table::{MibTable, RowRef, field, flag};
use crate::error::Result;
use crate::interface::{FamilySettings, HostInterface, InterfaceKind, ethernet_address};
use std::collections::BTreeMap;
use windows_sys::Win32::NetworkManagement::IpHelper::{
    GetIfTable2, GetIpInterfaceTable, MIB_IF_ROW2, MIB_IF_TABLE2, MIB_IPINTERFACE_TABLE,
};
use windows_sys::Win32::NetworkManagement::Ndis::IfOperStatusUp;

/// The bit of `InterfaceAndOperStatusFlags` of a filter driver's layer of another interface, which
/// has the same Ethernet address and no addresses of its own.
const FILTER_INTERFACE: u8 = 2;

/// What a family uses, by interface; `None` if the system does not tell.
type SettingsByIndex = Option<BTreeMap<u32, FamilySettings>>;

/// All interfaces, in no order.
pub(crate) fn interfaces() -> Result<Vec<HostInterface>> {
    let [v4, v6] = FAMILIES.map(settings);
    let (v4, v6) = (v4?, v6?);
    // SAFETY: it stores such a table.
    let table = unsafe { MibTable::<MIB_IF_TABLE2>::read("list the interfaces", |place| GetIfTable2(place)) }?;
    let rows = table.rows().filter(|&row| field!(row.InterfaceAndOperStatusFlags._bitfield) & FILTER_INTERFACE == 0);
    Ok(rows.map(|row| interface(row, &v4, &v6)).collect())
}

fn interface(row: RowRef<'_, MIB_IF_ROW2>, v4: &SettingsByIndex, v6: &SettingsByIndex) -> HostInterface {
    let index = field!(row.InterfaceIndex);
    let link_mtu = field!(row.Mtu);
    // Where the system does not tell (Wine), the host under it is Linux: a weak host.
    let assumed = FamilySettings { mtu: link_mtu, metric: 0, weak_host_send: true };
    let of = |family: &SettingsByIndex| match family {
        Some(family) => family.get(&index).copied(),
        None => Some(assumed),
    };
    let (address, length) = (field!(row.PhysicalAddress), field!(row.PhysicalAddressLength));
    HostInterface {
        index,
        luid: luid(row),
        alias: text(&field!(row.Alias)),
        description: text(&field!(row.Description)),
        kind: InterfaceKind::from_number(field!(row.Type)),
        mac: address.get(..length as usize).and_then(ethernet_address),
        is_up: field!(row.OperStatus) == IfOperStatusUp,
        v4: of(v4),
        v6: of(v6),
    }
}

fn luid(row: RowRef<'_, MIB_IF_ROW2>) -> u64 {
    let luid = field!(row.InterfaceLuid);
    // SAFETY: any bits are a number.
    unsafe { luid.Value }
}

/// What a family uses on each interface that has it.
fn settings(family: u16) -> Result<SettingsByIndex> {
    // SAFETY: it stores such a table.
    let table = unsafe {
        MibTable::<MIB_IPINTERFACE_TABLE>::read_supported("list the settings of interfaces", |place| {
            GetIpInterfaceTable(family, place)
        })
    }?;
    Ok(table.map(|table| {
        let rows = table.rows().map(|row| {
            let weak_host_send = flag!(row.WeakHostSend);
            let settings = FamilySettings { mtu: field!(row.NlMtu), metric: field!(row.Metric), weak_host_send };
            (field!(row.InterfaceIndex), settings)
        });
        rows.collect()
    }))
}

/// The characters before the first zero.
fn text(characters: &[u16]) -> String {
    let end = characters.iter().position(|&character| character == 0).unwrap_or(characters.len());
    String::from_utf16_lossy(characters.get(..end).unwrap_or_default())
}
