//! The messages themselves. The number in brackets is how many descriptors come with a message.

use super::codec::{
    Field, MAX_MESSAGE, MAX_REQUEST, MalformedMessage, Reader, Writer, field_enum, field_struct, messages,
};
use super::list::List;
use super::name::Name;
use super::reason::Reason;
use std::fmt;
use tickwire_stack::Limits;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::path::{PathInfo, Query};
use tickwire_stack::tcp::Leaving;

/// A message in one of the two directions.
pub trait MessageTo: Sized {
    /// Passes the message as bytes to `send`. `number` pairs a reply with its request; pushes have
    /// 0.
    fn encode(&self, number: u32, send: &mut dyn FnMut(&[u8]));

    /// Reads a message that came with so many descriptors.
    ///
    /// # Errors
    /// [`MalformedMessage`], which says what is wrong with it.
    fn decode(bytes: &[u8], descriptors: usize) -> Result<(u32, Self), MalformedMessage>;
}

/// Secret of a lane: a process that knows it may attach to the lane. Never printed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct Token(pub [u8; 16]);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Field for Token {
    fn put(&self, writer: &mut Writer<'_>) {
        self.0.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        Field::take(reader).map(Self)
    }
}

/// The service's name for a claim; means something only on the lane that made it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Claim(pub u64);

impl Field for Claim {
    fn put(&self, writer: &mut Writer<'_>) {
        self.0.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        Field::take(reader).map(Self)
    }
}

/// What a claim covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ClaimKind {
    /// All packets to the socket's address and port: listeners and unconnected UDP sockets.
    Bound,
    /// Packets to it from one remote address and port.
    Flow,
    /// Packets to an ephemeral port that the service has bound, from which the lane opens
    /// connections ([`Request::Ports`]). Cannot be claimed with a socket.
    Ephemeral,
}

field_enum!(ClaimKind as "claim kind" { Bound = 1, Flow = 2, Ephemeral = 3 });

/// How a divert program is attached to an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AttachMode {
    /// It is not attached: [`Accelerated::reason`] says why.
    None,
    /// XDP in the driver.
    Native,
    /// XDP in the kernel's generic receive path.
    Generic,
    /// A traffic control classifier at the interface's ingress.
    Tc,
    /// A driver gives the packets to the service, which judges them itself (Windows).
    Driver,
}

field_enum!(AttachMode as "attach mode" { None = 0, Native = 1, Generic = 2, Tc = 3, Driver = 4 });

/// A few remote endpoints; the caller sends the rest in further messages.
pub type Remotes = List<Endpoint, 8>;

/// A part of a claim that is released.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClaimPart {
    /// The claim.
    pub claim: Claim,
    /// The remote of one flow of a converted claim; all of the claim if its port is 0.
    pub remote: Endpoint,
}

field_struct!(ClaimPart { claim, remote });

/// What one message releases; the caller sends the rest in further messages.
pub type Parts = List<ClaimPart, 8>;

/// An ephemeral port that the service has bound for a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EphemeralPort {
    /// The claim on it, a whole one.
    pub claim: Claim,
    /// Its number.
    pub port: u16,
}

field_struct!(EphemeralPort { claim, port });

/// The ports of one answer to [`Request::Ports`].
pub type EphemeralPorts = List<EphemeralPort, 16>;

/// The interfaces on which a lane has a group.
pub type Interfaces = List<u32, 32>;

/// A list of figures, whose meaning depends on the request (see [`CountersOf`]).
pub type Figures = List<u64, 96>;

/// The scope of requested counters of divert and guard. The figures are in the order of the
/// counters' names: in the `bpf` module of `tickwire-lane-linux`; on Windows in the service's
/// `figures`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountersOf {
    /// All of the host: what divert did.
    Host,
    /// One lane: what divert sent to it and what its guard did.
    Lane,
}

field_enum!(CountersOf as "counter scope" { Host = 1, Lane = 2 });

/// What the service reports about a lane to `tickwire stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LaneInfo {
    /// The lane's number; 0 for a program that was refused one.
    pub lane: u32,
    /// The process that requested it.
    pub pid: u32,
    /// Its user.
    pub uid: u32,
    /// The program's name.
    pub program: Name,
    /// Processes attached.
    pub processes: u32,
    /// Claims held.
    pub claims: u32,
    /// Age in milliseconds.
    pub age_ms: u64,
    /// The interface index of its device.
    pub interface: u32,
    /// Why it has no lane, [`Reason::None`] if it has one.
    pub reason: Reason,
    /// Limits of its region, with which the region can be mapped.
    pub limits: Limits,
}

field_struct!(LaneInfo { lane, pid, uid, program, processes, claims, age_ms, interface, reason, limits });

/// One claim, as the service holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClaimInfo {
    /// Its name.
    pub claim: Claim,
    /// What it covers.
    pub kind: ClaimKind,
    /// IP protocol number (6, 17).
    pub protocol: u8,
    /// The socket's address and port.
    pub local: Endpoint,
    /// The remote of a flow.
    pub remote: Endpoint,
}

field_struct!(ClaimInfo { claim, kind, protocol, local, remote });

/// What the service reports about an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accelerated {
    /// Its index.
    pub interface: u32,
    /// Its name.
    pub name: Name,
    /// Its driver.
    pub driver: Name,
    /// Its Ethernet address.
    pub mac: Mac,
    /// Its MTU in bytes.
    pub mtu: u32,
    /// How divert is attached.
    pub mode: AttachMode,
    /// Why it is not, [`Reason::None`] if it is.
    pub reason: Reason,
}

field_struct!(Accelerated { interface, name, driver, mac, mtu, mode, reason });

messages! {
    /// From the program (or a tool) to the service.
    Request, 0x100, MAX_REQUEST;
    /// Make a lane for this process. Answered by [`Reply::Lane`] or [`Reply::Refused`].
    Hello = 1 [0] {
        /// The program's name, for display.
        program: Name,
        /// The layout hash of the stack memory that the library knows; another than the service's
        /// is refused.
        layout: u64,
    };
    /// This process shares an existing lane (fork, exec). Answered by [`Reply::Attached`], or by
    /// [`Reply::Lane`] if descriptors were asked for, or by [`Reply::Refused`].
    Attach = 2 [0] {
        /// The lane.
        lane: u32,
        /// Its secret.
        token: Token,
        /// Whether the lane's descriptors are wanted (after exec) or were inherited (after fork).
        descriptors: bool,
    };
    /// Divert packets to this lane that are for the address and port of the kernel socket passed
    /// along, which must be bound. Answered by [`Reply::Claimed`] or [`Reply::Refused`].
    Claim = 3 [1] {
        /// All packets to it, or one flow.
        kind: ClaimKind,
        /// The remote of a flow; ignored for [`ClaimKind::Bound`].
        remote: Endpoint,
    };
    /// A listener closes: enter exact flows for connections that it accepted; after the last
    /// message the claim covers these only. Answered by [`Reply::Done`].
    Convert = 4 [0] {
        /// The listener's claim.
        claim: Claim,
        /// Remotes of live connections.
        remotes: Remotes,
        /// Whether further remotes follow in another message.
        more: bool,
        /// Whether the kernel's listener closes with it; else that continues in its place.
        closes: bool,
    };
    /// Release claims, or flows of converted ones. Answered by [`Reply::Done`], or by
    /// [`Reply::Refused`] if any of them was not the lane's; all others are released even so.
    Release = 5 [0] {
        /// What.
        parts: Parts,
    };
    /// A UDP socket has joined a group, or left it, on some interface: the service reads from the
    /// claim's socket where it is a member, and copies the group's datagrams to the lane from
    /// there. Answered by [`Reply::Joined`] or, if the group is left to the kernel, by
    /// [`Reply::Refused`].
    Join = 6 [0] {
        /// The socket's claim.
        claim: Claim,
        /// The group.
        group: Address,
    };
    /// The group is left to the kernel, wherever the socket is a member. Answered by
    /// [`Reply::Done`].
    Leave = 7 [0] {
        /// The socket's claim.
        claim: Claim,
        /// The group.
        group: Address,
    };
    /// Resolve the path to a destination. Answered by [`Reply::Path`]; changes are then pushed for
    /// as long as the lane lives.
    Resolve = 8 [0] {
        /// Which.
        query: Query,
        /// Without a source address: whether packets from that which the host chooses go the same
        /// way ([`PathInfo::chosen`]).
        choose: bool,
    };
    /// The first lane whose number is above `after` (0: the first of all) and that the client may
    /// see; after the lanes, programs that have none. Answered by [`Reply::LaneInfo`] with a
    /// read-only descriptor of its region, on Windows of a copy of its counters and rows (none if
    /// it was refused a lane), or by [`Reply::Done`] after the last.
    ListLanes = 9 [0] {
        /// Where the last answer ended: its `cursor`.
        after: u64,
    };
    /// The first interface above `after`. Answered by [`Reply::Interface`], or [`Reply::Done`]
    /// after the last.
    ListInterfaces = 10 [0] {
        /// Index of the interface before.
        after: u32,
    };
    /// The first claim of a lane above `after`. Answered by [`Reply::Held`], or [`Reply::Done`]
    /// after the last.
    ListClaims = 11 [0] {
        /// The lane.
        lane: u32,
        /// The claim before.
        after: Claim,
    };
    /// Counters of divert and guard. Answered by [`Reply::Counters`].
    Counters = 12 [0] {
        /// Whose.
        of: CountersOf,
        /// The lane, if a lane's.
        lane: u32,
    };
    /// Send copies of diverted packets. Answered by [`Reply::Capturing`] with the reading end of a
    /// stream of records (see `capture`), or [`Reply::Refused`] if the connection has one already,
    /// or too many run; ends with the connection.
    Capture = 13 [0] {
        /// Of this lane; 0: of all that the client may see.
        lane: u32,
        /// At most so many bytes of each packet.
        snaplen: u32,
    };
    /// Make a device into which trains of segments can be written, once the lane first has use for
    /// it. Answered by [`Reply::Bulk`] or [`Reply::Refused`].
    Bulk = 14 [0];
    /// This process has no lane any more (it leaves the one that it had on this connection):
    /// listings are to say so for as long as the connection lasts. Answered by [`Reply::Done`], or
    /// [`Reply::Refused`] if there is no room to list it.
    OnKernel = 15 [0] {
        /// The program's name, for display.
        program: Name,
        /// Why.
        reason: Reason,
    };
    /// Bind ephemeral TCP ports at an address of the host, and divert packets for them to this
    /// lane, which opens connections from them without further requests. Answered by
    /// [`Reply::Ports`] or [`Reply::Refused`]. On Windows ports are only offered, of either
    /// protocol: the program binds a socket to one, and claims it with that.
    Ports = 16 [0] {
        /// The address.
        source: Address,
        /// How many are wanted. There may be fewer in the answer, and never more than
        /// [`EphemeralPorts::MAX`].
        count: u32,
    };
    /// The kernel is to continue a connection, which is frozen in the lane's stack. The descriptor
    /// is a memory file (`memfd_create`) with its bytes: first what was received and not read, then
    /// the send queue. Answered by [`Reply::TakenOver`]; after [`Reply::Refused`] nothing has
    /// changed; after [`Reply::Done`] neither the lane nor the kernel has it any more.
    TakeOver = 17 [1] {
        /// Its claim. If it is the connection's own, it has ended by the answer.
        claim: Claim,
        /// Whether the socket is to be one of IPv6, also for a connection of IPv4.
        v6: bool,
        /// The state of the connection.
        state: Leaving,
    };
}

messages! {
    /// From the service, in answer to a request.
    Reply, 0x200, MAX_MESSAGE;
    /// The lane is made (or, after [`Request::Attach`], this is it). Descriptors: region, receive
    /// ring, TAP device, doorbell, standby ring.
    Lane = 1 [5] {
        /// Its number.
        lane: u32,
        /// Its secret, for further processes.
        token: Token,
        /// What its region holds.
        limits: Limits,
        /// The smallest MTU of the accelerated interfaces: to be assumed for a path before the host
        /// has answered.
        mtu: u32,
    };
    /// The process now counts as one of the lane.
    Attached = 2 [0];
    /// The lane's device for trains of segments, a TAP device whose packets begin with a
    /// `virtio_net_hdr`.
    Bulk = 12 [1];
    /// The claim is entered.
    Claimed = 3 [0] {
        /// Its name.
        claim: Claim,
        /// The address and port that the service read from the socket.
        local: Endpoint,
    };
    /// It is done; or a listing has ended.
    Done = 4 [0];
    /// It is not possible: the socket stays on the kernel.
    Refused = 5 [0] {
        /// Why.
        reason: Reason,
        /// The interface in question, 0 if none.
        interface: u32,
    };
    /// The path to a destination as it is now.
    Path = 6 [0] {
        /// What the stack needs.
        path: PathInfo,
        /// Why it is not for a lane, [`Reason::None`] if it is.
        reason: Reason,
    };
    /// A lane.
    LaneInfo = 7 [0..=1] {
        /// The `after` of the next request.
        cursor: u64,
        /// The lane.
        info: Box<LaneInfo>,
    };
    /// An interface.
    Interface = 8 [0] {
        /// The interface.
        info: Box<Accelerated>,
    };
    /// A claim.
    Held = 9 [0] {
        /// The claim.
        held: ClaimInfo,
    };
    /// Counters in the order of their names.
    Counters = 10 [0] {
        /// The figures.
        figures: Box<Figures>,
    };
    /// Captured packets arrive through the descriptor. On Windows they lie in a ring like a lane's
    /// receive ring. The handles there are the section that the client writes, the one that it
    /// reads, and the event that it waits for.
    Capturing = 11 [1..=3];
    /// Ephemeral ports, at least one, each claimed. (On Windows: offered, with claim 0.)
    Ports = 13 [0] {
        /// The service's network namespace, as `SO_NETNS_COOKIE` reports it: in another one the
        /// ports are not bound.
        namespace: u64,
        /// The address to which they are bound.
        source: Address,
        /// The ports.
        ports: EphemeralPorts,
    };
    /// The lane receives the group by these interfaces now; the kernel delivers the rest.
    Joined = 14 [0] {
        /// Their indices; none if the socket is a member on no accelerated one.
        interfaces: Interfaces,
    };
    /// The kernel has the connection: its socket.
    TakenOver = 17 [1];
}

messages! {
    /// From the service, without a request.
    Push, 0x300, MAX_MESSAGE;
    /// What is known of a destination has changed.
    PathChanged = 1 [0] {
        /// What the stack needs now.
        path: PathInfo,
        /// Why it is not for a lane any more, [`Reason::None`] if it is.
        reason: Reason,
    };
    /// A process of this lane is gone.
    PeerGone = 2 [0] {
        /// Its process id, as the service sees it.
        pid: u32,
    };
    /// A claim is void: its address or its interface left the host, or its socket no longer proves
    /// it.
    ClaimLost = 3 [0] {
        /// The claim.
        claim: Claim,
        /// Why.
        reason: Reason,
    };
    /// The service is ending this lane.
    Closing = 4 [0] {
        /// Why.
        reason: Reason,
    };
    /// The smallest MTU of the accelerated interfaces has changed.
    Mtu = 5 [0] {
        /// What it is now.
        mtu: u32,
    };
    /// The threads of the process that use the lane may have a real-time priority, up to which its
    /// limit has been raised.
    Realtime = 6 [0] {
        /// Of `SCHED_FIFO`, 1 to 99.
        priority: u32,
    };
    /// The service is about to end. For a short time it still serves requests, so that the process
    /// can hand its connections over to the kernel, and leave the lane.
    Leave = 7 [0];
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes_of(message: &impl MessageTo, number: u32) -> Vec<u8> {
        let mut out = Vec::new();
        message.encode(number, &mut |bytes| out = bytes.to_vec());
        out
    }

    /// Encodes, decodes and compares what is printed (paths have no equality), then tries wrong
    /// lengths.
    fn goes_back<M: MessageTo + fmt::Debug>(message: &M, descriptors: usize) {
        let bytes = bytes_of(message, 7);
        assert!(bytes.len() <= MAX_MESSAGE);
        let again = M::decode(&bytes, descriptors).unwrap();
        assert_eq!(format!("{again:?}"), format!("{:?}", (7, message)));
        for len in 0..bytes.len() {
            assert!(M::decode(&bytes[..len], descriptors).is_err(), "cut to {len}");
        }
        let longer = [&bytes[..], &[0]].concat();
        assert_eq!(M::decode(&longer, descriptors).err(), Some(MalformedMessage::Length));
        assert_eq!(M::decode(&bytes, 6).err(), Some(MalformedMessage::Descriptors(6)));
    }

    const PEER: Endpoint = Endpoint::new(Address::v4([10, 0, 0, 2]), 80);

    fn path() -> PathInfo {
        PathInfo { query: Query::to(PEER.address), mtu: 1500, interface: 3, ..PathInfo::default() }
    }

    fn leaving(shifts: Option<(u8, u8)>) -> Leaving {
        Leaving {
            local: PEER,
            remote: PEER,
            interface: 1,
            tos: 0,
            send_una: 2,
            in_flight: 3,
            unsent: 4,
            receive_next: 5,
            unread: 6,
            send_window: 7,
            largest_window: 8,
            window_seq: 9,
            receive_window: 10,
            peer_mss: 1460,
            shifts,
            sack: true,
            timestamp: shifts.map(|_| 11),
            echo: 12,
            fin_received: false,
            fin_acknowledged: false,
        }
    }

    #[test]
    fn requests_go_there_and_back() {
        let group = Address::v4([239, 1, 1, 1]);
        let claim = Claim(9);
        for (request, descriptors) in [
            (Request::Hello { program: Name::new("nginx"), layout: 5 }, 0),
            (Request::Attach { lane: 3, token: Token([7; 16]), descriptors: true }, 0),
            (Request::Claim { kind: ClaimKind::Flow, remote: PEER }, 1),
            (Request::Convert { claim, remotes: Remotes::new(&[PEER; 40]), more: true, closes: true }, 0),
            (Request::Release { parts: Parts::new(&[ClaimPart { claim, remote: PEER }; 40]) }, 0),
            (Request::Join { claim, group }, 0),
            (Request::Leave { claim, group }, 0),
            (Request::Resolve { query: Query::to(PEER.address).of_service(0xb8), choose: true }, 0),
            (Request::ListLanes { after: 0 }, 0),
            (Request::ListInterfaces { after: 0 }, 0),
            (Request::ListClaims { lane: 1, after: claim }, 0),
            (Request::Counters { of: CountersOf::Lane, lane: 1 }, 0),
            (Request::Capture { lane: 0, snaplen: 96 }, 0),
            (Request::Bulk, 0),
            (Request::Ports { source: PEER.address, count: 8 }, 0),
            (Request::TakeOver { claim, v6: true, state: leaving(Some((7, 8))) }, 1),
            (Request::TakeOver { claim, v6: false, state: leaving(None) }, 1),
            (Request::OnKernel { program: Name::new("nginx"), reason: Reason::Restarted }, 0),
        ] {
            goes_back(&request, descriptors);
            assert!(bytes_of(&request, 7).len() <= MAX_REQUEST);
        }
    }

    #[test]
    fn replies_and_pushes_go_there_and_back() {
        let info = LaneInfo {
            lane: 1,
            pid: 2,
            uid: 3,
            program: Name::new("redis-server"),
            processes: 1,
            claims: 4,
            age_ms: 5,
            interface: 6,
            reason: Reason::None,
            limits: Limits::DEFAULT,
        };
        let interface = Accelerated {
            interface: 2,
            name: Name::new("eth0"),
            driver: Name::new("igb"),
            mac: Mac([2, 0, 0, 0, 0, 1]),
            mtu: 9000,
            mode: AttachMode::Generic,
            reason: Reason::None,
        };
        let held = ClaimInfo { claim: Claim(1), kind: ClaimKind::Bound, protocol: 6, local: PEER, remote: PEER };
        let ports = EphemeralPorts::new(&[EphemeralPort { claim: Claim(7), port: 40_000 }; 40]);
        for (reply, descriptors) in [
            (Reply::Lane { lane: 1, token: Token([1; 16]), limits: Limits::DEFAULT, mtu: 1500 }, 5),
            (Reply::Bulk, 1),
            (Reply::Attached, 0),
            (Reply::Claimed { claim: Claim(4), local: PEER }, 0),
            (Reply::Done, 0),
            (Reply::Refused { reason: Reason::PortTaken, interface: 0 }, 0),
            (Reply::Path { path: path(), reason: Reason::Loopback }, 0),
            (Reply::LaneInfo { cursor: 8, info: Box::new(info) }, 1),
            (Reply::Interface { info: Box::new(interface) }, 0),
            (Reply::Held { held }, 0),
            (Reply::Counters { figures: Box::new(Figures::new(&[u64::MAX; Figures::MAX])) }, 0),
            (Reply::Capturing, 1),
            (Reply::Ports { namespace: 1, source: PEER.address, ports }, 0),
            (Reply::Joined { interfaces: Interfaces::new(&[2, 3]) }, 0),
            (Reply::TakenOver, 1),
        ] {
            goes_back(&reply, descriptors);
        }
        for push in [
            Push::PathChanged { path: path(), reason: Reason::None },
            Push::PeerGone { pid: 44 },
            Push::ClaimLost { claim: Claim(1), reason: Reason::Address },
            Push::Closing { reason: Reason::Stopping },
            Push::Mtu { mtu: 9000 },
            Push::Realtime { priority: 50 },
            Push::Leave,
        ] {
            goes_back(&push, 0);
        }
    }

    #[test]
    fn hostile_messages_are_refused_with_their_fault() {
        let good = bytes_of(&Request::Claim { kind: ClaimKind::Flow, remote: PEER }, 1);
        let with = |at: usize, value: u8| {
            let mut bytes = good.clone();
            bytes[at] = value;
            Request::decode(&bytes, 1).err()
        };
        assert_eq!(with(0, 0), Some(MalformedMessage::Magic));
        assert_eq!(with(4, 99), Some(MalformedMessage::Version(99)));
        assert_eq!(with(6, 200), Some(MalformedMessage::Kind(0x1c8)));
        assert_eq!(with(12, 4), Some(MalformedMessage::Field("claim kind")));
        assert_eq!(Request::decode(&good, 0).err(), Some(MalformedMessage::Descriptors(0)));
        assert_eq!(Reply::decode(&good, 1).err(), Some(MalformedMessage::Kind(0x103)), "a request is no reply");
        let mut convert =
            bytes_of(&Request::Convert { claim: Claim(1), remotes: Remotes::new(&[]), more: false, closes: false }, 1);
        convert[20] = 255;
        assert_eq!(Request::decode(&convert, 0).err(), Some(MalformedMessage::Field("list")));
    }
}
