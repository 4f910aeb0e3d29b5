//! When a load ends.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The stop condition of a load: a flag and a time limit.
#[derive(Debug)]
pub(crate) struct Going {
    pub(crate) stop: AtomicBool,
    pub(crate) limit: Duration,
    pub(crate) until: Instant,
}

impl Going {
    pub(crate) fn new(limit: Duration) -> Self {
        Self { stop: AtomicBool::new(false), limit, until: Instant::now() + limit }
    }

    pub(crate) fn on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed) && Instant::now() < self.until
    }
}
