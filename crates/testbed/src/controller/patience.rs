//! How long nodes are waited for: at no stage for ever.

use std::time::Duration;

/// How long for what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Until a node says that it is there: `ssh` may ask its user for a password meanwhile.
    pub appears: Duration,
    /// Until its sockets are open: connecting is bounded by the node itself.
    pub ready: Duration,
    /// Until a host's service has answered.
    pub answers: Duration,
    /// From the order to the first message: so long it may take until all nodes have the order.
    pub lead: Duration,
    /// Until a node that measures has said something again: it does so twice a second.
    pub silent: Duration,
    /// How long after the end of a run nodes may take to say what became of it.
    pub tells: Duration,
    /// Until producers that are told to stop say what they have sent.
    pub stops: Duration,
    /// Until a node ends by itself when nobody talks with it any more.
    pub ends: Duration,
}

impl Patience {
    /// What a person has.
    pub(super) const USUAL: Self = Self {
        appears: Duration::from_secs(60),
        ready: Duration::from_secs(30),
        answers: Duration::from_secs(30),
        lead: Duration::from_millis(1500),
        silent: Duration::from_secs(60),
        tells: Duration::from_secs(60),
        stops: Duration::from_secs(5),
        ends: Duration::from_secs(3),
    };
}
