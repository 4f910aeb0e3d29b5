//! A program with a lane of its own, without Winsock's interception: it echoes UDP datagrams and
//! TCP streams at a port, over rings that it shares with the service. The Wine lab uses it to test
//! the lane (`cargo xtask windows test`).
//!
//!     lab_echo ADDRESS PORT
//!
//! It says `ready` when it can be asked, and runs until it is killed.

#[cfg(windows)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    program::run()
}

#[cfg(not(windows))]
fn main() {
    eprintln!("this is a program for Windows");
}

#[cfg(windows)]
mod program {
    use std::collections::VecDeque;
    use std::error::Error;
    use std::net::{IpAddr, TcpListener, UdpSocket};
    use std::os::windows::io::AsSocket;
    use std::sync::Arc;
    use std::time::{Duration, Instant as SystemTime};
    use tickwire_lane::control::{ClaimKind, Name, Push, Reply, Request};
    use tickwire_lane_windows::clock;
    use tickwire_lane_windows::control::{ClientChannel, Unawaited, pipe_name};
    use tickwire_lane_windows::event::{WakeEvent, wait_for};
    use tickwire_lane_windows::lane_memory::{LaneMemory, LaneSide};
    use tickwire_lane_windows::port::ProgramPort;
    use tickwire_lane_windows::pulled_socket::handle_of;
    use tickwire_lane_windows::section::SharedSection;
    use tickwire_lane_windows::stack_memory::stack_memory;
    use tickwire_stack::addr::{Address, Endpoint};
    use tickwire_stack::path::Query;
    use tickwire_stack::tcp::RecvFlags;
    use tickwire_stack::udp::{SendTo, UdpOptions};
    use tickwire_stack::{ListenerId, Memory, Stack, StackConfig, StackError, TcpId, UdpId};

    /// How long the service may take for an answer.
    const TIMEOUT: Duration = Duration::from_secs(5);

    /// For so long after a packet it polls.
    const POLL: Duration = Duration::from_micros(200);

    /// At most so many bytes of a connection wait to be sent back.
    const MOST_WAITING: usize = 1 << 18;

    struct Connection {
        id: TcpId,
        waiting: VecDeque<u8>,
        is_at_end: bool,
    }

    struct Echo {
        udp: UdpId,
        listener: ListenerId,
        connections: Vec<Connection>,
    }

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let mut arguments = std::env::args().skip(1);
        let usage = "usage: lab_echo ADDRESS PORT";
        let address: IpAddr = arguments.next().ok_or(usage)?.parse()?;
        let port: u16 = arguments.next().ok_or(usage)?.parse()?;
        let here = Endpoint::new(
            match address {
                IpAddr::V4(address) => Address::v4(address.octets()),
                IpAddr::V6(address) => Address(address.octets()),
            },
            port,
        );
        // The kernel's sockets, which justify the claims.
        let (kernel_udp, kernel_tcp) = (UdpSocket::bind((address, port))?, TcpListener::bind((address, port))?);
        let mut service = ClientChannel::connect(&pipe_name(), TIMEOUT)?;
        let (memory, mut port) = begin(&mut service)?;
        for socket in [handle_of(kernel_udp.as_socket()), handle_of(kernel_tcp.as_socket())] {
            let claim = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::default() };
            match service.request(&claim, &[socket], TIMEOUT)?.0 {
                Reply::Claimed { local, .. } if local == here => (),
                other => return Err(format!("the port is not claimed: {other:?}").into()),
            }
        }
        let mut stack = Stack::new(stack_memory(&memory)?);
        let secret = std::array::from_fn(|n| clock::now().as_nanos().rotate_left(n as u32 * 7));
        stack.init(&StackConfig { secret, ..StackConfig::default() });
        let udp = stack.udp_open(UdpOptions::default())?;
        stack.udp_bind(udp, here)?;
        let options = stack.tcp_defaults();
        let listener = stack.tcp_listen(&options, here, 1024)?;
        let echo = Echo { udp, listener, connections: Vec::new() };
        println!("ready");
        serve(stack, echo, &mut port, &mut service)
    }

    /// Asks the service for a lane.
    fn begin(service: &mut ClientChannel) -> Result<(Arc<LaneMemory>, ProgramPort), Box<dyn Error>> {
        let hello = Request::Hello { program: Name::new("lab_echo"), layout: Memory::LAYOUT_HASH };
        let (reply, mut handles) = service.request(&hello, &[], TIMEOUT)?;
        if !matches!(reply, Reply::Lane { .. }) {
            return Err(format!("there is no lane: {reply:?}").into());
        }
        let mut next = {
            let mut place = 0;
            move || {
                place += 1;
                handles.take(place - 1).ok_or("the service has passed too few handles")
            }
        };
        let (own, services) = (SharedSection::from(next()?), SharedSection::from(next()?));
        let (doorbell, arrived) = (WakeEvent::from(next()?), WakeEvent::from(next()?));
        let memory = LaneMemory::map(LaneSide::Program, &own, &services)?;
        Ok((Arc::clone(&memory), ProgramPort::new(memory, doorbell, arrived)))
    }

    fn serve(
        mut stack: Stack<'_>,
        mut echo: Echo,
        port: &mut ProgramPort,
        service: &mut ClientChannel,
    ) -> Result<(), Box<dyn Error>> {
        let mut busy = SystemTime::now();
        stack.fill();
        loop {
            let count = port.poll(&mut stack, clock::now());
            stack.on_time(clock::now());
            echo.turn(&mut stack, service)?;
            ask_for_paths(&mut stack, service)?;
            let is_all = port.send(&mut stack);
            if count > 0 || !is_all {
                busy = SystemTime::now();
            }
            if busy.elapsed() < POLL || !port.arm() {
                continue;
            }
            let time = stack.deadline().map(|at| at.as_nanos().saturating_sub(clock::now().as_nanos()));
            let time = time.map_or(Duration::from_secs(1), Duration::from_nanos);
            let [reply, kept] = service.events();
            let woken = wait_for(&[port.arrived(), reply, kept], Some(time));
            port.disarm();
            woken?;
        }
    }

    /// Asks the service for the paths that the stack needs, and enters its answers.
    fn ask_for_paths(stack: &mut Stack<'_>, service: &mut ClientChannel) -> Result<(), Box<dyn Error>> {
        while let Some(query) = stack.take_request() {
            service.tell(&Request::Resolve { query, choose: false })?;
        }
        while let Some(unawaited) = service.take()? {
            match unawaited {
                Unawaited::Reply { reply: Reply::Path { path, .. }, .. }
                | Unawaited::Push(Push::PathChanged { path, .. }) => stack.path_set(path, clock::now()),
                _ => (),
            }
        }
        Ok(())
    }

    /// Asks the service for a path, and waits for its answer.
    fn resolve(stack: &mut Stack<'_>, service: &mut ClientChannel, query: Query) -> Result<(), Box<dyn Error>> {
        if let Reply::Path { path, .. } = service.request(&Request::Resolve { query, choose: false }, &[], TIMEOUT)?.0 {
            stack.path_set(path, clock::now());
        }
        Ok(())
    }

    impl Echo {
        fn turn(&mut self, stack: &mut Stack<'_>, service: &mut ClientChannel) -> Result<(), Box<dyn Error>> {
            let mut bytes = Vec::new();
            while let Ok(datagram) = stack.udp_recv(self.udp, false, &mut bytes) {
                let to = SendTo { destination: Some(datagram.source), ..SendTo::default() };
                if stack.udp_send(self.udp, clock::now(), &to, &mut &bytes[..]) == Err(StackError::NeedPath) {
                    resolve(stack, service, stack.udp_query(self.udp, &to)?)?;
                    // While the neighbour is being resolved the stack keeps it.
                    let _ = stack.udp_send(self.udp, clock::now(), &to, &mut &bytes[..]);
                }
                bytes.clear();
            }
            while let Ok(id) = stack.tcp_accept(self.listener) {
                self.connections.push(Connection { id, waiting: VecDeque::new(), is_at_end: false });
            }
            self.connections.retain_mut(|connection| connection.turn(stack));
            Ok(())
        }
    }

    impl Connection {
        /// Returns whether it goes on.
        fn turn(&mut self, stack: &mut Stack<'_>) -> bool {
            while !self.is_at_end && self.waiting.len() < MOST_WAITING {
                let mut bytes = Vec::new();
                match stack.tcp_recv(self.id, clock::now(), RecvFlags::default(), &mut bytes) {
                    Err(StackError::WouldBlock) => break,
                    Ok(0) | Err(_) => self.is_at_end = true,
                    Ok(_) => self.waiting.extend(bytes),
                }
            }
            while !self.waiting.is_empty() {
                let (mut front, _) = self.waiting.as_slices();
                match stack.tcp_send(self.id, clock::now(), false, &mut front) {
                    Ok(count) => drop(self.waiting.drain(..count)),
                    Err(StackError::WouldBlock) => break,
                    Err(_) => self.waiting.clear(),
                }
            }
            let is_open = !self.is_at_end || !self.waiting.is_empty();
            if !is_open {
                let _ = stack.tcp_close(self.id, clock::now());
            }
            is_open
        }
    }
}
