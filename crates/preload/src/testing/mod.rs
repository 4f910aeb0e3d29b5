//! A lane without service and rings, for this crate's own tests. The wire is another stack in the
//! same process, whose programs (echo, discard, a dialler) run inline. A thread answers control
//! requests.
//!
//! Descriptors, kernel sockets, waiting and locking are the real ones.

mod peer;
mod service;

mod epoll;
mod handlers;
pub(crate) mod hostile;
mod late;
mod linger;
mod messages;
mod opening;
mod options;
mod rights;
mod splice;
mod tcp;
mod udp;
mod waiting;

use crate::base::config::{Settings, Spin};
use crate::exports::{counting, observer};
use crate::lane::session::Session;
use crate::lane::start;
use crate::lane::{self, Handover, Lane, Parts};
use crate::socket::close;
use crate::socket::open;
use crate::socket::ops;
use crate::sys::errno::Result;
use crate::sys::iov::{Buffers, one};
use crate::sys::scheduling::Scheduling;
use crate::sys::shared_stack::SharedStack;
use crate::sys::wire::Wire;
use crate::sys::{self, Extras};
use core::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use tickwire_lane::control::Token;
use tickwire_lane_linux::control::Channel;
use tickwire_linux_abi::sockaddr::{self, SocketName};
use tickwire_stack::Limits;
use tickwire_stack::addr::{Address, Endpoint};

/// Our address on the lane.
pub(crate) const HERE: Address = Address::v4([10, 99, 0, 1]);
/// The peer's.
pub(crate) const THERE: Address = Address::v4([10, 99, 0, 2]);

/// The one lane of the test process.
pub(crate) fn lane() -> &'static Lane {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        observer::install();
        let limits = Limits { frames: 4096, ..Limits::DEFAULT };
        let mut peer = peer::Peer::new();
        let wire = Wire::Test(Box::new(move |stack, now| counting::apart(|| peer.exchange(stack, now))));
        let parts = Parts {
            shared: SharedStack::local(limits, wire),
            ring: -1,
            standby: None,
            doorbell: sys::eventfd().unwrap(),
            handover: Handover { number: 1, token: Token([1; 16]), limits, region: -1, tap: -1, standby: -1 },
            settings: Settings {
                spin: Spin::Adaptive,
                min_rto: None,
                helper: Scheduling::DEFAULT,
                realtime: true,
                require: false,
                verbose: false,
                noted: false,
            },
            session: Some(Session::new(service::start())),
        };
        start::begin(&parts).unwrap();
        lane::install(Lane::new(parts, None).ok().unwrap());
    });
    lane::current().unwrap()
}

/// Another lane, which is not this process's, and the service's end of its connection.
pub(crate) fn another() -> (&'static Lane, Channel) {
    let (ours, theirs) = Channel::pair().unwrap();
    (beside(Some(Session::new(ours))), theirs)
}

/// Another lane, which this process had before, and which has ended after `work`.
pub(crate) fn ended(work: impl FnOnce(&Lane)) -> &'static Lane {
    let lane = beside(None);
    work(lane);
    lane.forsake();
    lane
}

fn beside(session: Option<Session>) -> &'static Lane {
    let limits = Limits { frames: 64, ..Limits::DEFAULT };
    let parts = Parts {
        shared: SharedStack::local(limits, Wire::Test(Box::new(|_, _| 0))),
        ring: -1,
        standby: None,
        doorbell: sys::eventfd().unwrap(),
        handover: Handover { number: 2, token: Token([2; 16]), limits, region: -1, tap: -1, standby: -1 },
        settings: lane().settings().clone(),
        session,
    };
    start::begin(&parts).unwrap();
    Box::leak(Box::new(Lane::new(parts, None).ok().unwrap()))
}

/// A socket of ours that may bind our address on the lane, which this machine does not have.
pub(crate) fn socket(kind: c_int) -> c_int {
    lane();
    let fd = open::socket(libc::AF_INET, kind, 0).unwrap();
    sys::set_option(fd, libc::IPPROTO_IP, libc::IP_FREEBIND, &1i32).unwrap();
    fd
}

/// Waits until a thread of this process sleeps, or has ended. `thread` is its number in the kernel,
/// 0 before it is known.
pub(crate) fn until_it_sleeps(thread: &AtomicU32, ended: impl Fn() -> bool) {
    let sleeps = |thread: u32| {
        std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).is_ok_and(|stat| stat.contains(") S "))
    };
    while !ended() && !sleeps(thread.load(SeqCst)) {
        std::thread::yield_now();
    }
}

/// Closes as the exported function does.
pub(crate) fn close(fd: c_int) {
    assert!(!close::closing(fd) || close::closed(fd));
    sys::close(fd);
}

/// An IPv4 address in C's form.
pub(crate) fn address(address: Address, port: u16) -> Vec<u8> {
    let (bytes, len) = sockaddr::emit(Endpoint::new(address, port), false, 0);
    bytes[..len].to_vec()
}

/// Names the destination of a message.
pub(crate) fn named(extras: &mut Extras<'_>, to: Address, port: u16) -> SocketName {
    let endpoint = Endpoint::new(to, port);
    (extras.name, extras.name_len) = sockaddr::emit(endpoint, false, 0);
    SocketName::Inet { endpoint, scope: 0, v6: false }
}

/// Sends to an address, or to the connected peer.
pub(crate) fn send(fd: c_int, data: &[u8], flags: c_int, to: Option<(Address, u16)>) -> Result<usize> {
    let iov = one(data.as_ptr().cast(), data.len());
    // SAFETY: the data lives on.
    let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
    let mut extras = Extras::default();
    let to = to.map(|(a, p)| named(&mut extras, a, p));
    ops::send(fd, &mut buffers, flags | libc::MSG_NOSIGNAL, to, &mut extras)
}

/// Receives up to `len` bytes; also returns the call's result, and the message's name, control
/// messages and flags.
pub(crate) fn receive_all(fd: c_int, len: usize, flags: c_int) -> Result<(Vec<u8>, usize, Extras<'static>)> {
    let mut data = vec![0u8; len];
    let iov = one(data.as_mut_ptr().cast(), len);
    // SAFETY: the data lives on.
    let mut buffers = unsafe { Buffers::new(iov.as_ptr(), 1) }?;
    let mut extras = Extras::default();
    let n = ops::receive(fd, &mut buffers, flags, &mut extras)?;
    data.truncate(n.min(len));
    Ok((data, n, extras))
}

/// Receives up to `len` bytes.
pub(crate) fn receive(fd: c_int, len: usize, flags: c_int) -> Result<Vec<u8>> {
    receive_all(fd, len, flags).map(|(data, ..)| data)
}

/// A connection to a port of the peer.
pub(crate) fn connected(port: u16) -> c_int {
    let fd = socket(libc::SOCK_STREAM);
    ops::connect(fd, &address(THERE, port)).unwrap();
    fd
}
