//! The command line: the cable's faults.

use crate::way::Way;
use tickwire_sim::{Burst, LinkConfig};
use tickwire_stack::time::{Instant, Span};

/// Connects two network devices by a cable with faults, until SIGTERM; then prints its counters as
/// one line of JSON.
///
/// Numbers "per million" are of packets. The same seed and the same packets at the same times give
/// the same faults.
#[derive(Clone, Debug, clap::Parser)]
#[command(name = "relay")]
pub(crate) struct Options {
    /// The device at one end; from here is "forth"
    pub(crate) a: String,

    /// The device at the other end
    pub(crate) b: String,

    /// Seed of all random numbers
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,

    /// One-way delay, in us
    #[arg(long, default_value_t = 50)]
    delay: u64,

    /// The MTU of both devices; what is larger is dropped and counted
    #[arg(long, default_value_t = 1500)]
    mtu: usize,

    /// Lost, per million
    #[arg(long, default_value_t = 0, value_parser = million())]
    loss: u32,

    /// A burst of losses begins, per million
    #[arg(long, default_value_t = 0, value_parser = million())]
    burst: u32,

    /// A burst of losses ends, per million of the packets in it, all of which are lost
    #[arg(long, default_value_t = 250_000, value_parser = million())]
    burst_end: u32,

    /// A burst of losses ends after this time at the latest, in us
    #[arg(long, default_value_t = 1000)]
    burst_longest: u64,

    /// Held back so that others overtake them, per million
    #[arg(long, default_value_t = 0, value_parser = million())]
    reorder: u32,

    /// How long such a packet is held back at most, in us
    #[arg(long, default_value_t = 200)]
    reorder_by: u64,

    /// Duplicated, per million
    #[arg(long, default_value_t = 0, value_parser = million())]
    duplicate: u32,

    /// Marked for congestion (CE), per million of ECN-capable packets (RFC 3168)
    #[arg(long, default_value_t = 0, value_parser = million())]
    mark: u32,

    /// A TCP connection carries messages of this many bytes forth: lose the last segment of each,
    /// when it is sent for the first time
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    tail: Option<u32>,

    /// A TCP connection carries messages of this many bytes forth: black out after the middle of
    /// each has passed
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..))]
    blackout: Option<u32>,

    /// Direction of the blackout
    #[arg(long, value_enum, default_value_t = Way::Forth, requires = "blackout")]
    dark: Way,

    /// Length of the blackout, in ms
    #[arg(long, default_value_t = 1000, requires = "blackout")]
    dark_for: u64,

    /// Time limit, in seconds
    #[arg(long, default_value_t = 600)]
    pub(crate) limit: u64,
}

/// A blackout after the middle of each message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blackout {
    /// Bytes of a message.
    pub(crate) size: u32,
    pub(crate) way: Way,
    pub(crate) lasts: Span,
}

impl Options {
    /// The one-way delay.
    pub(crate) fn delay(&self) -> Span {
        Span::from_micros(self.delay)
    }

    /// The faults of this direction.
    pub(crate) fn link(&self, way: Way) -> LinkConfig {
        LinkConfig {
            delay: self.delay(),
            jitter: Span::ZERO,
            loss: self.loss,
            burst: Burst {
                begin: self.burst,
                end: self.burst_end,
                loss: 1_000_000,
                longest: Span::from_micros(self.burst_longest),
            },
            tail_of: self.tail.filter(|_| way == Way::Forth).unwrap_or(0),
            dark_until: Instant::NEVER,
            duplicate: self.duplicate,
            reorder: self.reorder,
            reorder_by: Span::from_micros(self.reorder_by),
            corrupt: 0,
            mark: self.mark,
            rate: 0,
            queue: 0,
            mtu: self.mtu,
        }
    }

    pub(crate) fn blackout(&self) -> Option<Blackout> {
        let of = |size| Blackout { size, way: self.dark, lasts: Span::from_millis(self.dark_for) };
        self.blackout.map(of)
    }
}

fn million() -> clap::builder::RangedI64ValueParser<u32> {
    clap::value_parser!(u32).range(0..=1_000_000)
}
