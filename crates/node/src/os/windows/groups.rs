//! The interfaces by which groups are joined and sent to.

use socket2::SockRef;
use std::io;
use std::net::{IpAddr, UdpSocket};

/// The number of the interface with an address.
pub(crate) fn interface_index(address: IpAddr) -> io::Result<u32> {
    let all = if_addrs::get_if_addrs()?;
    let own = all.into_iter().find(|interface| interface.ip() == address);
    own.and_then(|interface| interface.index).ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
}

/// Has a socket that is bound to this address send to groups by the address's interface.
pub(crate) fn send_to_groups_by(socket: &UdpSocket, address: IpAddr) -> io::Result<()> {
    let socket = SockRef::from(socket);
    match address {
        IpAddr::V4(address) => socket.set_multicast_if_v4(&address),
        IpAddr::V6(_) => socket.set_multicast_if_v6(interface_index(address)?),
    }
}
