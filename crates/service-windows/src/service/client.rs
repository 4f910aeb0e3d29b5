//! One program's connection.

use super::Shared;
use super::accelerated_host::interval;
use super::mailbox::Mailbox;
use crate::socket_proof;
use std::os::windows::io::AsHandle;
use std::time::{Duration, Instant};
use tickwire_host_windows::ResolvedPath;
use tickwire_lane::control::{Name, Push, Reason, Reply, Request, Token};
use tickwire_lane_windows::control::{ClientRequest, ReceiveError, ServerChannel};
use tickwire_lane_windows::event::wait_for;
use tickwire_lane_windows::lane_memory::LIMITS;
use tickwire_registry::LaneId;
use tickwire_stack::path::Query;

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
    /// The paths that it has asked for, and when each is to be looked at again.
    paths: Vec<(ResolvedPath, Instant)>,
}

/// Serves a program until it has gone, or the service ends.
pub(super) fn serve(shared: &Shared, channel: ServerChannel, mailbox: &Mailbox) {
    let process = channel.process_id();
    let mut client = Client { shared, channel, lane: None, paths: Vec::new() };
    while !mailbox.is_ending() {
        match client.turn() {
            Ok(()) => client.wait(mailbox),
            Err(error) => {
                tracing::debug!(process, %error, "a program's connection has ended");
                break;
            }
        }
    }
    if let Some(lane) = client.lane {
        shared.core().end_lane(lane);
    }
}

impl Client<'_> {
    /// Sleeps until there is something to do.
    fn wait(&self, mailbox: &Mailbox) {
        let (request, ending) = (self.channel.event(), mailbox.event());
        let process = self.channel.process();
        let next = self.paths.iter().map(|(_, at)| at.saturating_duration_since(Instant::now())).min();
        let time = next.map_or(LONGEST_SLEEP, |next| next.min(LONGEST_SLEEP));
        let _ = match self.channel.write_event() {
            Some(room) => wait_for(&[request, ending, process, room], Some(time)),
            None => wait_for(&[request, ending, process], Some(time)),
        };
    }

    /// Looks at paths again, and tells the program what has changed.
    fn push_paths(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        let now = Instant::now();
        for (path, at) in self.paths.iter_mut().filter(|(_, at)| *at <= now) {
            let has_changed = self.shared.core().update(path);
            *at = now + interval(path);
            if has_changed {
                let push = Push::PathChanged { path: path.path, reason: path.reason };
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
        self.paths.retain(|(path, _)| path.path.query != *query);
        if self.paths.len() < MOST_PATHS {
            let at = Instant::now() + interval(&found);
            self.paths.push((found, at));
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
        if let Request::Hello { program, layout } = request {
            return self.hello(number, program, layout);
        }
        let outcome = match request {
            Request::Claim { kind, remote } => self.lane().and_then(|lane| {
                let socket = handles.take(0).ok_or(Reason::BadRequest)?;
                // Before the core is locked: Windows may take its time.
                let proven = socket_proof::examine(socket.as_handle())?;
                let (claim, local) = self.shared.core().claim(lane, (kind, remote), (socket, proven))?;
                Ok(Reply::Claimed { claim, local })
            }),
            Request::Release { parts } => {
                self.lane().and_then(|lane| self.shared.core().release(lane, &parts)).map(|()| Reply::Done)
            }
            Request::Resolve { query, .. } => self.resolve(&query),
            Request::ListLanes { after } => Ok(match self.shared.core().next_lane(after) {
                Some(info) => Reply::LaneInfo { cursor: info.lane.into(), info: Box::new(info) },
                None => Reply::Done,
            }),
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

    fn lane(&self) -> Result<LaneId, Reason> {
        self.lane.ok_or(Reason::BadRequest)
    }

    /// Answers [`Request::Hello`].
    fn hello(&mut self, number: u32, program: Name, layout: u64) -> Result<(), Box<dyn std::error::Error>> {
        if self.lane.is_some() {
            return self.send(refused(Reason::BadRequest), number);
        }
        let made = self.shared.core().new_lane(self.channel.process_id(), program, layout);
        let (lane, grant) = match made {
            Ok(made) => made,
            Err(reason) => return self.send(refused(reason), number),
        };
        self.lane = Some(lane);
        let mtu = self.shared.core().mtu();
        let reply = Reply::Lane { lane, token: Token::default(), limits: LIMITS, mtu };
        self.channel.send(&reply, number, &grant.handles(&self.shared.doorbell))?;
        Ok(())
    }
}

fn refused(reason: Reason) -> Reply {
    Reply::Refused { reason, interface: 0 }
}

fn has_ended(channel: &ServerChannel) -> bool {
    matches!(wait_for(&[channel.process()], Some(Duration::ZERO)), Ok(Some(_)))
}
