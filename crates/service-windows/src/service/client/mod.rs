//! One program's connection.

use super::Shared;
use super::accelerated_host::interval;
use super::core::ListedLane;
use super::mailbox::Mailbox;
use crate::kernel_sockets::{self, Asked};
use crate::socket_proof;
use std::os::windows::io::{AsHandle, OwnedHandle};
use std::time::{Duration, Instant};
use tickwire_host_windows::{PortProtocol, ResolvedPath, endpoint_rows};
use tickwire_lane::control::{ClaimKind, ClaimPart, Name, Parts, Push, Reason, Reply, Request, Token};
use tickwire_lane_windows::control::{ClientRequest, HandleGrant, ReceiveError, ServerChannel};
use tickwire_lane_windows::event::wait_for;
use tickwire_lane_windows::lane_memory::LIMITS;
use tickwire_lane_windows::lane_snapshot::{LaneSnapshot, TOOL_READS};
use tickwire_registry::{LaneId, ProvenSocket};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::path::Query;
use tickwire_steer::tables::Protocol;

/// At most so many paths of a program are looked after; changes of others are not pushed.
const MOST_PATHS: usize = 4096;

/// At most so many requests are answered before the thread looks at anything else.
const TURN: usize = 64;

/// The thread looks for the end of its program's process at least so often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

struct Client<'s> {
    shared: &'s Shared,
    channel: ServerChannel,
    lane: Option<LaneId>,
    /// Its number among the programs without a lane, if it is one.
    unserved: Option<u64>,
    paths: Vec<KeptPath>,
    /// [`super::core::Core::generation`] when they were found.
    generation: u64,
}

/// A path that the program has asked for.
struct KeptPath {
    found: ResolvedPath,
    since: Instant,
    /// When it is to be looked at again.
    at: Instant,
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane {
            self.shared.core().end_lane(lane);
        }
        if let Some(number) = self.unserved {
            self.shared.core().forget_unserved(number);
        }
    }
}

/// Serves a program until it has gone, or the service ends.
pub(super) fn serve(shared: &Shared, channel: ServerChannel, mailbox: &Mailbox) {
    let process = channel.process_id();
    let mut client = Client { shared, channel, lane: None, unserved: None, paths: Vec::new(), generation: 0 };
    while !mailbox.is_ending() {
        match client.turn() {
            Ok(()) => client.wait(mailbox),
            Err(error) => {
                tracing::debug!(process, %error, "a program's connection has ended");
                break;
            }
        }
    }
}

impl Client<'_> {
    /// Sleeps until there is something to do.
    fn wait(&self, mailbox: &Mailbox) {
        let (request, ending) = (self.channel.event(), mailbox.event());
        let process = self.channel.process();
        let next = self.paths.iter().map(|path| path.at.saturating_duration_since(Instant::now())).min();
        let time = next.map_or(LONGEST_SLEEP, |next| next.min(LONGEST_SLEEP));
        let _ = match self.channel.write_event() {
            Some(room) => wait_for(&[request, ending, process, room], Some(time)),
            None => wait_for(&[request, ending, process], Some(time)),
        };
    }

    /// Looks at paths again, and tells the program what has changed.
    fn push_paths(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let now = Instant::now();
        let generation = self.shared.core().generation();
        let is_anew = std::mem::replace(&mut self.generation, generation) != generation;
        for path in self.paths.iter_mut().filter(|path| is_anew || path.at <= now) {
            let KeptPath { found, since, at } = path;
            let has_changed = if is_anew {
                let new = self.shared.core().resolve(&found.path.query);
                let old = std::mem::replace(found, new);
                *since = now;
                !is_same(&old, found)
            } else {
                self.shared.core().update(found)
            };
            *at = now + interval(found, now.saturating_duration_since(*since));
            if has_changed {
                let push = Push::PathChanged { path: found.path, reason: found.reason };
                if let Err(error) = self.channel.send(&push, 0, &[])
                    && error.is_end()
                {
                    return Err(error.into());
                }
            }
        }
        Ok(())
    }

    /// Answers [`Request::Resolve`].
    fn resolve(&mut self, query: &Query) -> Result<Reply, Reason> {
        self.lane()?;
        let found = self.shared.core().resolve(query);
        tracing::debug!(destination = %query.destination, state = ?found.path.state, reason = ?found.reason, "a path");
        let reply = Reply::Path { path: found.path, reason: found.reason };
        self.paths.retain(|path| path.found.path.query != *query);
        if self.paths.len() < MOST_PATHS {
            let since = Instant::now();
            let at = since + interval(&found, Duration::ZERO);
            self.paths.push(KeptPath { found, since, at });
        }
        Ok(reply)
    }

    /// Answers what has been asked. An error ends the connection.
    fn turn(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        for _ in 0..TURN {
            match self.channel.try_receive() {
                Ok(Some(request)) => self.answer(request)?,
                Ok(None) => break,
                Err(error) if error.is_end() => return Err(error.into()),
                // A handle that cannot be copied: the program waits for an answer.
                Err(ReceiveError::Handle { number, .. }) => {
                    self.send(refused(Reason::BadRequest), number)?;
                }
                Err(_) => break,
            }
        }
        self.push_paths()?;
        self.channel.flush()?;
        if has_ended(&self.channel) {
            return Err("its process has ended".into());
        }
        Ok(())
    }

    fn send(&mut self, reply: Reply, number: u32) -> Result<(), Box<dyn std::error::Error>> {
        match self.channel.send(&reply, number, &[]) {
            Err(error) if error.is_end() => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn answer(&mut self, request: ClientRequest) -> Result<(), Box<dyn std::error::Error>> {
        let ClientRequest { number, request, mut handles } = request;
        match request {
            Request::Hello { program, layout } => return self.hello(number, program, layout),
            Request::ListLanes { after } => return self.list_lane(number, after),
            _ => (),
        }
        let outcome = match request {
            Request::Claim { kind, remote } => self.lane().and_then(|lane| {
                let socket = handles.take(0).ok_or(Reason::BadRequest)?;
                self.claim(lane, (kind, remote), socket)
            }),
            Request::Release { parts } => {
                self.lane().and_then(|lane| self.shared.core().release(lane, &parts)).map(|()| Reply::Done)
            }
            Request::Resolve { query, .. } => self.resolve(&query),
            Request::ListInterfaces { after } => Ok(match self.shared.core().next_interface(after) {
                Some(info) => Reply::Interface { info: Box::new(info) },
                None => Reply::Done,
            }),
            Request::Counters { of, lane } => {
                let figures = self.shared.core().figures(of, lane);
                figures.map(|figures| Reply::Counters { figures: Box::new(figures) })
            }
            Request::OnKernel { program, reason } => {
                if let Some(lane) = self.lane.take() {
                    self.shared.core().end_lane(lane);
                }
                self.note_unserved(program, reason);
                Ok(Reply::Done)
            }
            Request::ListClaims { lane, after } => Ok(match self.shared.core().next_claim(lane, after) {
                Some(held) => Reply::Held { held },
                None => Reply::Done,
            }),
            // What lanes of Linux ask for: processes that share a lane, TAP devices, connections
            // that the kernel is to continue.
            _ => Err(Reason::BadRequest),
        };
        self.send(outcome.unwrap_or_else(refused), number)
    }

    /// Answers [`Request::Claim`].
    fn claim(&self, lane: LaneId, wanted: (ClaimKind, Endpoint), socket: OwnedHandle) -> Result<Reply, Reason> {
        // Before the core is locked: Windows may take its time.
        let mut proven = socket_proof::examine(socket.as_handle())?;
        if wanted.0 == ClaimKind::Flow {
            self.choose_source(&mut proven, wanted.1)?;
        }
        let process = self.channel.process_id();
        let protocol = if proven.bound.protocol == Protocol::Tcp { PortProtocol::Tcp } else { PortProtocol::Udp };
        let is_allowed = || {
            let rows = endpoint_rows(protocol).map_err(|_| Reason::NoDiagnostics)?;
            kernel_sockets::allow(&Asked { socket: &proven, kind: wanted.0, remote: wanted.1, process }, &rows)
        };
        is_allowed()?;
        let (claim, local) = self.shared.core().claim(lane, wanted, (socket, proven))?;
        // And again: the kernel may have got a connection in the meantime. From now on it gets
        // none.
        if let Err(reason) = is_allowed() {
            let parts = Parts::new(&[ClaimPart { claim, remote: Endpoint::default() }]);
            let _ = self.shared.core().release(lane, &parts);
            return Err(reason);
        }
        Ok(Reply::Claimed { claim, local })
    }

    /// A socket at any address has its port at each. Its connection goes out from the one by which
    /// the host reaches the peer, as the kernel chooses it: the flow is claimed there.
    fn choose_source(&self, proven: &mut ProvenSocket, remote: Endpoint) -> Result<(), Reason> {
        let bound = &mut proven.bound;
        let reaches = bound.local.address.family() == remote.address.family() || bound.dual;
        if bound.local.address.is_unspecified() && reaches {
            let found = self.shared.core().resolve(&Query::to(remote.address));
            if found.reason != Reason::None {
                return Err(found.reason);
            }
            bound.local.address = found.path.source;
        }
        Ok(())
    }

    fn lane(&self) -> Result<LaneId, Reason> {
        self.lane.ok_or(Reason::BadRequest)
    }

    /// Answers [`Request::ListLanes`]: with a copy of what the lane's program has written about its
    /// sockets, which is made without the core's lock.
    fn list_lane(&mut self, number: u32, after: u64) -> Result<(), Box<dyn std::error::Error>> {
        let next = self.shared.core().next_lane(after);
        let Some(ListedLane { cursor, info, memory }) = next else { return self.send(Reply::Done, number) };
        // Without memory for a copy, the tool shows the lane without it.
        let copy = memory.and_then(|memory| LaneSnapshot::take(&memory).ok());
        let grant = copy.as_ref().map(|copy| HandleGrant::only(copy.as_handle(), TOOL_READS));
        let reply = Reply::LaneInfo { cursor, info: Box::new(info) };
        match self.channel.send(&reply, number, grant.as_slice()) {
            Err(error) if error.is_end() => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// The program has no lane: listings say why, until it connects no more, or gets one.
    fn note_unserved(&mut self, program: Name, reason: Reason) {
        let mut core = self.shared.core();
        if let Some(number) = self.unserved.take() {
            core.forget_unserved(number);
        }
        self.unserved = Some(core.note_unserved(self.channel.process_id(), program, reason));
    }

    /// Answers [`Request::Hello`].
    fn hello(&mut self, number: u32, program: Name, layout: u64) -> Result<(), Box<dyn std::error::Error>> {
        if self.lane.is_some() {
            return self.send(refused(Reason::BadRequest), number);
        }
        let made = self.shared.core().new_lane(self.channel.process_id(), program, layout);
        let (lane, grant) = match made {
            Ok(made) => made,
            Err(reason) => {
                self.note_unserved(program, reason);
                return self.send(refused(reason), number);
            }
        };
        self.lane = Some(lane);
        if let Some(number) = self.unserved.take() {
            self.shared.core().forget_unserved(number);
        }
        let mtu = self.shared.core().mtu();
        let reply = Reply::Lane { lane, token: Token::default(), limits: LIMITS, mtu };
        self.channel.send(&reply, number, &grant.handles())?;
        Ok(())
    }
}

/// Whether two paths are the same to a stack.
fn is_same(one: &ResolvedPath, other: &ResolvedPath) -> bool {
    let key = |found: &ResolvedPath| {
        let path = &found.path;
        (path.state, path.source, path.interface, path.mtu, path.next_hop_mac, found.reason)
    };
    key(one) == key(other)
}

fn refused(reason: Reason) -> Reply {
    Reply::Refused { reason, interface: 0 }
}

fn has_ended(channel: &ServerChannel) -> bool {
    matches!(wait_for(&[channel.process()], Some(Duration::ZERO)), Ok(Some(_)))
}
