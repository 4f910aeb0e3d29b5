//! What the helper thread is woken for besides packets: at a time, or at once. It delivers that as
//! an event.

use super::Lane;
use std::io;
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tickwire_lane_windows::event::WakeEvent;

/// The event that wakes the helper thread, and the time at which it wakes by itself.
#[derive(Debug)]
pub(super) struct Alarm {
    event: WakeEvent,
    at: Mutex<Option<Instant>>,
}

impl Alarm {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { event: WakeEvent::new()?, at: Mutex::default() })
    }

    pub(super) fn event(&self) -> BorrowedHandle<'_> {
        self.event.as_handle()
    }

    /// How long until its time; `None`: it has none.
    pub(super) fn left(&self) -> Option<Duration> {
        let at = *self.at.lock().unwrap_or_else(PoisonError::into_inner);
        at.map(|at| at.saturating_duration_since(Instant::now()))
    }

    /// Sets the time. Returns whether it is earlier than before.
    fn set(&self, at: Option<Instant>) -> bool {
        let before = std::mem::replace(&mut *self.at.lock().unwrap_or_else(PoisonError::into_inner), at);
        at.is_some_and(|at| before.is_none_or(|before| at < before))
    }
}

impl Lane {
    /// Has the helper thread deliver [`Happened::Alarm`](super::Happened::Alarm) soon.
    pub(crate) fn ring(&self) {
        self.alarm.event.set();
    }

    /// Has it do so at a time, or at none, in place of the one that was set before.
    pub(crate) fn ring_at(&self, at: Option<Instant>) {
        if self.alarm.set(at) {
            self.ring();
        }
    }

    /// What rings when it is set.
    pub(crate) fn alarm_event(&self) -> BorrowedHandle<'_> {
        self.alarm.event()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_time_wakes_the_thread() {
        let alarm = Alarm::new().unwrap();
        let now = Instant::now();
        let later = now + Duration::from_secs(1000);
        assert_eq!(alarm.left(), None);
        assert!(alarm.set(Some(later)));
        assert!(alarm.left() > Some(Duration::from_secs(1)));
        assert!(!alarm.set(Some(later + Duration::from_secs(1))));
        assert!(alarm.set(Some(now)));
        assert_eq!(alarm.left(), Some(Duration::ZERO));
        assert!(!alarm.set(None));
        assert_eq!(alarm.left(), None);
    }
}
