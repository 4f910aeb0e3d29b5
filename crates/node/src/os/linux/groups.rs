//! The interfaces by which groups are joined and sent to.

use nix::errno::Errno;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::if_nametoindex;
use nix::sys::socket::sockopt::BindToDevice;
use nix::sys::socket::{SockaddrStorage, setsockopt};
use std::ffi::OsString;
use std::io;
use std::net::{IpAddr, UdpSocket};

/// The number of the interface with an address.
pub(crate) fn interface_index(address: IpAddr) -> io::Result<u32> {
    Ok(if_nametoindex(interface(address)?.as_os_str())?)
}

/// Has a socket that is bound to this address send to groups by the address's interface.
pub(crate) fn send_to_groups_by(socket: &UdpSocket, address: IpAddr) -> io::Result<()> {
    if address.is_ipv4() {
        // Linux does so because of the socket's bound address, as with IP_MULTICAST_IF
        // (ip_route_output_key).
        return Ok(());
    }
    Ok(setsockopt(socket, BindToDevice, &interface(address)?)?)
}

/// The name of the interface with an address.
fn interface(address: IpAddr) -> io::Result<OsString> {
    let is_it = |storage: &SockaddrStorage| {
        let v4 = storage.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
        v4.or_else(|| storage.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip()))) == Some(address)
    };
    getifaddrs()?
        .find(|interface| interface.address.as_ref().is_some_and(is_it))
        .map(|interface| interface.interface_name.into())
        .ok_or_else(|| Errno::EADDRNOTAVAIL.into())
}
