//! A service in a network namespace of the lab, and a hand-made client: a lane's user without the
//! preload library.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use nix::sched::{CloneFlags, setns};
use nix::sys::eventfd::EventFd;
use std::cell::Cell;
use std::fs::File;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tickwire_lab::LabPair;
use tickwire_lane::control::{
    Claim, ClaimKind, ClaimPart, CountersOf, Name, Parts, Push, Reason, Remotes, Reply, Request, Token,
};
use tickwire_lane::record_ring::RecordRing;
use tickwire_lane_linux::control::{Channel, Descriptors};
use tickwire_lane_linux::mapped_ring::MappedRing;
use tickwire_lane_linux::port::Port;
use tickwire_lane_linux::region::Region;
use tickwire_lane_linux::sys_packet::PacketSender;
use tickwire_service::{Attach, RunOptions};
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::ids::{ListenerId, Ready, TcpId};
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::{Limits, Memory, Stack, StackConfig, time};

pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Host `b`, as a lane of host `a` addresses it.
pub const PEER: Address = Address::v4([10, 77, 0, 2]);

/// The port of a test is chosen by the test; each has its own pair of hosts.
pub struct World {
    pub pair: LabPair,
    pub socket: PathBuf,
    stop: EventFd,
    service: Option<JoinHandle<Result<(), tickwire_service::ServiceError>>>,
}

/// Reports it and returns `true` if the test cannot run here.
pub fn skipped() -> bool {
    let skip = !tickwire_lab::is_root();
    if skip {
        eprintln!("skipped: network namespaces need root");
    }
    skip
}

/// The request that releases these claims completely.
pub fn release(claims: &[Claim]) -> Request {
    let parts: Vec<ClaimPart> = claims.iter().map(|&claim| ClaimPart { claim, remote: Endpoint::default() }).collect();
    assert!(parts.len() <= Parts::MAX, "more than one request can name");
    Request::Release { parts: Parts::new(&parts) }
}

/// Runs `work` in a lab host's network namespace.
pub fn within<T: Send>(host: &tickwire_lab::LabHost, work: impl FnOnce() -> T + Send) -> T {
    host.within(work).expect("the lab's namespace")
}

impl World {
    pub fn new(attach: Attach) -> Self {
        Self::with(attach, "")
    }

    /// Two hosts; a service on host `a` with this configuration file.
    pub fn with(attach: Attach, config: &str) -> Self {
        let pair = LabPair::new().expect("the lab");
        Self::on(pair, attach, config)
    }

    pub fn on(pair: LabPair, attach: Attach, config: &str) -> Self {
        let mut world = Self { socket: pair.a.socket(), pair, stop: EventFd::new().unwrap(), service: None };
        world.start(attach, config);
        world
    }

    /// Two hosts; a service on host `a`, whose thread calls `prepare` before it starts.
    pub fn prepared(prepare: fn()) -> Self {
        let pair = LabPair::new().expect("the lab");
        let mut world = Self { socket: pair.a.socket(), pair, stop: EventFd::new().unwrap(), service: None };
        world.start_prepared(Attach::Tc, "", prepare);
        world
    }

    pub fn start(&mut self, attach: Attach, config: &str) {
        self.start_prepared(attach, config, || ());
    }

    fn start_prepared(&mut self, attach: Attach, config: &str, prepare: fn()) {
        // The service's log, among the output of tests that fail.
        let _ = tracing_subscriber::fmt()
            .with_test_writer()
            .with_ansi(false)
            .with_max_level(tracing::Level::DEBUG)
            .try_init();
        let file = self.pair.a.directory().join("tickwire.toml");
        std::fs::write(&file, without_ready_lanes(config)).unwrap();
        self.stop = EventFd::new().unwrap();
        let options = RunOptions {
            config: Some(file),
            interfaces: vec!["eth0".into()],
            socket: Some(self.socket.clone()),
            socket_mode: Some(0o666),
            attach: Some(attach),
            // A veth pair hides tags, and no test sends tagged frames but those that say so.
            untagged: if config.contains("untagged") { Vec::new() } else { vec!["eth0".into()] },
            stop: Some(self.stop.as_fd().try_clone_to_owned().unwrap()),
            ..RunOptions::default()
        };
        let namespace = File::open(format!("/run/netns/{}", self.pair.a.namespace())).unwrap();
        self.service = Some(std::thread::spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            prepare();
            tickwire_service::run(options)
        }));
        let end = Instant::now() + TIMEOUT * 2;
        while Channel::connect(&self.socket).is_err() {
            if self.service.as_ref().is_some_and(JoinHandle::is_finished) {
                panic!("the service ended: {:?}", self.service.take().map(JoinHandle::join));
            }
            assert!(Instant::now() < end, "the service answers in time");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends the service in good order.
    pub fn stop(&mut self) {
        self.stop.write(1).unwrap();
        if let Some(service) = self.service.take() {
            service.join().unwrap().unwrap();
        }
    }

    pub fn client(&self) -> Client {
        Client::connect(self)
    }

    /// A program on host `a` that has got a lane.
    pub fn laned(&self) -> (Client, LaneOf) {
        let mut client = self.client();
        let lane = client.hello().unwrap();
        (client, lane)
    }

    /// A program on host `a` that has got a lane, and the stack in that lane.
    pub fn program(&self) -> (Client, LaneOf, Stack<'static>) {
        let (client, lane) = self.laned();
        let stack = lane.stack();
        (client, lane, stack)
    }

    pub fn a(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.pair.a_v4().parse().unwrap(), port)
    }

    pub fn b(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.pair.b_v4().parse().unwrap(), port)
    }

    /// The outcome of a service that is to accelerate an interface of this name, on host `b`.
    pub fn try_interface(&self, name: &str) -> Result<(), tickwire_service::ServiceError> {
        let options = RunOptions {
            interfaces: vec![name.into()],
            socket: Some(self.pair.b.directory().join("b.sock")),
            ..RunOptions::default()
        };
        within(&self.pair.b, || tickwire_service::run(options))
    }

    /// Names of the devices of host `a` that look like lanes.
    pub fn lane_devices(&self) -> Vec<String> {
        let links = within(&self.pair.a, || tickwire_host::RouteNetlink::open().unwrap().links().unwrap());
        links.into_iter().map(|l| l.name).filter(|name| tickwire_host::link::is_lane_device(name)).collect()
    }
}

/// A configuration without lanes that are kept ready, unless it says otherwise.
fn without_ready_lanes(config: &str) -> String {
    if config.contains("ready = ") {
        return config.to_owned();
    }
    match config.split_once("[lane]\n") {
        Some((before, lane)) => format!("{before}[lane]\nready = 0\n{lane}"),
        None => format!("{config}\n[lane]\nready = 0\n"),
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = self.stop.write(1);
        if let Some(service) = self.service.take() {
            let _ = service.join();
        }
    }
}

/// Waits until `holds`, at most [`TIMEOUT`].
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + TIMEOUT;
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn now() -> time::Instant {
    let t = nix::time::clock_gettime(nix::time::ClockId::CLOCK_MONOTONIC).unwrap();
    time::Instant::from_nanos(t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
}

/// A TCP socket of a host that is bound and neither listens nor connects.
pub fn tcp_socket(host: &tickwire_lab::LabHost, address: SocketAddr) -> OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, socket};
    within(host, || {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        bind(socket.as_raw_fd(), &SockaddrStorage::from(address)).unwrap();
        socket
    })
}

/// A connection that host `b` begins from this port (0: any) to a port of host `a`.
pub fn connecting(world: &World, from: u16, to: u16) -> TcpStream {
    use nix::sys::socket::{SockaddrStorage, connect, setsockopt, sockopt};
    let socket = tcp_socket(&world.pair.b, world.b(from));
    setsockopt(&socket, sockopt::ReuseAddr, &true).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_nonblocking(true).unwrap();
    let done = connect(stream.as_raw_fd(), &SockaddrStorage::from(world.a(to)));
    assert_eq!(done, Err(nix::errno::Errno::EINPROGRESS));
    stream
}

/// A connection from this port of host `b` that a listener of host `a`'s kernel gets, although a
/// lane has a flow between its ends: its end here, and the peer's.
pub fn accepted(world: &World, listener: &TcpListener, from: u16) -> (TcpStream, TcpStream) {
    let theirs = connecting(world, from, listener.local_addr().unwrap().port());
    listener.set_nonblocking(true).unwrap();
    let mut found = None;
    until("the kernel accepts", || {
        found = listener.accept().ok();
        found.is_some()
    });
    let (ours, _) = found.unwrap();
    for end in [&ours, &theirs] {
        end.set_nonblocking(false).unwrap();
        end.set_read_timeout(Some(TIMEOUT)).unwrap();
    }
    (ours, theirs)
}

/// A socket of host `a` whose FIN waits behind data that its peer, at port 80 of host `b`, never
/// reads.
pub fn lingering(pair: &LabPair) -> TcpStream {
    use nix::sys::socket::{setsockopt, sockopt};
    let socket = within(&pair.a, || TcpStream::connect((pair.b_v4(), 80)).unwrap());
    setsockopt(&socket, sockopt::Linger, &nix::libc::linger { l_onoff: 1, l_linger: 3600 }).unwrap();
    socket.set_nonblocking(true).unwrap();
    while (&socket).write(&[0; 65_536]).is_ok() {}
    socket
}

/// A segment without data.
pub fn segment(to: Mac, from: SocketAddr, at: SocketAddr, flags: u8, sequence: u32) -> Vec<u8> {
    let (SocketAddr::V4(from), SocketAddr::V4(at)) = (from, at) else { panic!("IPv4") };
    let ends = [from.ip().octets(), at.ip().octets()].concat();
    let mut ip = [&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0][..], &ends].concat();
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum);
    let mut tcp = [from.port().to_be_bytes(), at.port().to_be_bytes()].concat();
    tcp.extend(sequence.to_be_bytes());
    tcp.extend([0, 0, 0, 0, 0x50, flags, 16, 0, 0, 0, 0, 0]);
    let sum = checksum(&[&ends[..], &[0, 6, 0, 20], &tcp].concat());
    tcp[16..18].copy_from_slice(&sum);
    [&to.0[..], &[2, 0, 0, 0, 0, 9, 8, 0], &ip, &tcp].concat()
}

/// RFC 1071.
pub fn checksum(bytes: &[u8]) -> [u8; 2] {
    let sum: u32 = bytes.as_chunks::<2>().0.iter().map(|&word| u32::from(u16::from_be_bytes(word))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    (!(folded as u16)).to_be_bytes()
}

/// Flags of a segment (RFC 9293 section 3.1).
pub mod tcp_flag {
    pub const FIN: u8 = 1;
    pub const SYN: u8 = 2;
    pub const RST: u8 = 4;
    pub const ACK: u8 = 16;
}

/// The cable, at the end of host `b`.
pub struct Wire {
    pub sender: PacketSender,
    /// The Ethernet address of host `a`.
    pub here: Mac,
}

impl Wire {
    pub fn new(world: &World) -> Self {
        let link =
            |host| within(host, || tickwire_host::RouteNetlink::open().unwrap().link_by_name("eth0").unwrap().unwrap());
        let (here, there) = (link(&world.pair.a), link(&world.pair.b));
        Self { sender: within(&world.pair.b, || PacketSender::open(there.index).unwrap()), here: here.mac.unwrap() }
    }

    pub fn send(&self, from: SocketAddr, at: SocketAddr, flags: u8, sequence: u32) {
        self.sender.send(&segment(self.here, from, at, flags, sequence)).unwrap();
    }
}

/// Whether a connection is open.
pub fn is_connected(stack: &Stack<'_>, id: TcpId) -> bool {
    stack.readiness(id.into()).is_ok_and(|ready| ready.contains(Ready::OUT))
}

/// A process at the service's socket.
pub struct Client {
    channel: Channel,
    number: u32,
    pub pushes: Vec<Push>,
}

/// What a client got with its lane.
pub struct LaneOf {
    pub lane: u32,
    pub token: Token,
    pub limits: Limits,
    pub region: Region,
    pub port: Port,
    pub tap: OwnedFd,
    /// How many frames of streams were sent.
    pub carried: Cell<usize>,
}

impl Client {
    pub fn connect(world: &World) -> Self {
        Self::at(&world.socket)
    }

    /// As a process of another user would.
    pub fn as_user(world: &World, user: libc::uid_t) -> Self {
        let connected = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                // SAFETY: no memory is passed; the bare system calls concern this thread only.
                // Files are still looked up as root.
                unsafe {
                    assert_eq!(libc::syscall(libc::SYS_setresuid, -1, user, -1), 0);
                    libc::syscall(libc::SYS_setfsuid, 0);
                }
                Self::connect(world)
            });
            thread.join()
        });
        connected.expect("a connection of another user")
    }

    pub fn at(socket: &std::path::Path) -> Self {
        Self { channel: Channel::connect(socket).unwrap(), number: 0, pushes: Vec::new() }
    }

    pub fn request(&mut self, request: &Request, descriptors: &[BorrowedFd<'_>]) -> (Reply, Descriptors) {
        self.try_request(request, descriptors).expect("an answer")
    }

    pub fn try_request(
        &mut self,
        request: &Request,
        descriptors: &[BorrowedFd<'_>],
    ) -> std::io::Result<(Reply, Descriptors)> {
        self.number += 1;
        self.channel.send(request, self.number, descriptors)?;
        loop {
            let incoming = self.channel.receive(TIMEOUT)?;
            if let Ok((_, push)) = incoming.decode::<Push>() {
                self.pushes.push(push);
                continue;
            }
            let (number, reply) = incoming.decode::<Reply>().expect("a reply");
            assert_eq!(number, self.number);
            return Ok((reply, incoming.descriptors));
        }
    }

    /// Waits until the service has accepted it: before that it may pass nothing.
    pub fn entered(mut self) -> Self {
        self.request(&Request::ListInterfaces { after: 0 }, &[]);
        self
    }

    /// The next push.
    pub fn push(&mut self) -> Push {
        if !self.pushes.is_empty() {
            return self.pushes.remove(0);
        }
        self.channel.receive(TIMEOUT).expect("a push").decode::<Push>().expect("a push").1
    }

    /// Whether the service has closed the connection by now.
    pub fn is_closed(&self) -> bool {
        matches!(self.channel.try_receive(), Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof)
    }

    pub fn channel(&self) -> &Channel {
        &self.channel
    }

    pub fn hello(&mut self) -> Result<LaneOf, Reason> {
        let hello = Request::Hello { program: Name::new("test"), layout: Memory::LAYOUT_HASH };
        let (reply, descriptors) = self.request(&hello, &[]);
        match reply {
            Reply::Lane { lane, token, limits, .. } => Ok(LaneOf::new(lane, token, limits, descriptors)),
            Reply::Refused { reason, .. } => Err(reason),
            other => panic!("{other:?}"),
        }
    }

    /// The bulk device (for trains of segments) of its lane.
    pub fn bulk(&mut self) -> OwnedFd {
        match self.request(&Request::Bulk, &[]) {
            (Reply::Bulk, mut descriptors) => descriptors.take(0).unwrap(),
            other => panic!("{other:?}"),
        }
    }

    /// Requests a lane and does not wait for the answer.
    pub fn say_hello(&mut self) {
        let hello = Request::Hello { program: Name::new("test"), layout: Memory::LAYOUT_HASH };
        self.number += 1;
        self.channel.send(&hello, self.number, &[]).unwrap();
    }

    /// The number of the lane that was requested so.
    pub fn given_lane(&self) -> u32 {
        match self.channel.receive(TIMEOUT).expect("an answer").decode::<Reply>().expect("a reply").1 {
            Reply::Lane { lane, .. } => lane,
            other => panic!("{other:?}"),
        }
    }

    /// Requests a lane and makes no use of it.
    pub fn try_hello(&mut self) -> Result<(), Reason> {
        let hello = Request::Hello { program: Name::new("test"), layout: Memory::LAYOUT_HASH };
        match self.request(&hello, &[]).0 {
            Reply::Lane { .. } => Ok(()),
            Reply::Refused { reason, .. } => Err(reason),
            other => panic!("{other:?}"),
        }
    }

    pub fn claim(&mut self, kind: ClaimKind, remote: Endpoint, socket: BorrowedFd<'_>) -> Result<Claim, Reason> {
        match self.request(&Request::Claim { kind, remote }, &[socket]).0 {
            Reply::Claimed { claim, .. } => Ok(claim),
            Reply::Refused { reason, .. } => Err(reason),
            other => panic!("{other:?}"),
        }
    }

    pub fn claim_bound(&mut self, socket: &impl AsFd) -> Result<Claim, Reason> {
        self.claim(ClaimKind::Bound, Endpoint::default(), socket.as_fd())
    }

    /// Reports that the listener of a claim closed while it had connections to these; with `more`,
    /// that further ones follow. Returns the reason if the service refuses.
    pub fn convert(&mut self, claim: Claim, remotes: &[SocketAddr], more: bool) -> Option<Reason> {
        let remotes: Vec<Endpoint> = remotes.iter().map(|&remote| remote.into()).collect();
        let mut rest = &remotes[..];
        loop {
            let (some, after) = rest.split_at(rest.len().min(Remotes::MAX));
            let more = more || !after.is_empty();
            let request = Request::Convert { claim, remotes: Remotes::new(some), more, closes: true };
            match self.request(&request, &[]).0 {
                Reply::Done if after.is_empty() => return None,
                Reply::Done => rest = after,
                Reply::Refused { reason, .. } => return Some(reason),
                other => panic!("{other:?}"),
            }
        }
    }

    /// Learns that another program has what it claimed.
    pub fn loses_a_claim(&mut self) {
        match self.push() {
            Push::ClaimLost { reason, .. } => assert_eq!(reason, Reason::PortTaken),
            other => panic!("{other:?}"),
        }
    }

    /// Requests the path to a destination, from the address that the host prefers for it, until it
    /// is resolved.
    pub fn path(&mut self, destination: Address) -> PathInfo {
        let source = self.path_for(Query::to(destination)).source;
        self.path_for(Query::to(destination).from(source))
    }

    /// Requests a path until it is resolved.
    pub fn path_for(&mut self, query: Query) -> PathInfo {
        let end = Instant::now() + TIMEOUT;
        loop {
            let request = Request::Resolve { query, choose: false };
            let Reply::Path { path, .. } = self.request(&request, &[]).0 else { panic!("a path") };
            if path.state == PathState::Ready {
                return path;
            }
            assert!(Instant::now() < end, "{query:?} is resolved in time: {path:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn counters(&mut self, of: CountersOf, lane: u32) -> Vec<u64> {
        match self.request(&Request::Counters { of, lane }, &[]).0 {
            Reply::Counters { figures } => figures.as_slice().to_vec(),
            other => panic!("{other:?}"),
        }
    }
}

impl LaneOf {
    pub fn new(lane: u32, token: Token, limits: Limits, mut descriptors: Descriptors) -> Self {
        let region = descriptors.take(0).unwrap();
        let region = Region::map(region.as_fd(), lane, &limits).unwrap();
        let [ring, tap] = [1, 2].map(|place| descriptors.take(place).unwrap());
        let port = Port::new(RecordRing::new(MappedRing::map(ring, region.ring()).unwrap()), tap.try_clone().unwrap());
        Self { lane, token, limits, region, port, tap, carried: Cell::new(0) }
    }

    /// The stack in the region, which the caller alone uses. Call once.
    pub fn stack(&self) -> Stack<'static> {
        // SAFETY: a test has one thread that uses the region, and the region outlives the stack
        // because tests leak neither: the stack is dropped before its `LaneOf` at the end of the
        // test.
        let mut stack = Stack::new(unsafe { self.region.memory() });
        stack.init(&StackConfig::default());
        stack
    }

    /// Receives the waiting packets, and sends what there is to send.
    pub fn turn(&self, stack: &mut Stack<'_>) {
        if stack.stream_is_begun() {
            stack.stream_recover();
        }
        self.port.poll(stack, now());
        stack.on_time(now());
        while stack.has_egress() {
            let mut batch = self.port.batch().unwrap();
            while !self.port.take_prompt(stack, &mut batch) {
                self.port.send(&mut batch);
            }
            let before = stack.stream_len();
            self.port.take_streams(stack, &mut batch);
            self.carried.set(self.carried.get() + before - stack.stream_len());
            self.port.send(&mut batch);
            self.port.streams_gone(stack, &batch);
        }
    }

    /// Sends a frame as a program with its device in hand can. Returns whether the device took it.
    pub fn send_raw(&self, frame: &[u8]) -> bool {
        nix::unistd::write(&self.tap, frame).is_ok()
    }

    /// The next connection that a listener of the stack accepts.
    pub fn accept(&self, stack: &mut Stack<'_>, listener: ListenerId) -> TcpId {
        let mut found = None;
        self.turn_until(stack, "a connection comes", |stack| {
            found = stack.tcp_accept(listener).ok();
            found.is_some()
        });
        found.unwrap()
    }

    /// Turns the rings until `holds`.
    pub fn turn_until(&self, stack: &mut Stack<'_>, what: &str, mut holds: impl FnMut(&mut Stack<'_>) -> bool) {
        let end = Instant::now() + TIMEOUT;
        while !holds(stack) {
            assert!(Instant::now() < end, "{what}");
            self.turn(stack);
        }
    }
}

/// A TCP socket of host `a` with `SO_REUSEADDR`, bound and nothing else.
pub fn reusing(world: &World, port: u16) -> OwnedFd {
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, SockaddrStorage, bind, setsockopt, socket, sockopt};
    within(&world.pair.a, || {
        let socket = socket(AddressFamily::Inet, SockType::Stream, SockFlag::SOCK_CLOEXEC, None).unwrap();
        setsockopt(&socket, sockopt::ReuseAddr, &true).unwrap();
        bind(socket.as_raw_fd(), &SockaddrStorage::from(world.a(port))).unwrap();
        socket
    })
}
