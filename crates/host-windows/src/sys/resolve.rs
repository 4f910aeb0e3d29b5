//! Resolution of a neighbour (`ResolveIpNetEntry2`).

use super::library::ip_helper;
use super::{check, is_wine};
use crate::error::{IpHelperError, Result};
use std::mem::{transmute, zeroed};
use std::ptr::null;
use std::sync::OnceLock;
use tickwire_stack::addr::Address;
use tickwire_windows_abi::sockaddr::from_address;
use windows_sys::Win32::NetworkManagement::IpHelper::MIB_IPNET_ROW2;
use windows_sys::Win32::Networking::WinSock::SOCKADDR_INET;

type ResolveIpNetEntry2 = unsafe extern "system" fn(*mut MIB_IPNET_ROW2, *const SOCKADDR_INET) -> u32;

/// Whether [`resolve`] can be called.
pub(crate) fn can_resolve() -> bool {
    found().is_some()
}

/// Has the kernel resolve a neighbour anew, and waits for the answer: seconds if there is none.
pub(crate) fn resolve(interface: u32, neighbour: Address, source: Address) -> Result<()> {
    let what = "resolve a neighbour";
    let function = "ResolveIpNetEntry2";
    let resolve = found().ok_or(IpHelperError::Missing { what, function })?;
    // SAFETY: all-zero is a valid value.
    let mut row: MIB_IPNET_ROW2 = unsafe { zeroed() };
    row.InterfaceIndex = interface;
    row.Address = from_address(neighbour, interface);
    let from = from_address(source, interface);
    let from = if source.is_unspecified() { null() } else { &raw const from };
    // SAFETY: a row with interface and address, and a source address or null.
    check(what, unsafe { resolve(&raw mut row, from) })
}

fn found() -> Option<ResolveIpNetEntry2> {
    static FOUND: OnceLock<Option<ResolveIpNetEntry2>> = OnceLock::new();
    *FOUND.get_or_init(|| {
        // Wine ends the process that calls it.
        let found = ip_helper(c"ResolveIpNetEntry2").filter(|_| !is_wine())?;
        // SAFETY: the function of this name has this type.
        Some(unsafe { transmute::<unsafe extern "system" fn() -> isize, ResolveIpNetEntry2>(found) })
    })
}
