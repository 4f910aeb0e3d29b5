//! Why a socket, or a whole program, is not on the fast path: a number for the table in the region
//! and for messages, and a text for users (rule 3: never silently slow).

use std::fmt;

macro_rules! reasons {
    ($( $(#[$doc:meta])* $name:ident = $code:literal : $text:literal ; )*) => {
        /// Why something is not accelerated. The code fits into
        /// [`tickwire_stack::table::SocketRow::reason`].
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum Reason {
            $( $(#[$doc])* $name = $code, )*
        }

        impl Reason {
            /// Every reason.
            pub const ALL: &'static [Self] = &[$( Self::$name ),*];

            /// The reason with a given code.
            #[must_use]
            pub const fn from_code(code: u32) -> Option<Self> {
                match code {
                    $( $code => Some(Self::$name), )*
                    _ => None,
                }
            }

            /// The text for users: the problem, and where it makes sense, what to do.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $( Self::$name => $text, )*
                }
            }
        }
    };
}

reasons! {
    /// It is accelerated.
    #[default]
    None = 0: "accelerated";
    /// No process answers at the service's socket.
    NoService = 1: "no service answers: start it with `tickwire service`, or set TICKWIRE_SOCKET to its socket";
    /// The service's socket may not be opened by this user.
    NotPermitted = 2: "this user may not use the service: its socket's group and mode decide which users may";
    /// Program library and service are of different versions.
    Version = 3: "library and service are of different versions: restart the service after an update";
    /// As many lanes as the configuration allows in total.
    LaneLimit = 4: "all lanes are taken: raise the limit of lanes in the service's configuration";
    /// As many lanes as the configuration allows one user.
    UserLaneLimit = 5: "this user has all the lanes it may have: raise the limit per user in the service's configuration";
    /// As much memory as the configuration allows.
    MemoryLimit = 6: "lanes use all the memory they may: raise the memory limit in the service's configuration";
    /// As many claims as the configuration allows in total.
    FlowLimit = 7: "all flows are taken: raise the limit of flows in the service's configuration";
    /// As many claims as the configuration allows one user.
    UserFlowLimit = 8: "this user has all the flows it may have: raise the limit per user in the service's configuration";
    /// More requests than a connection may make in a time.
    RateLimit = 9: "too many requests in a short time";
    /// The service could not do it; its log says more.
    ServiceError = 10: "the service failed to set it up: see its log";
    /// The service ends.
    Stopping = 11: "the service is stopping";
    /// The lane of the program is gone.
    LaneGone = 12: "the program's lane is gone";
    /// The lane's own pool is full.
    LaneFull = 13: "the lane has no room for another socket";
    /// The service has no interface to accelerate.
    NoInterface = 14: "the service accelerates no interface: name one with --interface";
    /// The peer is this host.
    Loopback = 15: "the peer is this host itself: the kernel's loopback is the way";
    /// The route leaves by an interface that the service does not accelerate.
    Interface = 16: "the route leaves by an interface that is not accelerated";
    /// The socket is bound to a device that the service does not accelerate.
    BoundDevice = 17: "the socket is bound to a device that is not accelerated";
    /// The address is not one of an accelerated interface.
    Address = 18: "the socket's address belongs to no accelerated interface";
    /// Broadcasts are the kernel's.
    Broadcast = 19: "broadcasts go through the kernel";
    /// There is no route to the destination.
    NoRoute = 20: "there is no route to the destination";
    /// The neighbour does not answer.
    NoNeighbour = 21: "the next hop does not answer";
    /// Not TCP or UDP over IPv4 or IPv6.
    Type = 22: "only TCP and UDP sockets over IPv4 and IPv6 are accelerated";
    /// The socket passed as proof is not bound.
    NotBound = 23: "the socket is not bound to a port, or at no address that is known";
    /// The socket passed as proof lives in another network namespace.
    Namespace = 24: "the socket belongs to another network namespace than the service";
    /// Another program on the fast path has this address and port, and they do not share it by
    /// SO_REUSEPORT.
    PortTaken = 25: "another accelerated program has claimed this address and port";
    /// More programs share the port or group than the divert program can serve.
    ShareLimit = 26: "too many accelerated programs share this port or group";
    /// A multicast datagram that local programs receive goes through the kernel.
    MulticastLoop = 27: "multicast that loops back to this host goes through the kernel (IP_MULTICAST_LOOP is on)";
    /// The group could not be joined on the fast path.
    Group = 28: "this kind of group membership is not accelerated";
    /// The socket has an option that only the kernel can honour.
    Option = 29: "the socket has an option that only the kernel's stack provides";
    /// The socket was made before the lane, or inherited from a program without one.
    Early = 30: "the socket is older than the program's lane";
    /// A statically linked or set-user-id program cannot be helped by a preloaded library.
    Program = 31: "a static or set-user-id program cannot be accelerated";
    /// Switched off by configuration or environment.
    Disabled = 32: "acceleration is switched off for it";
    /// The request was not understood or does not fit the state of the lane.
    BadRequest = 33: "the service did not accept the request";
    /// The device cannot carry lanes.
    Device = 34: "the interface cannot take the divert program";
    /// Nothing is known about it yet: the socket has neither been bound nor connected.
    Idle = 35: "not bound or connected yet";
    /// The socket names an interface by which the destination's route does not leave.
    OtherWay = 37: "the socket names another interface than that of the route";
    /// The program passed the descriptor on, and the process that received it knows only the kernel
    /// socket.
    Passed = 38: "the program passed the socket to another process (over a Unix socket, by WSADuplicateSocket)";
    /// The service that had made its lane ended; the program's new sockets are accelerated again.
    Restarted = 39: "the socket is older than the service, which was started again: restart the program to accelerate it";
    /// IP_RECVERR and its kin.
    Errors = 40: "the socket asks for a queue of errors, which the kernel keeps (IP_RECVERR, IPV6_RECVERR)";
    /// SO_TIMESTAMPING, SO_TXTIME; SO_TIMESTAMP on a stream.
    Stamps = 41: "the socket asks for time stamps or send times of the kernel (SO_TIMESTAMPING, SO_TXTIME)";
    /// SO_ZEROCOPY.
    ZeroCopy = 42: "the socket asks the kernel to send from the program's memory (SO_ZEROCOPY)";
    /// SO_ATTACH_FILTER and its kin.
    Filter = 43: "the program has put a filter on the socket (SO_ATTACH_FILTER, SO_ATTACH_BPF)";
    /// Options for the host's routing and packet schedulers.
    Policy = 44: "the socket asks for its own routing or pace (SO_MARK, SO_DONTROUTE, SO_MAX_PACING_RATE)";
    /// MSG_MORE and UDP_CORK on datagrams.
    Pieces = 45: "the kernel puts datagrams together from pieces (MSG_MORE, UDP_CORK)";
    /// TCP_MD5SIG, TCP-AO, kernel TLS.
    Security = 46: "the kernel is to sign or encrypt the connection (TCP_MD5SIG, TCP_AO, TCP_ULP)";
    /// TCP_CONGESTION.
    Congestion = 47: "the socket asks for another congestion control than cubic or reno (TCP_CONGESTION)";
    /// `limits.memberships` of the configuration.
    MembershipLimit = 48: "all group memberships are taken: raise the limit of memberships in the service's configuration";
    /// `limits.memberships_per_user`.
    UserMembershipLimit = 49: "this user has all the group memberships it may have: raise the limit per user in the service's configuration";
    /// `limits.memberships_per_lane`.
    LaneMembershipLimit = 50: "this program has all the group memberships it may have: raise the limit per lane in the service's configuration";
    /// Without diagnostics it is not known which connections of a port are the kernel's.
    NoDiagnostics = 51: "this kernel does not tell its TCP connections: load its module tcp_diag (CONFIG_INET_DIAG) and start the service anew";
    /// The program denies itself system calls, and some that the lane needs may be among them.
    Confined = 52: "the program confines itself by seccomp, which a lane cannot work under: run it without acceleration";
    /// A process forks after it gave up the rights, or the view of the file system, by which it
    /// reached the service.
    Unreachable = 53: "a child cannot reach the service, because its parent gave up the rights to (chroot, user, namespace) before the fork";
    /// It accepts the connection, and does not answer within the timeout.
    Silent = 54: "the service does not answer: it may be stuck (its log may say why; start it again)";
    /// What is at the service's path is a file, or a socket of another kind.
    NotService = 55: "what is at the service's path is not the service's socket: set TICKWIRE_SOCKET to that, or start `tickwire service`";
    /// The service ended without notice, or was killed.
    Lost = 56: "the connection to the service was lost";
    /// Packets to a loopback address come from this host.
    BoundLoopback = 57: "the socket is bound to a loopback address, which only this host reaches";
    /// On Linux a socket that is connected afterwards is shut from the beginning.
    Shut = 58: "the program shut the socket before it was connected";
    /// A lane has some: of its memory, its devices and its connection to the service.
    Descriptors = 59: "the program has as many descriptors as it may, and a lane needs some of its own: raise that limit (RLIMIT_NOFILE, `ulimit -n`)";
    /// A process that a program of the lane forked, or which it became.
    Processes = 60: "the lane has as many processes as it can have";
    /// An address of an interface that is not accelerated, or that another interface with the same
    /// Ethernet address has.
    Source = 61: "lanes cannot send from this address by the interface of its route: name all interfaces to the service that have the host's addresses";
    /// The program reads packets from the wire, where diverted ones are not seen.
    PacketSocket = 62: "the program reads packets by a packet or raw socket (AF_PACKET, SOCK_RAW), which sees only those that come to the kernel";
    /// Its packets are received by another interface, which also has the addresses of the host.
    Port = 63: "the interface is a port of a bridge or a bond: name that to the service instead";
    /// Divert does not know by which interface a port's packets may arrive.
    OneOfSeveral = 64: "the socket is bound to one of several accelerated interfaces, and packets for its port may arrive by any of them";
    /// A process that has no lane, or another one, got it by SCM_RIGHTS.
    NotMoved = 66: "the socket came from another process over a Unix socket, and only the kernel's socket comes along: pass it by fork or exec";
    /// Divert in XDP would take frames of other VLANs for the interface's own.
    TagsHidden = 67: "the interface hides VLAN tags from XDP, so that frames of other VLANs could reach programs: attach divert by tc, or name the interface under `untagged` if no tagged frames arrive there";
    /// Its children could not have it on the lane (`CLONE_NEWPID` and its kin).
    Elsewhere = 68: "the program made a child in another namespace, which shares only the kernel's sockets";
    /// The service runs without a driver, by its administrator's choice.
    NoDriver = 70: "the service runs without a driver for packets: start it with one (`tickwire service --driver`)";
    /// Windows: packets that the lane takes are not seen by the firewall, which would block these.
    FirewallBlocks = 80: "Windows' firewall blocks incoming packets for this program and port: add an inbound rule that allows them";
    /// The rule is for certain remote addresses or interfaces, which a lane does not look at.
    FirewallRestricts = 81: "Windows' firewall lets packets for this program and port in from certain addresses only, which only the kernel can honour";
    /// The firewall's service runs, and gives no answer.
    FirewallUnknown = 82: "Windows' firewall did not say whether it lets packets for this program and port in: see the service's log";
    /// Windows: packets that a lane sends are not seen by the firewall, which would block some.
    FirewallKeepsIn = 90: "Windows' firewall has a rule against outgoing packets of this program, or blocks them by default, which only the kernel can honour";
    /// Windows: `service_windows::users`.
    UserConnectionLimit = 83: "this user has all the connections to the service it may have";
    /// Windows: `service_windows::users`.
    UserPathLimit = 84: "this user has all the paths to destinations it may have";
    /// Windows: `service_windows::users`.
    UserCaptureLimit = 87: "this user has all the captures it may have: end one of them";
    /// Windows: `service_windows::users`. Neighbouring ports are one entry of the filter.
    UserPortLimit = 89: "this user's programs have all the ports that they may have in the driver's filter: let them use neighbouring ports";
    /// Windows: of all users.
    CaptureLimit = 88: "as many captures run as the service has room for: end one of them";
    /// Windows: of all, or of one process.
    ConnectionLimit = 86: "the service has all the connections it may have, or this process has";
    /// Windows: a call about the socket waits for another one that the program is in.
    HandleBusy = 85: "Windows did not say in time what the socket is: another thread of the program waits in a call on it";
}

impl Reason {
    /// The number of this reason in messages and table rows.
    #[must_use]
    pub const fn code(self) -> u16 {
        self as u16
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_and_go_back() {
        for &reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code().into()), Some(reason));
            assert!(!reason.text().is_empty());
        }
        assert_eq!(Reason::from_code(65_535), None);
    }
}
