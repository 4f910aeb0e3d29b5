//! One connection: its two ends, and the data it transferred.

use crate::{Rng, SimulatedPair};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::tcp::{RecvFlags, Shutdown, TcpSetting};
use tickwire_stack::time::Span;
use tickwire_stack::{StackError, TcpId};

/// The state of one end.
#[derive(Debug, Default)]
struct End {
    host: usize,
    id: Option<TcpId>,
    written: u64,
    read: u64,
    /// It has shut its sending side.
    shut: bool,
    /// It has read to the end.
    ended: bool,
    /// It received an error.
    failed: bool,
    /// It has been closed or aborted.
    gone: bool,
}

/// A connection between the two hosts: the client end, then the server end.
#[derive(Debug)]
pub(super) struct Connection {
    client: Endpoint,
    salt: u64,
    ends: [End; 2],
}

/// The byte at an offset of a stream.
fn byte(salt: u64, at: u64) -> u8 {
    ((at ^ salt).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8
}

impl Connection {
    /// Opens one. `None` if the stack has no room for it, or no path.
    pub(super) fn open(pair: &mut SimulatedPair, from: usize, family: usize, port: u16, to: u16) -> Option<Self> {
        let client = Endpoint::new(pair.host(from).addresses[family], port);
        let server = Endpoint::new(pair.host(1 - from).addresses[family], to);
        let now = pair.now();
        let mut stack = pair.stack(from);
        let options = stack.tcp_defaults();
        let id = stack.tcp_connect(&options, client, server, now).ok()?;
        let ends = [End { host: from, id: Some(id), ..End::default() }, End { host: 1 - from, ..End::default() }];
        Some(Self { client, salt: now.as_nanos(), ends })
    }

    /// Whether `host` opened it from `client`, and it is not accepted yet.
    pub(super) fn is_from(&self, host: usize, client: Endpoint) -> bool {
        self.ends[0].host == host && self.client == client && self.ends[1].id.is_none()
    }

    pub(super) fn accepted(&mut self, id: TcpId) {
        self.ends[1].id = Some(id);
    }

    /// Both ends are closed, or the client end is and the server end was never accepted.
    pub(super) fn is_over(&self) -> bool {
        self.ends[0].gone && (self.ends[1].gone || self.ends[1].id.is_none())
    }

    /// Whether all written data has arrived, or the connection is broken and need not deliver it.
    pub(super) fn has_arrived(&self) -> bool {
        let broken = self.ends.iter().any(|end| end.gone || end.failed || end.id.is_none());
        let arrived = |from: usize| {
            let (from, to) = (&self.ends[from], &self.ends[1 - from]);
            from.written == to.read && from.shut == to.ended
        };
        broken || arrived(0) && arrived(1)
    }

    /// Performs one random action at one end. Returns the number of bytes read.
    pub(super) fn act(&mut self, pair: &mut SimulatedPair, rng: &mut Rng, end: usize) -> u64 {
        if self.ends[end].id.is_none() || self.ends[end].gone {
            return 0;
        }
        if self.ends[end].failed {
            self.leave(pair, end, false);
            return 0;
        }
        match rng.below(1000) {
            0..450 => self.write(pair, rng, end),
            450..930 => return self.read(pair, end, rng.below(60_000) as usize + 1),
            930..960 => self.set(pair, rng, end),
            960..970 => self.shut(pair, end),
            970..990 if self.ends[1 - end].read > 20_000 => self.leave(pair, end, false),
            990..994 => self.leave(pair, end, true),
            _ => {}
        }
        0
    }

    fn write(&mut self, pair: &mut SimulatedPair, rng: &mut Rng, end: usize) {
        let (salt, side) = (self.salt ^ end as u64, &mut self.ends[end]);
        let Some(id) = side.id else { return };
        let len = if rng.chance(500_000) { rng.below(200) } else { rng.below(60_000) };
        let data: Vec<u8> = (0..len).map(|n| byte(salt, side.written + n)).collect();
        let (now, more) = (pair.now(), rng.chance(100_000));
        match pair.stack(side.host).tcp_send(id, now, more, &mut &data[..]) {
            Ok(n) => {
                assert!(n as u64 <= len, "{n} of {len} bytes were taken");
                assert!(n == 0 || !side.shut, "what is shut takes no data");
                side.written += n as u64;
            }
            Err(error) => side.fail(error),
        }
    }

    fn read(&mut self, pair: &mut SimulatedPair, end: usize, most: usize) -> u64 {
        let (salt, side) = (self.salt ^ (1 - end) as u64, &mut self.ends[end]);
        let Some(id) = side.id else { return 0 };
        let (mut bytes, now) = (vec![0; most], pair.now());
        match pair.stack(side.host).tcp_recv(id, now, RecvFlags::default(), &mut &mut bytes[..]) {
            Ok(0) => side.ended = true,
            Ok(n) => {
                assert!(!side.ended, "bytes after the end");
                let good = bytes[..n].iter().zip(side.read..).all(|(&b, at)| b == byte(salt, at));
                assert!(good, "what is read is not what was written, at {} of {:?}", side.read, self.client);
                side.read += n as u64;
                let (read, written) = (self.ends[end].read, self.ends[1 - end].written);
                assert!(read <= written, "{read} bytes were read of {written}");
                return n as u64;
            }
            Err(error) => side.fail(error),
        }
        0
    }

    fn set(&mut self, pair: &mut SimulatedPair, rng: &mut Rng, end: usize) {
        let side = &self.ends[end];
        let Some(id) = side.id else { return };
        let on = rng.chance(500_000);
        let setting = match rng.below(8) {
            0 => TcpSetting::NoDelay(on),
            1 => TcpSetting::Cork(on),
            2 => TcpSetting::QuickAck(on),
            3 => TcpSetting::KeepAlive(on),
            4 => TcpSetting::KeepIdle(Span::from_millis(1 + rng.below(3_000))),
            5 => TcpSetting::SendBuffer(rng.below(300_000) as u32),
            6 => TcpSetting::ReceiveBuffer(rng.below(300_000) as u32),
            _ => TcpSetting::NotSentLowat(rng.below(20_000) as u32),
        };
        let now = pair.now();
        pair.stack(side.host).tcp_set(id, now, setting).expect("a good setting of a good handle");
    }

    fn shut(&mut self, pair: &mut SimulatedPair, end: usize) {
        let side = &mut self.ends[end];
        let Some(id) = side.id else { return };
        let now = pair.now();
        match pair.stack(side.host).tcp_shutdown(id, now, Shutdown::Write) {
            Ok(()) => side.shut = true,
            Err(StackError::NotConnected) => {} // not open yet, or over
            Err(error) => side.fail(error),
        }
    }

    fn leave(&mut self, pair: &mut SimulatedPair, end: usize, abort: bool) {
        let side = &mut self.ends[end];
        let Some(id) = side.id else { return };
        let now = pair.now();
        let mut stack = pair.stack(side.host);
        let left = if abort { stack.tcp_abort(id, now) } else { stack.tcp_close(id, now) };
        left.expect("a good handle");
        side.gone = true;
    }

    /// Both ends read all available data.
    pub(super) fn drain(&mut self, pair: &mut SimulatedPair) -> u64 {
        let mut bytes = 0;
        for end in 0..2 {
            while !self.ends[end].gone && !self.ends[end].failed && !self.ends[end].ended {
                match self.read(pair, end, 1 << 16) {
                    0 => break,
                    n => bytes += n,
                }
            }
            // A cork would rightly hold back the last partial segment for ever.
            if let (Some(id), false) = (self.ends[end].id, self.ends[end].gone) {
                let (host, now) = (self.ends[end].host, pair.now());
                pair.stack(host).tcp_set(id, now, TcpSetting::Cork(false)).expect("a good handle");
            }
        }
        bytes
    }

    pub(super) fn close(&mut self, pair: &mut SimulatedPair) {
        for end in 0..2 {
            if !self.ends[end].gone {
                self.leave(pair, end, false);
            }
        }
    }
}

impl End {
    fn fail(&mut self, error: StackError) {
        match error {
            StackError::WouldBlock => {}
            StackError::Pipe if self.shut => {}
            StackError::Stale | StackError::Invalid => panic!("{error} of a good handle"),
            StackError::NotConnected if !self.failed => panic!("not connected, without an earlier error"),
            _ => self.failed = true,
        }
    }
}
