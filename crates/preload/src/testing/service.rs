//! The control side of the test lane. It grants every claim, and keeps its kernel socket until it
//! is released: the kernel must not give the port to the next connection while the stack still has
//! the last one. It knows one path to everywhere. It answers claims late if it is [held](hold).

use super::HERE;
use crate::sys;
use core::ffi::c_int;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tickwire_lane::control::{Claim, Reason, Reply, Request};
use tickwire_lane_linux::control::Channel;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::path::{PathInfo, PathState, Query};
use tickwire_stack::tcp::Leaving;

/// The path to the peer.
pub(super) fn path_to(query: Query, source: Address) -> PathInfo {
    PathInfo {
        query,
        source,
        interface: 1,
        mtu: 1500,
        source_mac: Mac([2, 0, 0, 0, 0, 1]),
        next_hop_mac: Mac([2, 0, 0, 0, 0, 2]),
        state: PathState::Ready,
        ..PathInfo::default()
    }
}

/// A socket, by its inode, whose claims are late: the channel that signals its claim request, and
/// the one that releases the answer.
struct Late {
    inode: u64,
    asks: Sender<()>,
    goes: Receiver<()>,
}

static LATE: Mutex<Option<Late>> = Mutex::new(None);
/// The sockets of the claims that are not released.
static CLAIMED: Mutex<Vec<u64>> = Mutex::new(Vec::new());

/// Makes the service wait with its answer to claims for a socket.
pub(super) struct Hold {
    inode: u64,
    asked: Receiver<()>,
    go: Sender<()>,
    _turn: MutexGuard<'static, ()>,
}

/// Makes it wait, one test at a time.
pub(super) fn hold(fd: c_int) -> Hold {
    static TURN: Mutex<()> = Mutex::new(());
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let ((asks, asked), (go, goes)) = (channel(), channel());
    let inode = sys::socket_inode(fd).unwrap();
    *LATE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Late { inode, asks, goes });
    Hold { inode, asked, go, _turn: turn }
}

impl Hold {
    /// Waits until the claim is requested, does `work`, and lets it be granted.
    pub(super) fn meanwhile<T>(&self, work: impl FnOnce() -> T) -> T {
        self.asked.recv().unwrap();
        let done = work();
        self.go.send(()).unwrap();
        done
    }

    /// Whether the socket is claimed.
    pub(super) fn claimed(&self) -> bool {
        CLAIMED.lock().unwrap().contains(&self.inode)
    }
}

/// The service's result for a connection that the kernel is to continue: a socket, or a refusal.
type TakeOver = Box<dyn FnMut(&Leaving, &File) -> Option<OwnedFd> + Send>;

static TAKE_OVER: Mutex<Option<TakeOver>> = Mutex::new(None);

/// The service takes connections over by `how` while `work` is done, one test at a time.
pub(super) fn taking_over<T>(
    how: impl FnMut(&Leaving, &File) -> Option<OwnedFd> + Send + 'static,
    work: impl FnOnce() -> T,
) -> T {
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    *TAKE_OVER.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(how));
    let done = work();
    *TAKE_OVER.lock().unwrap_or_else(PoisonError::into_inner) = None;
    done
}

/// A claim for a socket is requested: waits if it is to be late.
fn delay(inode: u64) {
    if let Some(late) = &*LATE.lock().unwrap_or_else(PoisonError::into_inner)
        && late.inode == inode
        && late.asks.send(()).is_ok()
    {
        let _ = late.goes.recv();
    }
}

/// Starts it and returns the program's end of the connection.
pub(super) fn start() -> Channel {
    let (ours, theirs) = Channel::pair().unwrap();
    std::thread::spawn(move || {
        let mut claims = 0;
        let mut kept = HashMap::new();
        while let Ok(mut incoming) = theirs.receive(Duration::from_secs(3600)) {
            let (number, request) = incoming.decode::<Request>().unwrap();
            let mut given = None;
            let reply = match request {
                Request::Claim { .. } => {
                    let socket = incoming.descriptors.take(0).unwrap();
                    let inode = sys::socket_inode(socket.as_raw_fd()).unwrap();
                    delay(inode);
                    claims += 1;
                    kept.insert(claims, (inode, socket));
                    Reply::Claimed { claim: Claim(claims), local: Endpoint::default() }
                }
                Request::Resolve { query, choose } => {
                    let chosen = if choose && query.source == Address::ANY { HERE } else { Address::ANY };
                    Reply::Path { path: PathInfo { chosen, ..path_to(query, HERE) }, reason: Reason::None }
                }
                Request::Release { parts } => {
                    for part in parts.as_slice() {
                        kept.remove(&part.claim.0);
                    }
                    Reply::Done
                }
                Request::TakeOver { state, .. } => {
                    let file = File::from(incoming.descriptors.take(0).unwrap());
                    let mut how = TAKE_OVER.lock().unwrap_or_else(PoisonError::into_inner);
                    given = how.as_mut().and_then(|how| how(&state, &file));
                    let refused = Reply::Refused { reason: Reason::ServiceError, interface: 0 };
                    if given.is_some() { Reply::TakenOver } else { refused }
                }
                _ => Reply::Done,
            };
            *CLAIMED.lock().unwrap() = kept.values().map(|(inode, _)| *inode).collect();
            if theirs.send(&reply, number, given.as_ref().map(AsFd::as_fd).as_slice()).is_err() {
                return;
            }
        }
    });
    ours
}
