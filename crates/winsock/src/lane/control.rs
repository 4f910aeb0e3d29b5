//! Requests to the service, and what it tells.

use std::collections::VecDeque;
use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;
use tickwire_lane::control::{Claim, ClaimKind, ClaimPart, EphemeralPorts, Name, Parts, Push, Reason, Reply, Request};
use tickwire_lane_windows::control::{ClientChannel, Handles, Unawaited, pipe_name};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::path::{PathInfo, Query};
use tickwire_stack::{Memory, Stack};

/// How long the service may take for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The connection, and what is to be told by it as soon as the pipe has room.
struct Connection {
    channel: ClientChannel,
    untold: VecDeque<Request>,
}

impl Connection {
    /// Tells what is waiting, as far as there is room. Returns whether nothing is left.
    fn tell(&mut self) -> bool {
        while let Some(request) = self.untold.pop_front() {
            if let Err(error) = self.channel.tell(&request) {
                // The end of the connection is noticed where it is read from.
                if !error.is_end() {
                    self.untold.push_front(request);
                }
                return false;
            }
        }
        true
    }

    /// Releases a claim whose answer came when no thread waited for it any more.
    fn release_late(&mut self, claim: Claim) {
        self.untold.push_back(release(claim));
        self.tell();
    }
}

/// Why the service has closed a connection, if it has said so.
fn said_at_end(channel: &mut ClientChannel) -> Reason {
    match channel.take() {
        Ok(Some(Unawaited::Push(Push::Closing { reason }))) => reason,
        _ => Reason::ServiceError,
    }
}

fn release(claim: Claim) -> Request {
    Request::Release { parts: Parts::new(&[ClaimPart { claim, remote: Endpoint::default() }]) }
}

/// The connection to the service.
pub(super) struct Control {
    connection: Mutex<Connection>,
    /// Copies of its events, to be waited for without its lock.
    events: [OwnedHandle; 2],
}

impl Control {
    /// Connects to the service and asks for a lane. Returns its answer.
    pub(super) fn begin() -> Result<(Self, Reply, Handles), Reason> {
        let mut channel = ClientChannel::connect(&pipe_name(), TIMEOUT).map_err(|error| error.reason())?;
        let hello = Request::Hello { program: Name::new(&program()), layout: Memory::LAYOUT_HASH };
        let asked = channel.request(&hello, &[], TIMEOUT);
        let (reply, handles) = asked.map_err(|_| said_at_end(&mut channel))?;
        let [first, second] = channel.events().map(|event| event.try_clone_to_owned());
        let events = [first.map_err(|_| Reason::ServiceError)?, second.map_err(|_| Reason::ServiceError)?];
        let connection = Connection { channel, untold: VecDeque::new() };
        Ok((Self { connection: Mutex::new(connection), events }, reply, handles))
    }

    /// Tells the service that the program stays on the kernel.
    pub(super) fn stay_on_kernel(&self, reason: Reason) {
        let _ = self.ask(&Request::OnKernel { program: Name::new(&program()), reason }, &[]);
    }

    /// Whether the service has a driver that gives packets to lanes.
    ///
    /// # Errors
    /// Why not.
    pub(super) fn packets_come(&self) -> Result<(), Reason> {
        match self.ask(&Request::ListInterfaces { after: 0 }, &[])? {
            Reply::Interface { info } if info.reason == Reason::NoDriver => Err(info.reason),
            _ => Ok(()),
        }
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, unless a thread is waiting for an answer on it. For callers that have the
    /// lane's lock.
    fn free_connection(&self) -> Option<MutexGuard<'_, Connection>> {
        match self.connection.try_lock() {
            Ok(connection) => Some(connection),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    fn ask(&self, request: &Request, handles: &[BorrowedHandle<'_>]) -> Result<Reply, Reason> {
        match self.connection().channel.request(request, handles, TIMEOUT) {
            Ok((Reply::Refused { reason, .. }, _)) => Err(reason),
            Ok((reply, _)) => Ok(reply),
            Err(_) => Err(Reason::ServiceError),
        }
    }

    /// Claims what a socket justifies. Returns the claim, and the socket's name.
    pub(super) fn claim(
        &self,
        kind: ClaimKind,
        remote: Endpoint,
        socket: BorrowedHandle<'_>,
    ) -> Result<(Claim, Endpoint), Reason> {
        match self.ask(&Request::Claim { kind, remote }, &[socket])? {
            Reply::Claimed { claim, local } => Ok((claim, local)),
            _ => Err(Reason::ServiceError),
        }
    }

    /// Releases a claim.
    pub(super) fn release(&self, claim: Claim) {
        let _ = self.ask(&release(claim), &[]);
    }

    /// Ports from which to connect. `None` if the service offers none at all; there may be none at
    /// the moment.
    pub(super) fn ports(&self, source: Address) -> Option<Vec<u16>> {
        let count = EphemeralPorts::MAX as u32;
        match self.ask(&Request::Ports { source, count }, &[]) {
            Ok(Reply::Ports { ports, .. }) => Some(ports.as_slice().iter().map(|offered| offered.port).collect()),
            Err(Reason::FlowLimit) => Some(Vec::new()),
            _ => None,
        }
    }

    /// The path to a destination.
    pub(super) fn resolve(&self, query: Query) -> Result<(PathInfo, Reason), Reason> {
        match self.ask(&Request::Resolve { query, choose: false }, &[])? {
            Reply::Path { path, reason } => Ok((path, reason)),
            _ => Err(Reason::ServiceError),
        }
    }

    /// Asks for the paths that the stack wants, without waiting for the answers. If the connection
    /// is in use, or the pipe is full, the next call does.
    pub(super) fn ask_for_paths(&self, stack: &mut Stack<'_>) {
        if !stack.has_request() {
            return;
        }
        let Some(mut connection) = self.free_connection() else { return };
        // The stack keeps what it wants until the one before has been told.
        while connection.tell()
            && let Some(query) = stack.take_request()
        {
            connection.untold.push_back(Request::Resolve { query, choose: false });
        }
    }

    /// What the service has told since the last call: paths, claims that have ended, and whether
    /// the lane ends. Nothing if the connection is in use.
    pub(super) fn take_news(&self, mut path: impl FnMut(PathInfo)) -> Result<Vec<(Claim, Reason)>, Reason> {
        let mut lost = Vec::new();
        let Some(mut connection) = self.free_connection() else { return Ok(lost) };
        connection.tell();
        loop {
            match connection.channel.take() {
                Ok(Some(Unawaited::Push(Push::PathChanged { path: changed, .. }))) => path(changed),
                Ok(Some(Unawaited::Reply { reply: Reply::Path { path: found, .. }, .. })) => path(found),
                Ok(Some(Unawaited::Push(Push::ClaimLost { claim, reason }))) => lost.push((claim, reason)),
                Ok(Some(Unawaited::Reply { reply: Reply::Claimed { claim, .. }, .. })) => {
                    connection.release_late(claim);
                }
                Ok(Some(Unawaited::Push(Push::Closing { reason }))) => return Err(reason),
                Ok(Some(_)) => (),
                Ok(None) => return Ok(lost),
                Err(_) => return Err(Reason::LaneGone),
            }
        }
    }

    /// What is signalled when the service has told something.
    pub(super) fn events(&self) -> [BorrowedHandle<'_>; 2] {
        [self.events[0].as_handle(), self.events[1].as_handle()]
    }
}

/// The name of this program, for display.
pub(super) fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    path.file_stem().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
