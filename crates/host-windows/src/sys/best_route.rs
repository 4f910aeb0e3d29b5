//! The route that Windows itself selects (`GetBestRoute2`).

use super::is_wine;
use super::routes::route;
use super::table::RowRef;
use crate::path::RouteChoice;
use std::mem::MaybeUninit;
use std::ptr::null;
use tickwire_stack::path::Query;
use tickwire_windows_abi::sockaddr::{address as to_address, from_address};
use windows_sys::Win32::Foundation::{
    ERROR_FILE_NOT_FOUND, ERROR_HOST_UNREACHABLE, ERROR_NETWORK_UNREACHABLE, ERROR_NOT_FOUND,
};
use windows_sys::Win32::NetworkManagement::IpHelper::{GetBestRoute2, MIB_IPFORWARD_ROW2};
use windows_sys::Win32::Networking::WinSock::SOCKADDR_INET;

/// What Windows selected.
pub(crate) enum BestRoute {
    /// A route.
    Found(RouteChoice),
    /// No route leads there.
    NoRoute,
    /// Windows does not tell: the tables decide.
    Unknown,
}

/// Has Windows select a route and a source address.
pub(crate) fn best_route(query: &Query) -> BestRoute {
    if is_wine() {
        // It is not supported there, and says so in the log each time.
        return BestRoute::Unknown;
    }
    let destination = from_address(query.destination, query.interface);
    let source = from_address(query.source, query.interface);
    let has_source = !query.source.is_unspecified();
    let source = if has_source { &raw const source } else { null() };
    let mut row = MaybeUninit::<MIB_IPFORWARD_ROW2>::zeroed();
    let mut chosen = MaybeUninit::<SOCKADDR_INET>::zeroed();
    // SAFETY: addresses, one of them null if it is not given, and places for the results. An
    // interface number of 0 means any.
    let code = unsafe {
        GetBestRoute2(null(), query.interface, source, &raw const destination, 0, row.as_mut_ptr(), chosen.as_mut_ptr())
    };
    match code {
        0 => {}
        ERROR_NOT_FOUND | ERROR_FILE_NOT_FOUND | ERROR_NETWORK_UNREACHABLE | ERROR_HOST_UNREACHABLE => {
            return BestRoute::NoRoute;
        }
        _ => return BestRoute::Unknown,
    }
    // SAFETY: Windows has written the row, which was zero before.
    let row = unsafe { RowRef::new(row.as_ptr()) };
    // SAFETY: Windows has written the address, which was zero before.
    let chosen = to_address(unsafe { chosen.assume_init_ref() }).filter(|chosen| !chosen.is_unspecified());
    let source = if has_source { Some(query.source) } else { chosen };
    let found = route(row).map(|route| RouteChoice { interface: route.interface, gateway: route.gateway, source });
    found.map_or(BestRoute::Unknown, BestRoute::Found)
}
