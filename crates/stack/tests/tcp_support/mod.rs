//! Shared by the TCP scenarios: two connected hosts, and data transfer between them.
#![allow(dead_code, reason = "each scenario uses its part")]

pub(crate) mod peer;
pub(crate) mod raw;

use tickwire_sim::{LinkConfig, PairConfig, SimulatedPair};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::tcp::{RecvFlags, TcpOptions, TcpState};
use tickwire_stack::time::Span;
use tickwire_stack::{InUse, ListenerId, StackError, TcpId};

/// The port that host 1 listens on.
pub(crate) const PORT: u16 = 80;

/// An endpoint of a host, in one family (0: IPv4, 1: IPv6).
pub(crate) fn end(pair: &SimulatedPair, host: usize, family: usize, port: u16) -> Endpoint {
    Endpoint::new(pair.host(host).addresses[family], port)
}

pub(crate) fn options(pair: &mut SimulatedPair, host: usize) -> TcpOptions {
    pair.stack(host).tcp_defaults()
}

pub(crate) fn listen(pair: &mut SimulatedPair, host: usize, backlog: u32) -> ListenerId {
    let options = options(pair, host);
    pair.stack(host).tcp_listen(&options, Endpoint::new(Address::ANY, PORT), backlog).unwrap()
}

pub(crate) fn connect(pair: &mut SimulatedPair, family: usize, port: u16) -> TcpId {
    let (local, remote) = (end(pair, 0, family, port), end(pair, 1, family, PORT));
    let (options, now) = (options(pair, 0), pair.now());
    pair.stack(0).tcp_connect(&options, local, remote, now).unwrap()
}

/// A connection from host 0 to host 1, accepted. The listener stays open.
pub(crate) fn connected(pair: &mut SimulatedPair, family: usize) -> (TcpId, TcpId, ListenerId) {
    let listener = listen(pair, 1, 8);
    let client = connect(pair, family, 4000);
    let mut server = None;
    let open = pair.run_until(Span::from_secs(60), |pair| {
        server = server.or_else(|| pair.stack(1).tcp_accept(listener).ok());
        server.is_some() && pair.stack(0).tcp_state(client) == Ok(TcpState::Established)
    });
    assert!(open, "the connection opens");
    (client, server.unwrap(), listener)
}

pub(crate) fn pair_with(seed: u64, link: LinkConfig) -> SimulatedPair {
    SimulatedPair::new(&PairConfig::default().with_seed(seed).with_link(link))
}

pub(crate) fn send(pair: &mut SimulatedPair, host: usize, id: TcpId, bytes: &[u8]) -> Result<usize, StackError> {
    let now = pair.now();
    pair.stack(host).tcp_send(id, now, false, &mut &bytes[..])
}

pub(crate) fn recv(pair: &mut SimulatedPair, host: usize, id: TcpId, most: usize) -> Result<Vec<u8>, StackError> {
    let mut buffer = vec![0; most];
    let now = pair.now();
    let n = pair.stack(host).tcp_recv(id, now, RecvFlags::default(), &mut &mut buffer[..])?;
    buffer.truncate(n);
    Ok(buffer)
}

/// Reads the stream to its end, for at most `limit`. Returns the data, and whether the stream
/// ended.
pub(crate) fn read_to_end(pair: &mut SimulatedPair, host: usize, id: TcpId, limit: Span) -> (Vec<u8>, bool) {
    let mut got = Vec::new();
    let ended = pair.run_until(limit, |pair| match recv(pair, host, id, 1 << 20) {
        Ok(bytes) if bytes.is_empty() => true,
        Ok(bytes) => {
            got.extend(bytes);
            false
        }
        Err(error) => {
            assert_eq!(error, StackError::WouldBlock);
            false
        }
    });
    (got, ended)
}

pub(crate) fn close(pair: &mut SimulatedPair, host: usize, id: TcpId) {
    let now = pair.now();
    pair.stack(host).tcp_close(id, now).unwrap();
}

pub(crate) fn state(pair: &mut SimulatedPair, host: usize, id: TcpId) -> TcpState {
    pair.stack(host).tcp_state(id).unwrap()
}

/// Bytes in which a shift, a swap and a repetition are detectable.
pub(crate) fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0] ^ salt).collect()
}

/// One direction of a transfer: the data, how much of it was sent, and the received bytes.
pub(crate) struct Flow {
    pub(crate) from: (usize, TcpId),
    pub(crate) to: (usize, TcpId),
    pub(crate) data: Vec<u8>,
    pub(crate) sent: usize,
    pub(crate) got: Vec<u8>,
    /// The largest write.
    pub(crate) chunk: usize,
}

impl Flow {
    pub(crate) fn new(from: (usize, TcpId), to: (usize, TcpId), len: usize) -> Self {
        Self { from, to, data: pattern(len, from.0 as u8), sent: 0, got: Vec::new(), chunk: 64 << 10 }
    }

    pub(crate) fn done(&self) -> bool {
        self.got.len() == self.data.len()
    }

    /// Writes and reads as much as possible now.
    pub(crate) fn pump(&mut self, pair: &mut SimulatedPair) {
        while self.sent < self.data.len() {
            let end = self.data.len().min(self.sent + self.chunk);
            match send(pair, self.from.0, self.from.1, &self.data[self.sent..end]) {
                Ok(n) => self.sent += n,
                Err(StackError::WouldBlock) => break,
                Err(other) => panic!("send: {other}"),
            }
        }
        loop {
            match recv(pair, self.to.0, self.to.1, 64 << 10) {
                Ok(bytes) if bytes.is_empty() => panic!("the stream ended after {} bytes", self.got.len()),
                Ok(bytes) => self.got.extend_from_slice(&bytes),
                Err(StackError::WouldBlock) => break,
                Err(other) => panic!("recv: {other}"),
            }
        }
    }
}

/// Runs transfers to completion and compares the data. Returns the time they took.
pub(crate) fn transfer(pair: &mut SimulatedPair, flows: &mut [Flow], limit: Span) -> Span {
    let start = pair.now();
    let done = pair.run_until(limit, |pair| {
        flows.iter_mut().for_each(|f| f.pump(pair));
        flows.iter().all(Flow::done)
    });
    for flow in flows {
        let (got, want) = (flow.got.len(), flow.data.len());
        assert!(done, "{got} of {want} bytes after {} ms", pair.now().since(start).as_millis());
        assert!(flow.got == flow.data, "what arrives is what was sent");
    }
    pair.now().since(start)
}

/// Closes both ends and waits for TIME-WAIT to end; then no slot and no frame may be in use.
pub(crate) fn close_and_check(pair: &mut SimulatedPair, client: TcpId, server: TcpId, listener: ListenerId) {
    close(pair, 0, client);
    pair.run_for(Span::from_millis(100));
    close(pair, 1, server);
    let now = pair.now();
    pair.stack(1).tcp_close_listener(listener, now).unwrap();
    pair.run_for(Span::from_secs(400));
    for host in 0..2 {
        assert_eq!(pair.frames_held(host), 0, "frames of host {host}");
        assert_eq!(pair.stack(host).in_use(), InUse::default());
        assert!(pair.stack(host).deadline().is_none(), "no timer is left at host {host}");
    }
}
