//! The service's end of one connection. Nothing in it waits for the client.
//!
//! What the client does not read is queued up to [`MAX_QUEUED`]; then the connection ends. One
//! request is read ahead; more of them stay in the pipe, which is bounded, until the service takes
//! that one. So a service slows a client down by not receiving from it.

use super::frame::{Parts, frame, greeting};
use super::handles::{HandleGrant, Handles};
use super::overlapped::Pipe;
use super::process::{ClientProcess, RemoteHandle};
use super::server_error::{ReceiveError, ReplyError};
use super::sys::{Event, wait};
use crate::event::wait_for;
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::time::{Duration, Instant};
use tickwire_lane::control::{MessageTo, Request};
use windows_sys::Win32::System::Threading::EVENT_MODIFY_STATE;

/// A client that leaves so many bytes unread, beside those that the pipe holds, is disconnected.
pub const MAX_QUEUED: usize = 256 * 1024;

/// What a message costs beside its bytes.
const OVERHEAD: usize = 64;

/// A request that was received.
#[derive(Debug)]
pub struct ClientRequest {
    /// Its number, for the reply.
    pub number: u32,
    /// The request.
    pub request: Request,
    /// The service's copies of the handles that came with it. They may be of any kind, so look at a
    /// handle with care: even its type or name may not be asked for without waiting, if it is a
    /// file that the client reads from.
    pub handles: Handles,
}

/// A message that is to be written.
struct Outgoing {
    frame: Vec<u8>,
    /// Its handles, already in the client's process.
    handles: Vec<RemoteHandle>,
}

impl Outgoing {
    /// The bytes that it counts for.
    fn cost(&self) -> usize {
        self.frame.len() + OVERHEAD
    }
}

/// The service's end of the connection to one client.
pub struct ServerChannel {
    pipe: Pipe,
    process: ClientProcess,
    /// The event of the greeting, until the client was seen to have set it.
    proof: Option<Event>,
    /// Messages that wait for those before them.
    queue: VecDeque<Outgoing>,
    /// The bytes of these, and of the message that is being written.
    queued: usize,
    /// The message that is being written.
    writing: Option<Outgoing>,
    is_over: bool,
}

impl ServerChannel {
    /// Greets a client that has connected.
    pub(super) fn new(pipe: Pipe, process: ClientProcess) -> io::Result<Self> {
        let proof = Event::new()?;
        let theirs = process.put(HandleGrant::only(proof.as_handle(), EVENT_MODIFY_STATE))?;
        let mut channel = Self {
            pipe,
            process,
            proof: Some(proof),
            queue: VecDeque::new(),
            queued: 0,
            writing: None,
            is_over: false,
        };
        channel.enqueue(Outgoing { frame: greeting(theirs.value()), handles: vec![theirs] });
        // If the client is gone already, receiving says so.
        let _ = channel.flush();
        channel.pipe.start_read();
        Ok(channel)
    }

    /// The number of the client's process. No other process gets it while the channel exists.
    #[must_use]
    pub const fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// The client's process, with the rights to wait for its end, to ask for its user, and to
    /// duplicate its handles.
    #[must_use]
    pub fn process(&self) -> BorrowedHandle<'_> {
        self.process.handle()
    }

    /// Set when there is something to [`ServerChannel::try_receive`], also if the client has gone.
    #[must_use]
    pub fn event(&self) -> BorrowedHandle<'_> {
        self.pipe.read_event()
    }

    /// Set when more of the queue may be [written](ServerChannel::flush). `None` if nothing is
    /// queued, which is the usual case.
    #[must_use]
    pub fn write_event(&self) -> Option<BorrowedHandle<'_>> {
        self.writing.is_some().then(|| self.pipe.write_event())
    }

    /// Receives a request without blocking. `Ok(None)` if there is none.
    ///
    /// # Errors
    /// [`ReceiveError`], which says whether [the connection has ended](ReceiveError::is_end).
    pub fn try_receive(&mut self) -> Result<Option<ClientRequest>, ReceiveError> {
        if self.is_over {
            return Err(ReceiveError::Gone);
        }
        let received = self.receive_next();
        if received.as_ref().is_err_and(ReceiveError::is_end) {
            self.end();
        } else if !matches!(received, Ok(None)) {
            self.pipe.start_read();
        }
        received
    }

    fn receive_next(&mut self) -> Result<Option<ClientRequest>, ReceiveError> {
        let Some(frame) = self.pipe.poll_read().map_err(ReceiveError::of_read)? else { return Ok(None) };
        let process_id = self.process.id();
        if self.proof.take_if(|proof| proof.is_set()).is_none() && self.proof.is_some() {
            return Err(ReceiveError::Unproven { process_id });
        }
        let parts = Parts::new(frame)?;
        let (number, request) = parts.decode::<Request>()?;
        let mut handles = Handles::default();
        for (place, &value) in parts.values().iter().enumerate() {
            let ours = self.process.pull(value);
            handles.push(ours.map_err(|source| ReceiveError::Handle { number, place, source })?);
        }
        Ok(Some(ClientRequest { number, request, handles }))
    }

    /// Waits up to `timeout` for a request, and sends what is queued meanwhile.
    ///
    /// # Errors
    /// [`ReceiveError`], also [`ReceiveError::TimedOut`].
    pub fn receive(&mut self, timeout: Duration) -> Result<ClientRequest, ReceiveError> {
        let end = Instant::now() + timeout;
        loop {
            if let Some(request) = self.try_receive()? {
                return Ok(request);
            }
            // A client that has gone is noticed by receiving.
            let _ = self.flush();
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(ReceiveError::TimedOut);
            }
            match self.write_event() {
                Some(event) => wait_for(&[self.event(), event], Some(left)).map(drop),
                None => wait(self.event(), left).map(drop),
            }
            .map_err(ReceiveError::Failed)?;
        }
    }

    /// Sends a reply (with the number of its request) or a push (with number 0), and handles, of
    /// which the client gets copies. What the client does not read is queued.
    ///
    /// # Errors
    /// [`ReplyError`], which says whether [the connection has ended](ReplyError::is_end). In any
    /// case the client has none of the handles then.
    pub fn send(
        &mut self,
        message: &impl MessageTo,
        number: u32,
        handles: &[HandleGrant<'_>],
    ) -> Result<(), ReplyError> {
        if self.is_over {
            return Err(ReplyError::Gone);
        }
        let put = |(place, grant): (usize, &HandleGrant<'_>)| {
            self.process.put(*grant).map_err(|source| ReplyError::Handle { place, source })
        };
        let handles = handles.iter().enumerate().map(put).collect::<Result<Vec<_>, _>>()?;
        let values: Vec<u64> = handles.iter().map(RemoteHandle::value).collect();
        let frame = frame(message, number, &values).ok_or(ReplyError::TooManyHandles)?;
        let message = Outgoing { frame, handles };
        if self.queued + message.cost() > MAX_QUEUED {
            self.end();
            return Err(ReplyError::NotReading);
        }
        self.enqueue(message);
        self.flush().map(drop)
    }

    fn enqueue(&mut self, message: Outgoing) {
        self.queued += message.cost();
        self.queue.push_back(message);
    }

    /// Writes what is queued, as far as there is room. Returns whether something is left.
    ///
    /// # Errors
    /// [`ReplyError::Gone`].
    pub fn flush(&mut self) -> Result<bool, ReplyError> {
        if self.is_over {
            return Err(ReplyError::Gone);
        }
        loop {
            match self.pipe.poll_write() {
                Ok(true) => self.written(),
                Ok(false) => return Ok(true),
                Err(_) => {
                    // Requests that the client sent before it left can still be received.
                    self.forget_queue();
                    return Err(ReplyError::Gone);
                }
            }
            let Some(next) = self.queue.pop_front() else { return Ok(false) };
            self.pipe.start_write(&next.frame);
            self.writing = Some(next);
        }
    }

    /// The message is in the pipe: its handles are the client's.
    fn written(&mut self) {
        if let Some(written) = self.writing.take() {
            self.queued -= written.cost();
            written.handles.into_iter().for_each(RemoteHandle::leave);
        }
    }

    /// Takes back what was not sent: its handles are closed in the client's process.
    fn forget_queue(&mut self) {
        if self.pipe.cancel_write() {
            self.written();
        }
        self.writing = None;
        self.queue.clear();
        self.queued = 0;
    }

    fn end(&mut self) {
        self.is_over = true;
        self.forget_queue();
    }
}

impl Drop for ServerChannel {
    fn drop(&mut self) {
        self.forget_queue();
    }
}

impl fmt::Debug for ServerChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerChannel")
            .field("process_id", &self.process_id())
            .field("queued", &self.queued)
            .finish_non_exhaustive()
    }
}
