//! The receiver of one stream at the consumer.

use crate::error::NodeError;
use crate::message::{self, Follower, Header};
use crate::os::{self, AsSocket, Readiness};
use crate::protocol::StreamDestination;
use crate::sockets::{self, Socket};
use crate::tally::Tally;
use crate::time::{TimeError, Timepiece};
use std::io::{self, ErrorKind};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};

/// One stream's socket.
#[derive(Debug)]
pub(crate) struct StreamReceiver {
    stream: u32,
    size: usize,
    /// What is reported when it is ready.
    token: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Datagrams from any sender; their content shows whether they are messages of the stream.
    Datagrams(UdpSocket),
    /// No connected peer has sent a message.
    Waiting(TcpListener),
    /// A peer is connected. Later connections wait in the listener's backlog, in case this one is
    /// not the producer's.
    Connected(TcpListener, Connection),
    /// The producer has sent all, or the socket has failed.
    Ended,
}

#[derive(Debug)]
struct Connection {
    stream: TcpStream,
    follower: Follower,
    /// Whether a message of the stream has arrived: the connection is the producer's.
    known: bool,
}

/// The result of a call.
enum Came {
    /// Nothing, or messages, which are counted in the tally.
    Messages,
    Connection(TcpStream),
    End,
    Failure(io::Error),
}

/// The clock that times arrivals.
#[derive(Debug)]
pub(crate) struct Arrival {
    /// The shared clock.
    pub time: Timepiece,
    /// When the run begins.
    pub at_ns: i64,
}

impl Arrival {
    fn now(&self) -> Result<i64, TimeError> {
        self.time.now_ns().map(|now| now.wrapping_sub(self.at_ns))
    }
}

/// The data of one receive call; the time is by the shared clock.
type Taken = os::Taken<Result<i64, TimeError>>;

/// One receive call. The messages are parsed after it.
fn take(socket: &impl AsSocket, buffer: &mut [u8], arrival: &Arrival) -> io::Result<Taken> {
    os::receive(socket, buffer, || arrival.now())
}

/// Counts a message of a call. It also counts if the clock did not know the time.
fn enter(tally: &mut Tally, header: Option<Header>, taken: &Taken) -> bool {
    let Some(header) = header else {
        tally.corrupt();
        return false;
    };
    let latency = taken.now.as_ref().map(|&now| header.latency_ns(now));
    if let Err(error) = latency {
        tally.fault(|| error.to_string());
    }
    tally.message(header.sequence.into(), latency.ok(), taken.waited_ns)
}

impl StreamReceiver {
    /// Opens a stream's socket, which is waited for with `token`. `address` is the consumer's.
    pub(crate) fn open(
        channel: &StreamDestination,
        address: IpAddr,
        readiness: &mut Readiness,
        token: u64,
    ) -> Result<Self, NodeError> {
        let (state, watched) = match sockets::receiving(channel, address)? {
            Socket::Datagrams(socket) => {
                let watched = readiness.add(&socket, token);
                (State::Datagrams(socket), watched)
            }
            Socket::Listener(listener) => {
                let watched = readiness.add(&listener, token);
                (State::Waiting(listener), watched)
            }
            Socket::Stream(_) => (State::Ended, Ok(())),
        };
        watched.map_err(|source| NodeError::System { what: "watch a socket", source })?;
        Ok(Self { stream: channel.stream.id, size: channel.stream.size as usize, token, state })
    }

    /// Receives with one call, so that all streams get their turn. The socket is reported again if
    /// there is more.
    pub(crate) fn receive(
        &mut self,
        readiness: &mut Readiness,
        buffer: &mut [u8],
        arrival: &Arrival,
        tally: &mut Tally,
    ) -> io::Result<()> {
        match self.call(buffer, arrival, tally) {
            Came::Messages => Ok(()),
            Came::Connection(stream) => self.connect(stream, readiness),
            Came::End => self.end(None, readiness, tally),
            Came::Failure(error) => self.end(Some(error), readiness, tally),
        }
    }

    fn call(&mut self, buffer: &mut [u8], arrival: &Arrival, tally: &mut Tally) -> Came {
        match &mut self.state {
            State::Datagrams(socket) => came(take(socket, buffer, arrival), |taken| {
                enter(tally, message::read(&buffer[..taken.length], self.stream, self.size), &taken);
                Came::Messages
            }),
            State::Waiting(listener) => came(listener.accept(), |(stream, _)| Came::Connection(stream)),
            State::Connected(_, connection) => came(take(&connection.stream, buffer, arrival), |mut taken| {
                if taken.length == 0 {
                    return Came::End;
                }
                let Connection { follower, known, .. } = connection;
                let (last_waited_ns, mut last) = (taken.waited_ns.take(), None);
                follower.take(&buffer[..taken.length], |header| {
                    if let Some(before) = last.replace(header) {
                        *known |= enter(tally, before, &taken);
                    }
                });
                // The timestamp is of the call's last packet: it belongs to the message that ends
                // there.
                taken.waited_ns = last_waited_ns.filter(|_| !follower.is_within());
                if let Some(header) = last {
                    *known |= enter(tally, header, &taken);
                }
                Came::Messages
            }),
            State::Ended => Came::Messages,
        }
    }

    fn connect(&mut self, stream: TcpStream, readiness: &mut Readiness) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Waiting(listener) => {
                readiness.remove(&listener)?;
                readiness.add(&stream, self.token)?;
                let follower = Follower::new(self.stream, self.size);
                self.state = State::Connected(listener, Connection { stream, follower, known: false });
            }
            other => self.state = other,
        }
        Ok(())
    }

    /// The socket has ended. If it was a connection of another peer, the producer's may still
    /// arrive.
    fn end(&mut self, why: Option<io::Error>, readiness: &mut Readiness, tally: &mut Tally) -> io::Result<()> {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Connected(listener, connection) => {
                readiness.remove(&connection.stream)?;
                if !connection.known {
                    if connection.follower.is_within() {
                        tally.corrupt();
                    }
                    readiness.add(&listener, self.token)?;
                    self.state = State::Waiting(listener);
                } else if let Some(error) = why {
                    tally.fault(|| format!("the connection ended: {error}"));
                } else if connection.follower.is_within() {
                    tally.fault(|| "the connection ended inside a message".into());
                }
            }
            State::Datagrams(socket) => {
                readiness.remove(&socket)?;
                tally.fault(|| format!("cannot receive: {}", words(why)));
            }
            State::Waiting(listener) => {
                readiness.remove(&listener)?;
                tally.fault(|| format!("cannot accept a connection: {}", words(why)));
            }
            State::Ended => {}
        }
        Ok(())
    }

    /// Whether the producer has not connected yet.
    pub(crate) const fn is_waiting(&self) -> bool {
        matches!(self.state, State::Waiting(_))
    }
}

fn words(why: Option<io::Error>) -> String {
    why.map_or_else(|| "it ended".into(), |error| error.to_string())
}

/// The result of a call; that it would block is no error.
fn came<T>(result: io::Result<T>, then: impl FnOnce(T) -> Came) -> Came {
    match result {
        Ok(value) => then(value),
        // The peer may have closed its connection before it is accepted.
        Err(error)
            if matches!(
                error.kind(),
                ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
            ) =>
        {
            Came::Messages
        }
        Err(error) => Came::Failure(error),
    }
}
