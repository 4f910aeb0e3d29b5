//! The calls of a program: open, write, read. None of them blocks; [`StackError::WouldBlock`] is
//! returned where a blocking call would wait.

use super::settings::TcpOptions;
use crate::addr::Endpoint;
use crate::error::{Result, StackError};
use crate::ids::{Ready, SendSource, Sink, TcpId};
use crate::tcp::connection::socket::{Pending, TcpState};
use crate::tcp::send::multi_frame_segment;
use crate::tcp::send::output::Hold;
use crate::tcp::teardown::closing::over;
use crate::time::Instant;
use crate::{ConnectionIndex, Stack};

/// Which directions to shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shutdown {
    /// Receiving (`SHUT_RD`).
    Read,
    /// Sending (`SHUT_WR`).
    Write,
    /// Both (`SHUT_RDWR`).
    Both,
}

/// How to read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecvFlags {
    /// Leave the data in the queue (`MSG_PEEK`).
    pub peek: bool,
}

impl Stack<'_> {
    /// Starts to open a connection from `local` (address and port, which the caller owns) to
    /// `remote`. It becomes writable when it is open, and reports an error when it fails.
    ///
    /// # Errors
    /// [`StackError::NeedPath`] if the path must be requested from the host first;
    /// [`StackError::NoPath`]; [`StackError::AddressInUse`] if there is such a connection;
    /// [`StackError::NoBuffers`]; [`StackError::Invalid`] for endpoints that no connection can
    /// have.
    pub fn tcp_connect(
        &mut self,
        options: &TcpOptions,
        local: Endpoint,
        remote: Endpoint,
        now: Instant,
    ) -> Result<TcpId> {
        let good = |e: &Endpoint| e.port != 0 && !e.address.is_unspecified() && !e.address.is_multicast();
        if !good(&local) || !good(&remote) || local.address.family() != remote.address.family() {
            return Err(StackError::Invalid);
        }
        let query = options.query(local, remote);
        let path = self.path_lookup(&query, now)?;
        let index = self.new_connection(now, local, remote, path, options)?;
        self.mem.tcp[index].state = TcpState::SynSent;
        self.mem.counters.tcp_active_opens.inc();
        self.send_syn(index, now);
        TcpId::try_from(self.id_of(index))
    }

    /// Queues data and sends as much as may be sent now. `more`: the program will write more at
    /// once (`MSG_MORE`), so an incomplete segment waits. Returns how many bytes were taken, at
    /// least one.
    ///
    /// # Errors
    /// [`StackError::WouldBlock`] if the send buffer is full, no frame is free, or the connection
    /// is not open yet; [`StackError::Pipe`] if the sending side is shut; the error that ended the
    /// connection; [`StackError::Fault`] if the first byte of `source` could not be read;
    /// [`StackError::Stale`].
    pub fn tcp_send(&mut self, id: TcpId, now: Instant, more: bool, source: &mut impl SendSource) -> Result<usize> {
        let index = self.check(id)?;
        let mut taken = 0;
        loop {
            taken += match self.queue(index, now, source) {
                Err(error) if taken == 0 => return Err(error),
                queued => queued.unwrap_or(0),
            };
            let hold = if more && source.remaining() == 0 { Hold::More } else { Hold::AsSet };
            self.tcp_output(index, now, hold);
            // Transmission may have made room below the low-water mark of unsent bytes.
            let s = &self.mem.tcp[index];
            let room =
                s.settings.notsent_lowat != 0 && s.error == Pending::None && s.send_space() > 0 && !s.room.starved;
            if !room || source.remaining() == 0 || source.failed() {
                break;
            }
        }
        self.update_row(index);
        Ok(taken)
    }

    /// Sends data of which the last byte is urgent (`MSG_OOB`).
    ///
    /// # Errors
    /// As [`Stack::tcp_send`].
    pub fn tcp_send_urgent(&mut self, id: TcpId, now: Instant, source: &mut impl SendSource) -> Result<usize> {
        let index = self.check(id)?;
        let taken = self.queue(index, now, source)?;
        if source.remaining() == 0 {
            self.mem.tcp[index].mark_urgent();
        }
        self.tcp_output(index, now, Hold::AsSet);
        self.update_row(index);
        Ok(taken)
    }

    fn queue(&mut self, index: ConnectionIndex, now: Instant, source: &mut impl SendSource) -> Result<usize> {
        let s = &mut self.mem.tcp[index];
        if let Some(error) = core::mem::take(&mut s.error).error() {
            return Err(error);
        }
        match s.state {
            TcpState::SynSent | TcpState::SynReceived => return Err(StackError::WouldBlock),
            _ if s.suspended => return Err(StackError::WouldBlock),
            TcpState::Established | TcpState::CloseWait if !s.closing.write_shut => {}
            _ => return Err(StackError::Pipe),
        }
        if source.remaining() == 0 {
            return Ok(0);
        }
        let space = s.send_space() as usize;
        let reserve = s.frames_for_others(&self.mem.frames);
        if s.send.frames == 0 {
            s.progress.freed_at = now;
        }
        let (mss, larger) = (usize::from(s.mss), s.queue_size(now));
        let wanted = source.remaining();
        let mut append = |size: usize, limit: usize| {
            s.send
                .append(&mut self.mem.frames, multi_frame_segment::part(size), limit, reserve, |into| source.read(into))
        };
        // Data for a larger probe packet is queued in one piece.
        let first = if larger > mss { append(larger, larger.min(space.min(wanted))) } else { 0 };
        let taken = first + append(mss, space.min(wanted) - first);
        // Also when all was taken: a caller that is now told that there is little room waits for a
        // notification.
        s.room.wanted |= taken < wanted || !s.writable();
        if taken < wanted.min(space) && !source.failed() {
            self.relieve(index, now);
        }
        let s = &mut self.mem.tcp[index];
        if taken == 0 {
            if source.failed() {
                return Err(StackError::Fault);
            }
            if space > 0 {
                // No frame is free: not writable until an acknowledgement frees some, or a timer if
                // none is outstanding.
                s.room.starved = true;
                self.mem.counters.frames_exhausted.inc();
                self.schedule(index, now, false);
            }
            return Err(StackError::WouldBlock);
        }
        s.send.push_tail(&mut self.mem.frames);
        Ok(taken)
    }

    /// Reads in-order data. `Ok(0)` is the end of the stream (or a sink without room).
    ///
    /// # Errors
    /// [`StackError::WouldBlock`] if no data is there; the error that ended the connection, once;
    /// [`StackError::NotConnected`]; [`StackError::Fault`] if the first byte could not be written
    /// to `sink` (the data stays queued); [`StackError::Stale`].
    pub fn tcp_recv(&mut self, id: TcpId, now: Instant, flags: RecvFlags, sink: &mut impl Sink) -> Result<usize> {
        let index = self.check(id)?;
        // The receive buffer must not grow beyond what the receive reserve holds at its largest.
        let most_buffer = self.mem.core.tcp.config.receive_buffer_max.min(self.mem.core.fill.most * 1024);
        let s = &mut self.mem.tcp[index];
        if sink.room() == 0 {
            return Ok(0);
        }
        if s.suspended {
            return Err(StackError::WouldBlock);
        }
        let frames = &mut self.mem.frames;
        let limit = s.limit_to_mark(frames, flags.peek).min(sink.room());
        let over = if flags.peek { s.passed_over() } else { 0 };
        let mut left = over;
        let (read, came) = s.recv.read(frames, limit.saturating_add(over), flags.peek, |bytes| {
            let passed = left.min(bytes.len());
            left -= passed;
            passed + bytes.get(passed..).map_or(0, |bytes| sink.write(bytes))
        });
        let taken = read.saturating_sub(over);
        if taken == 0 && sink.failed() {
            return Err(StackError::Fault);
        }
        if taken == 0 {
            return self.nothing_to_read(index);
        }
        self.mem.core.tcp.taken_came = came;
        if !flags.peek {
            s.urgent_passed();
            let opened = s.taken(frames, now, taken as u32, most_buffer);
            if opened && s.state.may_receive() {
                self.send_ack(index, now);
                self.set_timer(index);
            }
            let row = self.row(index);
            row.rx_queue.set(self.mem.tcp[index].recv.bytes);
        }
        Ok(taken)
    }

    /// The arrival time of the segment whose data ended the last successful [`Stack::tcp_recv`] of
    /// any connection.
    #[must_use]
    pub fn tcp_taken_came(&self) -> Instant {
        self.mem.core.tcp.taken_came
    }

    fn nothing_to_read(&mut self, index: ConnectionIndex) -> Result<usize> {
        let s = &mut self.mem.tcp[index];
        // The peer's stream is complete, whatever happened to the connection afterwards: the error
        // is for writers (as on Linux).
        if s.closing.fin_received {
            return Ok(0);
        }
        if s.error != Pending::None {
            return Err(over(core::mem::take(&mut s.error)));
        }
        if s.closing.read_shut {
            return Ok(0);
        }
        match s.state {
            TcpState::Closed if s.abandoned => Err(StackError::NotConnected),
            TcpState::Closed => Ok(0),
            _ => Err(StackError::WouldBlock),
        }
    }

    /// Takes the pending error (`SO_ERROR`).
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_take_error(&mut self, id: TcpId) -> Result<Option<StackError>> {
        let index = self.check(id)?;
        Ok(core::mem::take(&mut self.mem.tcp[index].error).error())
    }

    /// Puts a taken error back for the next call, unless another one is pending. An error that no
    /// connection can have pending is dropped.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_keep_error(&mut self, id: TcpId, error: StackError) -> Result<()> {
        let index = self.check(id)?;
        let s = &mut self.mem.tcp[index];
        if s.error == Pending::None {
            s.error = Pending::of(error);
        }
        if s.error != Pending::None {
            self.notify(id.into(), Ready::ERR);
        }
        Ok(())
    }

    /// The state of a connection.
    ///
    /// # Errors
    /// [`StackError::Stale`].
    pub fn tcp_state(&self, id: TcpId) -> Result<TcpState> {
        let index = self.check(id)?;
        Ok(self.mem.tcp[index].state)
    }
}
