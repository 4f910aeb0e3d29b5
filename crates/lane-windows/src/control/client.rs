//! The program's end of the connection: requests and their replies.
//!
//! Requests are numbered. What the service sends that no request awaits (pushes, replies that come
//! too late) is kept in order until the program takes it.

use super::connect::{ConnectError, connect, wait_until};
use super::frame::{Parts, frame};
use super::handles::Handles;
use super::overlapped::Pipe;
use super::sys::{Event, adopt};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle};
use std::time::{Duration, Instant};
use tickwire_lane::control::{MalformedMessage, Push, Reply, Request};
use windows_sys::Win32::System::Pipes::GetNamedPipeServerProcessId;

/// So much may be kept.
const MAX_UNAWAITED: usize = 1024;

/// Why a request has no reply.
#[derive(Debug, thiserror::Error)]
pub enum RequestError {
    /// The service ended the connection, or itself.
    #[error("the connection to the service was lost")]
    Gone,
    /// The service does not answer in time. Its reply may still come ([`Unawaited::Reply`]).
    #[error("the service does not answer in time: it may be stuck (see its log)")]
    TimedOut,
    /// The service has not read earlier requests. This one was not sent.
    #[error("the service does not read requests: it may be stuck (see its log)")]
    NotReading,
    /// It sends what cannot be understood.
    #[error("the service's answer cannot be understood ({0}): is it of another version?")]
    Malformed(#[from] MalformedMessage),
    /// A handle that it has sent is not there.
    #[error("a handle of the service's answer is not valid: {0}")]
    Handle(io::Error),
    /// More pushes came than are kept.
    #[error("the program does not take what the service pushes")]
    TooMuch,
    /// There are more handles than a message may have.
    #[error("a request has too many handles")]
    TooManyHandles,
}

impl RequestError {
    /// Whether the connection has ended.
    #[must_use]
    pub const fn is_end(&self) -> bool {
        !matches!(self, Self::TimedOut | Self::NotReading | Self::TooManyHandles)
    }
}

/// What the service sent that no request awaits.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "it is moved once or twice; a box would be made for each reply")]
pub enum Unawaited {
    /// A push.
    Push(Push),
    /// A reply that came too late, or one to [`ClientChannel::tell`].
    Reply {
        /// The number of its request, 0 for [`ClientChannel::tell`].
        number: u32,
        /// The reply.
        reply: Reply,
        /// Its handles.
        handles: Handles,
    },
}

/// A program's connection to the service.
pub struct ClientChannel {
    pipe: Pipe,
    /// The number of the last request.
    number: u32,
    kept: VecDeque<Unawaited>,
    /// Set while something is kept.
    is_kept: Event,
    is_over: bool,
}

impl ClientChannel {
    /// Connects to the service, whose pipe has this name.
    ///
    /// # Errors
    /// [`ConnectError`].
    pub fn connect(name: &str, timeout: Duration) -> Result<Self, ConnectError> {
        let is_kept = Event::new().map_err(|source| ConnectError::Failed { name: name.into(), source })?;
        let pipe = connect(name, timeout)?;
        Ok(Self { pipe, number: 0, kept: VecDeque::new(), is_kept, is_over: false })
    }

    /// The number of the service's process.
    ///
    /// # Errors
    /// An error of Windows, if the connection has ended.
    pub fn server_process_id(&self) -> io::Result<u32> {
        let mut id = 0;
        // SAFETY: an open pipe, and a place for the result.
        let done = unsafe { GetNamedPipeServerProcessId(self.pipe.handle().as_raw_handle(), &raw mut id) };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(id) }
    }

    /// Two events. One of them is set when there may be something to [`ClientChannel::take`]: the
    /// first when something has arrived, also if the service has gone; the second while something
    /// is kept that arrived during a request.
    #[must_use]
    pub fn events(&self) -> [BorrowedHandle<'_>; 2] {
        [self.pipe.read_event(), self.is_kept.as_handle()]
    }

    /// Sends a request, with handles of this process, of which the service takes copies, and waits
    /// for the reply. If that does not come in time the service may still copy them.
    ///
    /// # Errors
    /// [`RequestError`], which says whether [the connection has ended](RequestError::is_end).
    pub fn request(
        &mut self,
        request: &Request,
        handles: &[BorrowedHandle<'_>],
        timeout: Duration,
    ) -> Result<(Reply, Handles), RequestError> {
        let end = Instant::now() + timeout;
        self.number = self.number.wrapping_add(1).max(1);
        self.send(request, self.number, handles, end)?;
        loop {
            match self.receive()? {
                Some(Unawaited::Reply { number, reply, handles }) if number == self.number => {
                    self.forget_older_state(&reply);
                    return Ok((reply, handles));
                }
                Some(other) => self.keep(other)?,
                None => {
                    if !self.wait(end)? {
                        return Err(RequestError::TimedOut);
                    }
                }
            }
        }
    }

    /// Sends a request whose reply is not awaited: it comes as [`Unawaited::Reply`] with number 0.
    /// Does not wait.
    ///
    /// # Errors
    /// As [`ClientChannel::request`].
    pub fn tell(&mut self, request: &Request) -> Result<(), RequestError> {
        self.send(request, 0, &[], Instant::now())
    }

    /// Takes the next of what no request awaits, without waiting.
    ///
    /// # Errors
    /// As [`ClientChannel::request`]; [`RequestError::Gone`] when all has been taken.
    pub fn take(&mut self) -> Result<Option<Unawaited>, RequestError> {
        let Some(first) = self.kept.pop_front() else { return self.receive() };
        if self.kept.is_empty() {
            self.is_kept.reset();
        }
        Ok(Some(first))
    }

    /// Whether something is kept that arrived during a request.
    #[must_use]
    pub fn has_kept(&self) -> bool {
        !self.kept.is_empty()
    }

    fn send(
        &mut self,
        request: &Request,
        number: u32,
        handles: &[BorrowedHandle<'_>],
        end: Instant,
    ) -> Result<(), RequestError> {
        if self.is_over {
            return Err(RequestError::Gone);
        }
        let values: Vec<u64> = handles.iter().map(|handle| handle.as_raw_handle() as u64).collect();
        let frame = frame(request, number, &values).ok_or(RequestError::TooManyHandles)?;
        self.pipe.start_write(&frame);
        loop {
            match self.pipe.poll_write() {
                Ok(true) => return Ok(()),
                Ok(false) => {}
                Err(_) => return Err(self.lost()),
            }
            if !wait_until(self.pipe.write_event(), end).map_err(|_| self.lost())? && !self.pipe.cancel_write() {
                return Err(RequestError::NotReading);
            }
        }
    }

    /// Waits for a message until an instant.
    fn wait(&mut self, end: Instant) -> Result<bool, RequestError> {
        let waited = wait_until(self.pipe.read_event(), end);
        waited.map_err(|_| self.lost())
    }

    /// The next message, without waiting.
    fn receive(&mut self) -> Result<Option<Unawaited>, RequestError> {
        if self.is_over {
            return Err(RequestError::Gone);
        }
        let received = match self.pipe.poll_read() {
            Ok(None) => return Ok(None),
            Ok(Some(frame)) => message(frame),
            Err(_) => return Err(self.lost()),
        };
        match received {
            Ok(message) => {
                self.pipe.start_read();
                Ok(Some(message))
            }
            Err(error) => {
                self.is_over = true;
                Err(error)
            }
        }
    }

    fn keep(&mut self, message: Unawaited) -> Result<(), RequestError> {
        if self.kept.len() >= MAX_UNAWAITED {
            self.is_over = true;
            return Err(RequestError::TooMuch);
        }
        self.kept.push_back(message);
        self.is_kept.set().map_err(|_| self.lost())
    }

    /// An earlier push for a path is older than a reply about it, and would be taken for a change
    /// afterwards.
    fn forget_older_state(&mut self, reply: &Reply) {
        let Reply::Path { path, .. } = reply else { return };
        let is_older = |kept: &Unawaited| matches!(kept, Unawaited::Push(Push::PathChanged { path: old, .. }) if old.query == path.query);
        self.kept.retain(|kept| !is_older(kept));
        if self.kept.is_empty() {
            self.is_kept.reset();
        }
    }

    fn lost(&mut self) -> RequestError {
        self.is_over = true;
        RequestError::Gone
    }
}

impl fmt::Debug for ClientChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientChannel").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Reads a message of the service's.
fn message(frame: &[u8]) -> Result<Unawaited, RequestError> {
    let parts = Parts::new(frame)?;
    if let Ok((_, push)) = parts.decode::<Push>() {
        return Ok(Unawaited::Push(push));
    }
    let (number, reply) = parts.decode::<Reply>()?;
    let mut handles = Handles::default();
    for &value in parts.values() {
        // SAFETY: the service, which is trusted, has put this handle into this process, and says so
        // once.
        handles.push(unsafe { adopt(value) }.map_err(RequestError::Handle)?);
    }
    Ok(Unawaited::Reply { number, reply, handles })
}
