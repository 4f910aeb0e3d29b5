//! Timeouts of nodes: no stage waits for ever.

use std::time::Duration;

/// A timeout for each stage.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// Until a node's first message: `ssh` may prompt for a password meanwhile.
    pub appears: Duration,
    /// Until its sockets are open: connecting is bounded by the node itself.
    pub ready: Duration,
    /// Until a host's service answers.
    pub answers: Duration,
    /// From the order to the first message: the time for the order to reach all nodes.
    pub lead: Duration,
    /// Between two reports of a measuring node: it sends them twice a second.
    pub silent: Duration,
    /// From the end of a run to the nodes' results.
    pub tells: Duration,
    /// From the order to stop to the producers' final reports.
    pub stops: Duration,
    /// From the end of a node's input to its exit.
    pub ends: Duration,
}

impl Timeouts {
    /// From the end of a node's input to the exit of its starter.
    pub(super) const STARTER_ENDS: Duration = Duration::from_secs(30);

    /// The timeouts of real runs.
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
