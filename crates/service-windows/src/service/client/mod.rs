//! One program's connection.
//!
//! | module | purpose |
//! |---|---|
//! | `claiming` | claims, and the sockets that justify them |
//! | `paths` | paths to destinations |

mod claiming;
mod paths;

use super::core::{LaneProgram, ListedLane};
use super::handle_thread::HandleThread;
use super::mailbox::Mailbox;
use super::{ClientOf, Shared};
use crate::capture_tap::CaptureNumber;
use paths::KeptPath;
use std::os::windows::io::AsHandle;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickwire_host_windows::process_image;
use tickwire_lane::control::{CountersOf, Name, Push, Reason, Reply, Request, Token};
use tickwire_lane_windows::control::{ClientRequest, HandleGrant, ReceiveError, ServerChannel};
use tickwire_lane_windows::event::wait_for;
use tickwire_lane_windows::lane_memory::LIMITS;
use tickwire_lane_windows::lane_snapshot::{LaneSnapshot, TOOL_READS};
use tickwire_registry::LaneId;

/// At most so many requests are answered before the thread looks at anything else.
const TURN: usize = 64;

/// The thread looks for the end of its program's process at least so often.
const LONGEST_SLEEP: Duration = Duration::from_secs(1);

struct Client<'s> {
    shared: &'s Shared,
    channel: ServerChannel,
    mailbox: Arc<Mailbox>,
    client: ClientOf,
    /// The file of its program.
    image: Option<Arc<str>>,
    /// Examines and closes its handles, once there are some.
    handles: Option<HandleThread>,
    lane: Option<LaneId>,
    /// Its number among the programs without a lane, if it is one.
    unserved: Option<u64>,
    capture: Option<CaptureNumber>,
    paths: Vec<KeptPath>,
    /// [`super::core::Core::generation`] when they were found.
    generation: u64,
}

impl Drop for Client<'_> {
    fn drop(&mut self) {
        if let Some(lane) = self.lane {
            self.shared.core().end_lane(lane);
        }
        if let Some(number) = self.unserved {
            self.shared.core().forget_unserved(number);
        }
        if let Some(number) = self.capture {
            self.shared.core().end_capture(number);
        }
    }
}

/// Serves a program until it has gone, or the service ends.
pub(super) fn serve(shared: &Shared, channel: ServerChannel, mailbox: Arc<Mailbox>, client: ClientOf) {
    let process = channel.process_id();
    let image = process_image(channel.process()).map(Arc::from);
    let image = image.inspect_err(|error| tracing::debug!(process, %error, "a program's file is not known")).ok();
    let (handles, lane, unserved, capture, paths, generation) = (None, None, None, None, Vec::new(), 0);
    let mut client =
        Client { shared, channel, mailbox, client, image, handles, lane, unserved, capture, paths, generation };
    while !client.mailbox.is_ending() {
        match client.turn() {
            Ok(()) => client.wait(),
            Err(error) => {
                tracing::debug!(process, %error, "a program's connection has ended");
                break;
            }
        }
    }
}

impl Client<'_> {
    /// Sleeps until there is something to do.
    fn wait(&self) {
        let (request, ending) = (self.channel.event(), self.mailbox.event());
        let process = self.channel.process();
        let next = self.paths.iter().map(|path| path.at.saturating_duration_since(Instant::now())).min();
        let time = next.map_or(LONGEST_SLEEP, |next| next.min(LONGEST_SLEEP));
        let _ = match self.channel.write_event() {
            Some(room) => wait_for(&[request, ending, process, room], Some(time)),
            None => wait_for(&[request, ending, process], Some(time)),
        };
    }

    /// Tells the program which of its claims have ended.
    fn push_lost(&mut self) -> Result<(), Box<dyn std::error::Error>> {
        for (claim, reason) in self.mailbox.take_lost() {
            if let Err(error) = self.channel.send(&Push::ClaimLost { claim, reason }, 0, &[])
                && error.is_end()
            {
                return Err(error.into());
            }
        }
        Ok(())
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
        self.push_lost()?;
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
            Request::Capture { lane, snaplen } => return self.begin_capture(number, lane, snaplen),
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
            Request::Ports { source, count } => self.lane().and_then(|_| self.offer_ports(source, count)),
            Request::ListInterfaces { after } => Ok(match self.shared.core().next_interface(after) {
                Some(info) => Reply::Interface { info: Box::new(info) },
                None => Reply::Done,
            }),
            Request::Counters { of, lane } => {
                let core = self.shared.core();
                let is_shown = of == CountersOf::Host || core.shows(lane, &self.client.user);
                let figures = if is_shown { core.figures(of, lane) } else { Err(Reason::LaneGone) };
                drop(core);
                figures.map(|figures| Reply::Counters { figures: Box::new(figures) })
            }
            Request::OnKernel { program, reason } => {
                if let Some(lane) = self.lane.take() {
                    self.shared.core().end_lane(lane);
                }
                self.note_unserved(program, reason);
                Ok(Reply::Done)
            }
            Request::ListClaims { lane, after } => {
                let core = self.shared.core();
                let next = core.shows(lane, &self.client.user).then(|| core.next_claim(lane, after)).flatten();
                Ok(next.map_or(Reply::Done, |held| Reply::Held { held }))
            }
            // What lanes of Linux ask for: processes that share a lane, TAP devices, connections
            // that the kernel is to continue.
            _ => Err(Reason::BadRequest),
        };
        self.send(outcome.unwrap_or_else(refused), number)
    }

    fn lane(&self) -> Result<LaneId, Reason> {
        self.lane.ok_or(Reason::BadRequest)
    }

    /// Answers [`Request::ListLanes`]: with a copy of what the lane's program has written about its
    /// sockets, which is made without the core's lock.
    fn list_lane(&mut self, number: u32, after: u64) -> Result<(), Box<dyn std::error::Error>> {
        let next = self.shared.core().next_lane(after, &self.client.user);
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

    /// Answers [`Request::Capture`].
    fn begin_capture(&mut self, number: u32, lane: LaneId, snaplen: u32) -> Result<(), Box<dyn std::error::Error>> {
        let begun = match self.capture {
            Some(_) => Err(Reason::BadRequest),
            None => self.shared.core().begin_capture(&self.shared.users, &self.client.user, lane, snaplen),
        };
        match begun {
            Ok((capture, grant)) => {
                self.capture = Some(capture);
                self.channel.send(&Reply::Capturing, number, &grant.handles())?;
                Ok(())
            }
            Err(reason) => self.send(refused(reason), number),
        }
    }

    /// The program has no lane: listings say why, until it connects no more, or gets one.
    fn note_unserved(&mut self, program: Name, reason: Reason) {
        let mut core = self.shared.core();
        if let Some(number) = self.unserved.take() {
            core.forget_unserved(number);
        }
        let user = self.client.user.clone();
        self.unserved = Some(core.note_unserved(self.channel.process_id(), user, program, reason));
    }

    /// Answers [`Request::Hello`].
    fn hello(&mut self, number: u32, program: Name, layout: u64) -> Result<(), Box<dyn std::error::Error>> {
        if self.lane.is_some() {
            return self.send(refused(Reason::BadRequest), number);
        }
        let (process, image) = (self.channel.process_id(), self.image.clone());
        let (mailbox, user) = (Arc::clone(&self.mailbox), self.client.user.clone());
        let of = LaneProgram { process, image, mailbox, user };
        let made = self.shared.core().new_lane(&self.shared.users, &of, program, layout);
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

fn refused(reason: Reason) -> Reply {
    Reply::Refused { reason, interface: 0 }
}

fn has_ended(channel: &ServerChannel) -> bool {
    matches!(wait_for(&[channel.process()], Some(Duration::ZERO)), Ok(Some(_)))
}
