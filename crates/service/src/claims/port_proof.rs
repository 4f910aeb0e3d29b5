//! The proof of a claim: what the kernel reports about the socket that a program passed. Nothing
//! that the program says counts.

use nix::sys::socket::{SockaddrLike, SockaddrStorage, getpeername, getsockname, getsockopt, sockopt};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use tickwire_lane_linux::sys_socket;
use tickwire_registry::{Bound, ProvenSocket};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_steer::tables::Protocol;

/// What the kernel reports about a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortProof {
    pub(crate) bound: Bound,
    /// It listens (TCP).
    pub(crate) listens: bool,
    /// It is bound and nothing else: it neither listens nor has, or ever asked for, a connection of
    /// the kernel's (TCP).
    pub(crate) idle: bool,
    /// The interface it is bound to, 0 if to none.
    pub(crate) interface: u32,
    /// The type of service of its packets of IPv4, and of those of IPv6.
    pub(crate) services: [u8; 2],
}

impl PortProof {
    /// What it says about the socket.
    pub(crate) const fn socket(&self) -> ProvenSocket {
        ProvenSocket { bound: self.bound, listens: self.listens, idle: self.idle }
    }
}

/// Why a socket proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// It is no socket, or the kernel does not report what it is.
    NoSocket,
    /// It is neither TCP nor UDP over IPv4 or IPv6 (MPTCP, SCTP, UDP-Lite, raw, ...).
    Kind,
    /// It was made in another network namespace, whose ports mean nothing here.
    Namespace,
    /// It is bound to no port.
    Unbound,
}

/// Judges sockets for one service: knows the service's own namespace.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Judge {
    cookie: u64,
}

impl Judge {
    /// A judge of sockets of the calling thread's network namespace.
    pub(crate) fn new() -> io::Result<Self> {
        let probe = std::net::UdpSocket::bind((std::net::Ipv4Addr::UNSPECIFIED, 0))?;
        Ok(Self { cookie: sys_socket::namespace_cookie(probe.as_fd())? })
    }

    /// The service's network namespace, as `SO_NETNS_COOKIE` reports it.
    pub(crate) fn namespace(&self) -> u64 {
        self.cookie
    }

    /// Reads from the kernel what a socket is and where it is bound.
    pub(crate) fn examine(&self, socket: BorrowedFd<'_>) -> Result<PortProof, Flaw> {
        let domain = sys_socket::domain(socket).map_err(|_| Flaw::NoSocket)?;
        let kind = sys_socket::kind(socket).map_err(|_| Flaw::NoSocket)?;
        let number = sys_socket::protocol(socket).map_err(|_| Flaw::NoSocket)?;
        if domain != libc::AF_INET && domain != libc::AF_INET6 {
            return Err(Flaw::Kind);
        }
        let protocol = match (kind, number) {
            (libc::SOCK_STREAM, libc::IPPROTO_TCP) => Protocol::Tcp,
            (libc::SOCK_DGRAM, libc::IPPROTO_UDP) => Protocol::Udp,
            _ => return Err(Flaw::Kind),
        };
        // Any port may be bound in a namespace that a user has made; that gives no right to the
        // port here.
        if sys_socket::namespace_cookie(socket).map_err(|_| Flaw::NoSocket)? != self.cookie {
            return Err(Flaw::Namespace);
        }
        let local = local_name(socket).ok_or(Flaw::NoSocket)?;
        if local.port == 0 {
            return Err(Flaw::Unbound);
        }
        Ok(PortProof {
            bound: Bound {
                protocol,
                local,
                dual: is_dual(socket, local.address),
                shares: sys_socket::reuses_port(socket).unwrap_or(false),
                reuses: getsockopt(&socket, sockopt::ReuseAddr).unwrap_or(false),
            },
            listens: sys_socket::listens(socket).unwrap_or(false),
            idle: protocol == Protocol::Tcp && is_idle(socket),
            interface: sys_socket::bound_interface(socket).unwrap_or(0),
            services: [sys_socket::type_of_service(socket), sys_socket::traffic_class(socket)]
                .map(Result::unwrap_or_default),
        })
    }
}

/// Whether a socket that is bound to this address has both families: IPv6's "any" without
/// `IPV6_V6ONLY`, which does not change any more.
fn is_dual(socket: BorrowedFd<'_>, address: Address) -> bool {
    address == Address::ANY && getsockopt(&socket, sockopt::Ipv6V6Only).is_ok_and(|only| !only)
}

/// TCP_CLOSE, as Linux numbers the states.
const CLOSED: u8 = 7;

fn is_idle(socket: BorrowedFd<'_>) -> bool {
    sys_socket::tcp_state(socket).is_ok_and(|state| state == CLOSED)
}

/// Whether a socket has a peer.
pub(crate) fn is_connected(socket: BorrowedFd<'_>) -> bool {
    getpeername::<SockaddrStorage>(socket.as_raw_fd()).is_ok()
}

/// What must remain true of a claim's socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Duty {
    /// It listens at this address and port.
    Listen,
    /// It is bound to this address and port, or to this port of any address of the family, and has
    /// no connection of its own.
    Idle,
    /// It has this port.
    Port,
    /// A UDP socket: it is bound to this address and port; one that is bound to any address has but
    /// one while it is connected.
    Datagrams,
}

/// The address for which a socket gives the right to what was claimed with it; `None` if it gives
/// none any more. A program can give the right up: it stops listening, disconnects, or binds the
/// socket anew. Then the port may belong to another socket. So may the port of a connected UDP
/// socket at other addresses.
pub(crate) fn right(socket: BorrowedFd<'_>, local: Endpoint, duty: Duty) -> Option<Address> {
    let name = local_name(socket).filter(|name| name.port == local.port)?;
    let holds = match duty {
        Duty::Listen => name == local && sys_socket::listens(socket).unwrap_or(false),
        Duty::Idle => {
            let any = name.address.is_unspecified()
                && (name.address.family() == local.address.family() || is_dual(socket, name.address));
            (name == local || any) && is_idle(socket)
        }
        Duty::Port => true,
        Duty::Datagrams if name.address.is_unspecified() => true,
        Duty::Datagrams if local.address.is_unspecified() => {
            return (is_connected(socket) && !name.address.is_loopback()).then_some(name.address);
        }
        Duty::Datagrams => name == local,
    };
    holds.then_some(local.address)
}

/// The address and port a socket is bound to; for an IPv4 socket in mapped form.
pub(crate) fn local_name(socket: BorrowedFd<'_>) -> Option<Endpoint> {
    let name: SockaddrStorage = getsockname(socket.as_raw_fd()).ok()?;
    match name.family()? {
        nix::sys::socket::AddressFamily::Inet => {
            let v4 = name.as_sockaddr_in()?;
            Some(Endpoint::new(Address::v4(v4.ip().octets()), v4.port()))
        }
        nix::sys::socket::AddressFamily::Inet6 => {
            let v6 = name.as_sockaddr_in6()?;
            Some(Endpoint::new(Address::from(v6.ip()), v6.port()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};
    use std::os::unix::net::UnixDatagram;

    #[test]
    fn a_bound_socket_proves_its_address_and_port() {
        let judge = Judge::new().unwrap();
        let udp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let proof = judge.examine(udp.as_fd()).unwrap();
        assert_eq!(proof.bound.protocol, Protocol::Udp);
        assert_eq!(proof.bound.local, Endpoint::from(udp.local_addr().unwrap()));
        assert!(!proof.listens && !proof.bound.dual && !proof.bound.shares);
        let listener = TcpListener::bind("[::]:0").unwrap();
        let proof = judge.examine(listener.as_fd()).unwrap();
        assert!(proof.listens && proof.bound.dual && !proof.idle);
        let local = proof.bound.local;
        let holds = |duty| right(listener.as_fd(), local, duty) == Some(local.address);
        assert!(holds(Duty::Listen) && !holds(Duty::Idle));
        nix::sys::socket::shutdown(listener.as_raw_fd(), nix::sys::socket::Shutdown::Both).unwrap();
        assert!(!holds(Duty::Listen), "it stopped");
        assert_eq!(proof.bound.protocol, Protocol::Tcp);
    }

    #[test]
    fn a_connected_socket_has_a_right_to_one_address_only() {
        let peer = UdpSocket::bind("[::1]:0").unwrap();
        let (any, one) = (UdpSocket::bind("[::]:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let rights = |socket: &UdpSocket, local| right(socket.as_fd(), local, Duty::Datagrams);
        let (of_any, of_one) = (any.local_addr().unwrap().into(), one.local_addr().unwrap().into());
        assert_eq!(rights(&any, of_any), Some(Address::ANY));
        assert_eq!(rights(&one, of_one), Some(of_one.address));
        assert_eq!(rights(&one, Endpoint::new(of_one.address, of_one.port ^ 1)), None);
        any.connect(peer.local_addr().unwrap()).unwrap();
        assert_eq!(rights(&any, of_any), None, "packets on the loopback are the kernel's");
    }

    #[test]
    fn what_is_no_bound_internet_socket_proves_nothing() {
        use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let connected = std::net::TcpStream::connect(server.local_addr().unwrap()).unwrap();
        assert!(!is_idle(connected.as_fd()));
        let judge = Judge::new().unwrap();
        let unbound = socket(AddressFamily::Inet, SockType::Stream, SockFlag::empty(), None).unwrap();
        assert_eq!(judge.examine(unbound.as_fd()), Err(Flaw::Unbound));
        let (unix, _other) = UnixDatagram::pair().unwrap();
        assert_eq!(judge.examine(unix.as_fd()), Err(Flaw::Kind));
        assert_eq!(judge.examine(std::fs::File::open("/dev/null").unwrap().as_fd()), Err(Flaw::NoSocket));
    }

    #[test]
    fn a_socket_of_another_namespace_proves_nothing_here() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return;
        }
        let judge = Judge::new().unwrap();
        let elsewhere = tickwire_lab::LabPair::new().unwrap();
        let foreign = elsewhere.a.within(|| UdpSocket::bind("0.0.0.0:22").unwrap()).unwrap();
        assert_eq!(judge.examine(foreign.as_fd()), Err(Flaw::Namespace));
    }
}
