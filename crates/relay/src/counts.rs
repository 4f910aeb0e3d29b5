//! The relay's counters, reported when it ends.

use crate::cable::Cable;
use crate::port::Port;
use crate::way::Way;
use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use serde_json::json;
use tickwire_stack::time::Instant;

/// How late frames left.
#[derive(Debug, Default)]
pub(crate) struct Clockwork {
    frames: u64,
    sum_ns: u64,
    worst_ns: u64,
}

impl Clockwork {
    /// Records that a frame due at `due` left at `left`.
    pub(crate) fn note(&mut self, due: Instant, left: Instant) {
        let late = left.since(due).as_nanos();
        self.frames += 1;
        self.sum_ns = self.sum_ns.saturating_add(late);
        self.worst_ns = self.worst_ns.max(late);
    }

    fn mean_ns(&self) -> u64 {
        self.sum_ns / self.frames.max(1)
    }
}

/// All counters as one line of JSON.
pub(crate) fn tell(cable: &Cable, ports: &[Port; 2], clockwork: &Clockwork) -> Result<String> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).context("getrusage")?;
    let way = |way: Way| {
        let stats = cable.stats(way);
        json!({
            "sent": stats.sent,
            "delivered": stats.delivered,
            "lost": stats.lost,
            "tails": stats.tails,
            "dark": stats.dark,
            "too_big": stats.too_big,
            "marked": stats.marked,
            "duplicated": stats.duplicated,
            "reordered": stats.reordered,
            "overflowed": ports[way.from()].overflowed(),
            "refused": ports[way.to()].refused(),
        })
    };
    let told = json!({
        "forth": way(Way::Forth),
        "back": way(Way::Back),
        "late_mean_ns": clockwork.mean_ns(),
        "late_max_ns": clockwork.worst_ns,
        "processor_us": usage.user_time().num_microseconds() + usage.system_time().num_microseconds(),
    });
    Ok(told.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_leaves_early_is_not_late() {
        let mut clockwork = Clockwork::default();
        assert_eq!(clockwork.mean_ns(), 0);
        clockwork.note(Instant::from_nanos(100), Instant::from_nanos(90));
        clockwork.note(Instant::from_nanos(100), Instant::from_nanos(140));
        assert_eq!((clockwork.mean_ns(), clockwork.worst_ns), (20, 40));
    }
}
