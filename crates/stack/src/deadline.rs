//! Deadlines: when the stack must be called again, and what it does then.

use crate::Stack;
use crate::time::Instant;

impl Stack<'_> {
    /// When [`Stack::on_time`] must be called at the latest; `None` if no timeout is pending.
    pub fn deadline(&mut self) -> Option<Instant> {
        let timers = self.timer_next().map(|(at, _)| at);
        let paths = Some(self.mem.core.paths_at).filter(|at| !at.is_never());
        [timers, paths, self.reassembly_deadline()].into_iter().flatten().min()
    }

    /// Processes all timeouts due at `now`.
    pub fn on_time(&mut self, now: Instant) {
        self.paths_on_time(now);
        self.reassembly_on_time(now);
        // Each timer at most once: one that is set to a past time is due at the next call, not
        // endlessly in this one.
        for _ in 0..self.mem.core.heap_len {
            let Some(tcp) = self.timer_due(now) else { break };
            self.tcp_timer(now, tcp);
        }
    }
}
