//! Errors of calls on a socket. The crate `tickwire-linux-abi` maps each to an errno.

use core::fmt;

/// Why a socket call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StackError {
    /// Nothing to read, or no room to write, at this moment (`EAGAIN`).
    WouldBlock,
    /// The handle refers to no live socket (`EBADF`).
    Stale,
    /// A pool is full (`ENOBUFS`).
    NoBuffers,
    /// The datagram is longer than can be sent (`EMSGSIZE`).
    MessageTooLong,
    /// The socket has no peer (`ENOTCONN`), or no destination was given (`EDESTADDRREQ`).
    NotConnected,
    /// The socket already has a peer (`EISCONN`).
    AlreadyConnected,
    /// A connect is in progress (`EALREADY`, `EINPROGRESS`).
    InProgress,
    /// The peer refused: RST to our SYN, or ICMP port unreachable (`ECONNREFUSED`).
    Refused,
    /// The peer reset the connection (`ECONNRESET`).
    Reset,
    /// The connection was aborted before it was accepted (`ECONNABORTED`).
    Aborted,
    /// No answer within the user timeout or after all retransmissions (`ETIMEDOUT`).
    TimedOut,
    /// ICMP or the neighbour table reports the host as unreachable (`EHOSTUNREACH`).
    HostUnreachable,
    /// ICMP reports the network as unreachable (`ENETUNREACH`).
    NetworkUnreachable,
    /// ICMP reports the protocol as unknown to the peer (`ENOPROTOOPT`).
    ProtocolUnreachable,
    /// ICMP reports that there is no such host (`EHOSTDOWN`).
    HostDown,
    /// ICMP reports that our host is isolated (`ENONET`).
    Isolated,
    /// ICMP reports that a source route failed (`EOPNOTSUPP`).
    SourceRoute,
    /// ICMP reports our packet as malformed (`EPROTO`).
    Malformed,
    /// ICMPv6 reports a prohibition: by an administrator, a policy or a reject route (`EACCES`).
    Prohibited,
    /// The lane is gone: the service stopped, or its interface went away (`ENETDOWN`).
    NetworkDown,
    /// The sending side is shut (`EPIPE`).
    Pipe,
    /// Another socket of this lane uses that address and port (`EADDRINUSE`).
    AddressInUse,
    /// The call does not fit the socket's state or kind (`EINVAL`).
    Invalid,
    /// The program's buffer is not accessible (`EFAULT`).
    Fault,
    /// The host reported, a moment ago, that there is no path to the destination (`EHOSTUNREACH`).
    NoPath,
    /// The path to the destination is not known yet: ask the host, enter it with
    /// [`crate::Stack::path_set`] and call again.
    NeedPath,
}

impl StackError {
    /// Those that come from the network or the peer, and not from the call itself. One may be
    /// pending on a socket until the program's next call returns it, and is stored there by its
    /// position in this list: the order is part of the layout of a lane's memory.
    pub const OF_NETWORK: [Self; 14] = [
        Self::Refused,
        Self::Reset,
        Self::Aborted,
        Self::TimedOut,
        Self::HostUnreachable,
        Self::NetworkUnreachable,
        Self::ProtocolUnreachable,
        Self::HostDown,
        Self::Isolated,
        Self::SourceRoute,
        Self::Malformed,
        Self::Prohibited,
        Self::NetworkDown,
        Self::MessageTooLong,
    ];
}

impl fmt::Display for StackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::WouldBlock => "would block",
            Self::Fault => "bad address",
            Self::Stale => "no such socket",
            Self::NoBuffers => "no buffer space left in the lane",
            Self::MessageTooLong => "message too long",
            Self::NotConnected => "not connected",
            Self::AlreadyConnected => "already connected",
            Self::InProgress => "connect in progress",
            Self::Refused => "connection refused",
            Self::Reset => "connection reset by peer",
            Self::Aborted => "connection aborted",
            Self::TimedOut => "timed out",
            Self::HostUnreachable => "host unreachable",
            Self::NetworkUnreachable => "network unreachable",
            Self::ProtocolUnreachable => "protocol unreachable",
            Self::HostDown => "no such host",
            Self::Isolated => "host isolated",
            Self::SourceRoute => "source route failed",
            Self::Malformed => "packet called malformed",
            Self::Prohibited => "prohibited on the way",
            Self::NetworkDown => "the lane is gone",
            Self::Pipe => "sending side is shut",
            Self::AddressInUse => "address in use",
            Self::Invalid => "invalid for this socket",
            Self::NoPath => "no path",
            Self::NeedPath => "path not known yet",
        })
    }
}

impl core::error::Error for StackError {}

/// The result of a socket call.
pub type Result<T> = core::result::Result<T, StackError>;
