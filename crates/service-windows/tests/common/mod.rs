//! A service that runs in the test's own process, with a card without a cable.
#![allow(dead_code, reason = "each test program uses a part of it")]

use std::net::UdpSocket;
use std::ops::RangeInclusive;
use std::os::windows::io::{AsHandle, AsSocket, BorrowedHandle};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;
use std::{io, process, thread};
use tickwire_card_windows::card::{CardWaker, NicDescription, PacketCard, ReceivedFrame};
use tickwire_host_windows::{Firewall, NoFirewall};
use tickwire_lane::control::{Claim, ClaimKind, Name, Reason, Reply, Request};
use tickwire_lane_windows::control::{ClientChannel, Handles};
use tickwire_lane_windows::event::WakeEvent;
use tickwire_lane_windows::pulled_socket::handle_of;
use tickwire_service_windows::service::{AcceleratedHost, ServiceParts, WindowsService};
use tickwire_stack::Memory;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_steer::tables::{NicIndex, Protocol};

const TIMEOUT: Duration = Duration::from_secs(10);

/// A card without a cable.
struct NoCable {
    waker: Arc<Woken>,
    sent: SentFrames,
}

/// The frames that it was to send.
type SentFrames = Arc<Mutex<Vec<Vec<u8>>>>;

struct Woken(thread::Thread);

impl CardWaker for Woken {
    fn wake(&self) {
        self.0.unpark();
    }
}

impl PacketCard for NoCable {
    fn nic(&self) -> NicIndex {
        1
    }
    fn receive(&mut self) -> io::Result<Option<ReceivedFrame<'_>>> {
        Ok(None)
    }
    fn pass(&mut self) -> io::Result<()> {
        Ok(())
    }
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.sent.lock().unwrap().push(frame.to_vec());
        Ok(())
    }
    fn set_claimed(&mut self, _: Protocol, port: u16, is_claimed: bool) -> io::Result<()> {
        // Stands for any that a driver may refuse.
        if port == REFUSED && is_claimed { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }
    fn most_port_tests(&self) -> Option<usize> {
        Some(MOST_PORT_TESTS)
    }
    fn wait(&mut self, _: Duration) {
        thread::park_timeout(Duration::from_millis(1));
    }
    fn waker(&self) -> Arc<dyn CardWaker> {
        Arc::clone(&self.waker) as Arc<dyn CardWaker>
    }
}

/// The ports that are offered for connections.
pub(crate) const PORTS: RangeInclusive<u16> = 36_000..=36_019;

/// So many tests of the driver's filter claimed ports may take, those of one user three quarters.
pub(crate) const MOST_PORT_TESTS: usize = 24;

/// A port of which the driver does not take the packets.
pub(crate) const REFUSED: u16 = 47_391;

/// A service that runs until it is dropped.
pub(crate) struct Running {
    pipe: String,
    stop: Arc<WakeEvent>,
    thread: Option<JoinHandle<()>>,
    sent: SentFrames,
}

impl Running {
    pub(crate) fn new() -> Self {
        Self::behind(Arc::new(NoFirewall))
    }

    /// On a host with this firewall.
    pub(crate) fn behind(firewall: Arc<dyn Firewall>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let pipe = format!(r"\\.\pipe\tickwire-test-{}-{}", process::id(), NUMBER.fetch_add(1, SeqCst));
        let stop = Arc::new(WakeEvent::new().unwrap());
        let (name, end) = (pipe.clone(), Arc::clone(&stop));
        let (started, is_started) = channel();
        let sent = SentFrames::default();
        let of_card = Arc::clone(&sent);
        let thread = thread::spawn(move || {
            let card = Box::new(NoCable { waker: Arc::new(Woken(thread::current())), sent: of_card });
            let nic = NicDescription { index: 1, mac: Mac([2, 0, 0, 0, 0, 1]), mtu: 1500 };
            let host = AcceleratedHost::open(nic).unwrap();
            let parts = ServiceParts {
                pipe: name,
                users: "WD".into(),
                card,
                driver: "none",
                host,
                firewall,
                ports: Some(PORTS),
            };
            let mut service = WindowsService::start(parts).unwrap();
            started.send(()).unwrap();
            service.run(end.as_handle()).unwrap();
        });
        is_started.recv().unwrap();
        Self { pipe, stop, thread: Some(thread), sent }
    }

    /// The name of its pipe.
    pub(crate) fn pipe(&self) -> &str {
        &self.pipe
    }

    /// The frames that the card was to send.
    pub(crate) fn sent(&self) -> Vec<Vec<u8>> {
        self.sent.lock().unwrap().clone()
    }

    pub(crate) fn connect(&self) -> ClientChannel {
        ClientChannel::connect(&self.pipe, TIMEOUT).unwrap()
    }

    /// A program with a lane.
    pub(crate) fn program(&self) -> (ClientChannel, Handles) {
        let mut program = self.connect();
        let (reply, handles) = ask(&mut program, &hello(Memory::LAYOUT_HASH), &[]);
        assert!(matches!(reply, Reply::Lane { mtu: 1500, .. }), "{reply:?}");
        (program, handles)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.set();
        self.thread.take().unwrap().join().unwrap();
    }
}

pub(crate) fn ask(program: &mut ClientChannel, request: &Request, handles: &[BorrowedHandle<'_>]) -> (Reply, Handles) {
    program.request(request, handles, TIMEOUT).unwrap()
}

pub(crate) fn hello(layout: u64) -> Request {
    Request::Hello { program: Name::new("test"), layout }
}

pub(crate) const CLAIM: Request = Request::Claim { kind: ClaimKind::Bound, remote: Endpoint::new(Address::ANY, 0) };

/// Claims the port of a socket. Returns why not, if not.
pub(crate) fn claim(program: &mut ClientChannel, socket: &UdpSocket) -> Result<Claim, Reason> {
    match ask(program, &CLAIM, &[handle_of(socket.as_socket())]).0 {
        Reply::Claimed { claim, local } => {
            assert_eq!(local.port, socket.local_addr().unwrap().port());
            Ok(claim)
        }
        Reply::Refused { reason, .. } => Err(reason),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn socket() -> UdpSocket {
    UdpSocket::bind("0.0.0.0:0").unwrap()
}
