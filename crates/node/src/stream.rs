//! A stream of messages from a producer to the consumer.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The smallest message: sequence number and send time (`message`). The smallest of 2015 has
/// just this size.
pub const LEAST_SIZE: u32 = 10;
/// The largest message, in bytes.
pub const GREATEST_SIZE: u32 = 16 << 20;
/// The largest UDP message over IPv4: 65,535 less the headers of IP (20) and UDP (8).
pub const GREATEST_DATAGRAM: u32 = 65_507;
/// The most streams of a pattern: each has a socket at the consumer.
pub const MOST_STREAMS: usize = 1000;

/// The transport of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// TCP with default options.
    Tcp,
    /// TCP with `TCP_NODELAY`: a message does not wait for the acknowledgement of an earlier one.
    LowLatencyTcp,
    /// UDP to the consumer's address.
    Udp,
    /// UDP to a group that the consumer has joined.
    UdpMulticast,
}

impl Transport {
    /// All transports.
    pub const ALL: [Self; 4] = [Self::Tcp, Self::LowLatencyTcp, Self::Udp, Self::UdpMulticast];

    /// Its name in patterns and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::LowLatencyTcp => "low-latency-tcp",
            Self::Udp => "udp",
            Self::UdpMulticast => "udp-multicast",
        }
    }

    /// Whether it is a reliable byte stream.
    #[must_use]
    pub const fn is_tcp(self) -> bool {
        matches!(self, Self::Tcp | Self::LowLatencyTcp)
    }
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One stream: every `period` a message of `size` bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stream {
    /// Its number in reports. In the table of 2015: the producer's number followed by the message's
    /// type (0 to 3).
    pub id: u32,
    /// The number of the producer that sends it, from 1.
    pub producer: u16,
    /// Its transport.
    pub transport: Transport,
    /// Message size in bytes, [`LEAST_SIZE`] to [`GREATEST_SIZE`] (UDP: [`GREATEST_DATAGRAM`]).
    pub size: u32,
    /// Period of messages.
    pub period: Duration,
    /// A message that reaches the consumer's program later than this after it was sent is a miss.
    pub deadline: Duration,
    /// Offset of the due time in each period, if the pattern sets it: less than the period.
    pub phase: Option<Duration>,
}
