//! A socket's record of network events, and what is told of them.

use super::record::{MOST, Record};
use super::target::Target;
use crate::real::{self, Handle};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a program has asked to be told of a socket. The lock is taken after the one of the socket's
/// state, and before the lane's.
#[derive(Debug, Default)]
pub(crate) struct Notices(Mutex<Asked>);

#[derive(Debug, Default)]
struct Asked {
    target: Option<Target>,
    record: Record,
}

/// The events that `WSAEnumNetworkEvents` returns, and their errors.
pub(crate) type Enumerated = (u32, [i32; MOST]);

impl Notices {
    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The program asks for these events, or takes that back (`None`).
    pub(crate) fn ask(&self, target: Option<Target>, wanted: u32) {
        let mut asked = self.lock();
        asked.record.ask(if target.is_some() { wanted } else { 0 });
        asked.target = target;
    }

    /// Whether the program asks for events.
    pub(crate) fn are_asked_for(&self) -> bool {
        self.lock().target.is_some()
    }

    /// An accepted socket begins with what the program asks for at its listener.
    pub(crate) fn inherit(&self, listener: &Self) {
        let (target, wanted) = listener.asked();
        self.ask(target, wanted);
    }

    fn asked(&self) -> (Option<Target>, u32) {
        let asked = self.lock();
        (asked.target.clone(), asked.record.wanted())
    }

    /// A call enables events.
    pub(crate) fn enable(&self, events: u32) {
        self.lock().record.enable(events);
    }

    /// The socket connects.
    pub(crate) fn connects(&self) {
        self.lock().record.connects();
    }

    /// Records what is the case, and tells of it. `present` is asked with the lock held, so that
    /// it is not older than what a call has enabled; `error` for the error of each event.
    pub(crate) fn look(&self, handle: Handle, present: impl FnOnce() -> u32, error: impl FnMut(u32) -> i32) {
        let mut asked = self.lock();
        let Asked { target: Some(target), record } = &mut *asked else { return };
        let target = target.clone();
        let new = record.see(present(), error);
        if new != 0 && target.tell(handle, new, record.errors()) {
            record.take();
        }
    }

    /// What is recorded, which is forgotten. `reset` is called first: an event object that is set
    /// afterwards tells of something newer.
    pub(crate) fn take(&self, reset: impl FnOnce()) -> Enumerated {
        let mut asked = self.lock();
        reset();
        asked.record.take()
    }

    /// Asks the kernel for what the program has asked for: it has the socket of this handle.
    pub(crate) fn hand_to_kernel(&self, handle: Handle) {
        if let (Some(target), wanted) = self.asked() {
            real::ask_for_events(handle, target.raw(), wanted);
        }
    }

    /// As [`Self::hand_to_kernel`], for a socket that the kernel has accepted by this library's
    /// half of a listener: it has inherited what this library asks for there.
    pub(crate) fn hand_to_accepted(&self, handle: Handle) {
        match self.asked() {
            (Some(target), wanted) => real::ask_for_events(handle, target.raw(), wanted),
            (None, _) => real::ask_for_no_events(handle),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notice::record::{CLOSE, READ};
    use std::os::windows::io::{AsHandle, AsRawHandle};
    use std::time::Duration;
    use tickwire_lane_windows::event::{WakeEvent, wait_for};

    #[test]
    fn the_programs_event_is_set_also_after_it_has_closed_its_handle() {
        let own = WakeEvent::new().unwrap();
        let programs = own.as_handle().try_clone_to_owned().unwrap();
        let is_set = || wait_for(&[own.as_handle()], Some(Duration::ZERO)).unwrap().is_some();
        let notices = Notices::default();
        notices.ask(Some(Target::event(programs.as_raw_handle()).unwrap()), READ | CLOSE);
        drop(programs);
        notices.look(1, || 0, |_| 0);
        assert!(!is_set());
        notices.look(1, || READ | CLOSE, |event| if event == CLOSE { 10054 } else { 0 });
        assert!(is_set());
        notices.look(1, || READ | CLOSE, |_| 0);
        assert!(!is_set());
        let (events, errors) = notices.take(|| ());
        assert_eq!((events, errors[0], errors[5]), (READ | CLOSE, 0, 10054));
        notices.enable(READ);
        notices.look(1, || READ, |_| 0);
        assert!(is_set());
        notices.ask(None, READ);
        notices.look(1, || READ, |_| 0);
        assert!(!is_set() && !notices.are_asked_for());
    }

    #[test]
    fn an_accepted_socket_begins_with_what_its_listener_asks_for() {
        let own = WakeEvent::new().unwrap();
        let (listener, accepted) = (Notices::default(), Notices::default());
        accepted.inherit(&listener);
        assert!(!accepted.are_asked_for());
        listener.ask(Some(Target::event(own.as_handle().as_raw_handle()).unwrap()), READ);
        accepted.inherit(&listener);
        accepted.look(2, || READ, |_| 0);
        assert_eq!(wait_for(&[own.as_handle()], Some(Duration::ZERO)).unwrap(), Some(0));
        assert_eq!((listener.take(|| ()).0, accepted.take(|| ()).0), (0, READ));
    }

    #[test]
    fn what_is_no_event_and_no_window_is_refused() {
        assert!(Target::event(std::ptr::null_mut()).is_err());
        assert!(Target::event(std::ptr::without_provenance_mut(0xdead_0000)).is_err());
        assert!(Target::window(std::ptr::without_provenance_mut(0xdead_0000), 1024).is_err());
    }
}
