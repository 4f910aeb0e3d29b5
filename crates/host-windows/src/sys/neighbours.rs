//! Neighbours (`GetIpNetEntry2`, `GetIpNetTable2`).

use super::library::ip_helper;
use super::table::{MibTable, RowRef, field};
use super::{FAMILIES, refused};
use crate::error::Result;
use crate::interface::ethernet_address;
use crate::neighbour::{NeighbourEntry, NeighbourState};
use std::collections::HashMap;
use std::mem::{transmute, zeroed};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use tickwire_stack::addr::Address;
use tickwire_windows_abi::sockaddr::{address as to_address, from_address};
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_NOT_FOUND, ERROR_NOT_SUPPORTED};
use windows_sys::Win32::NetworkManagement::IpHelper::{GetIpNetTable2, MIB_IPNET_ROW2, MIB_IPNET_TABLE2};

/// `GetIpNetEntry2`, which Wine lacks.
type GetIpNetEntry2 = unsafe extern "system" fn(*mut MIB_IPNET_ROW2) -> u32;

/// For so long a copy of the kernel's table stands for the table: for the paths that are looked at
/// one after the other, each of which would read all of it.
const SAME_TABLE: Duration = Duration::from_millis(1);

/// A copy of the kernel's table, as of when it was read.
#[derive(Debug, Default)]
pub(crate) struct NeighbourTable {
    read: Option<Instant>,
    entries: HashMap<(u32, Address), NeighbourEntry>,
}

impl NeighbourTable {
    fn entry(&mut self, interface: u32, address: Address) -> Result<Option<NeighbourEntry>> {
        if self.read.is_none_or(|read| read.elapsed() >= SAME_TABLE) {
            self.read = None;
            self.entries.clear();
            for family in FAMILIES {
                let table = table(family)?;
                let entries = table.rows().filter_map(entry);
                self.entries.extend(entries.map(|entry| ((entry.interface, entry.address), entry)));
            }
            self.read = Some(Instant::now());
        }
        Ok(self.entries.get(&(interface, address)).copied())
    }
}

/// The kernel's entry of a neighbour; `None` if it has none. From the whole table, a copy of up to
/// [`SAME_TABLE`] ago, where Windows looks up no single entry.
pub(crate) fn neighbour(interface: u32, address: Address, copy: &mut NeighbourTable) -> Result<Option<NeighbourEntry>> {
    let Some(look_up) = single_look_up() else { return copy.entry(interface, address) };
    // SAFETY: all-zero is a valid value.
    let mut row: MIB_IPNET_ROW2 = unsafe { zeroed() };
    row.InterfaceIndex = interface;
    row.Address = from_address(address, interface);
    // SAFETY: a row with interface and address.
    match unsafe { look_up(&raw mut row) } {
        // SAFETY: a whole row, which lives until the end of this function.
        0 => Ok(entry(unsafe { RowRef::new(&raw const row) })),
        // The last one: the interface is gone.
        ERROR_NOT_FOUND | ERROR_NOT_SUPPORTED | ERROR_FILE_NOT_FOUND => Ok(None),
        code => Err(refused("look up a neighbour", code)),
    }
}

fn single_look_up() -> Option<GetIpNetEntry2> {
    static FOUND: OnceLock<Option<GetIpNetEntry2>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let found = ip_helper(c"GetIpNetEntry2")?;
        // SAFETY: the function of this name has this type.
        Some(unsafe { transmute::<unsafe extern "system" fn() -> isize, GetIpNetEntry2>(found) })
    })
}

fn table(family: u16) -> Result<MibTable<MIB_IPNET_TABLE2>> {
    // SAFETY: it stores such a table.
    unsafe { MibTable::read("list the neighbours", |place| GetIpNetTable2(family, place)) }
}

fn entry(row: RowRef<'_, MIB_IPNET_ROW2>) -> Option<NeighbourEntry> {
    let (bytes, length) = (field!(row.PhysicalAddress), field!(row.PhysicalAddressLength));
    Some(NeighbourEntry {
        interface: field!(row.InterfaceIndex),
        address: to_address(&field!(row.Address))?,
        mac: bytes.get(..length as usize).and_then(ethernet_address),
        state: NeighbourState::from_number(field!(row.State)),
    })
}
