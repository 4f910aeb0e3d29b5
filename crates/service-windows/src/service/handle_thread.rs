//! Calls of Windows about handles that a program has passed. Windows may let them wait without end:
//! a call about a file, or a socket, that is used without overlapped calls waits for the one that
//! the program is in. So a thread of each connection makes them, and closes the handles.

use crate::users::UserShare;
use std::os::windows::io::{AsHandle, BorrowedHandle, OwnedHandle};
use std::sync::mpsc::{Sender, SyncSender, channel, sync_channel};
use std::time::Duration;
use tickwire_lane::control::Reason;
use tickwire_registry::ProvenSocket;

/// For so long the program's connection waits for Windows.
const TIMEOUT: Duration = Duration::from_millis(1500);

/// What Windows says about a handle.
pub(super) type Examine = fn(BorrowedHandle<'_>) -> Result<ProvenSocket, Reason>;

enum Job {
    Examine(OwnedHandle, SyncSender<Result<(OwnedHandle, ProvenSocket), Reason>>),
    Close(OwnedHandle),
}

/// A socket that was examined. It is closed by the thread that has examined it.
#[derive(Debug)]
pub(super) struct PulledSocket {
    handle: Option<OwnedHandle>,
    jobs: Sender<Job>,
    /// Counts for the user.
    pub(super) share: Option<UserShare>,
}

impl std::fmt::Debug for Job {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if matches!(self, Self::Examine(..)) { "Examine" } else { "Close" })
    }
}

impl Drop for PulledSocket {
    fn drop(&mut self) {
        if let Some(handle) = self.handle.take() {
            // The thread lives as long as this.
            let _ = self.jobs.send(Job::Close(handle));
        }
    }
}

/// The thread. It ends when this and all of its sockets are dropped.
pub(super) struct HandleThread {
    jobs: Sender<Job>,
}

impl HandleThread {
    /// Starts it. `share` is what the user has of such threads.
    ///
    /// # Errors
    /// [`Reason::ServiceError`] if there is no room for a thread.
    pub(super) fn start(examine: Examine, share: UserShare) -> Result<Self, Reason> {
        let (jobs, received) = channel();
        let run = move || {
            let _counts = share;
            while let Ok(job) = received.recv() {
                match job {
                    Job::Examine(handle, answer) => {
                        let proven = examine(handle.as_handle());
                        // If nothing waits for it any more the handle is closed here.
                        let _ = answer.send(proven.map(|proven| (handle, proven)));
                    }
                    Job::Close(handle) => drop(handle),
                }
            }
        };
        let started = std::thread::Builder::new().name("handles".into()).spawn(run);
        started.map_err(|_| Reason::ServiceError)?;
        Ok(Self { jobs })
    }

    /// Asks Windows what a handle is.
    ///
    /// # Errors
    /// Why it proves nothing; [`Reason::HandleBusy`] if Windows does not say in time. Then this
    /// thread is to be left alone.
    pub(super) fn examine(&self, handle: OwnedHandle) -> Result<(PulledSocket, ProvenSocket), Reason> {
        let (answer, answered) = sync_channel(1);
        self.jobs.send(Job::Examine(handle, answer)).map_err(|_| Reason::ServiceError)?;
        let (handle, proven) = answered.recv_timeout(TIMEOUT).map_err(|_| Reason::HandleBusy)??;
        let socket = PulledSocket { handle: Some(handle), jobs: self.jobs.clone(), share: None };
        Ok((socket, proven))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::users::{Resource, UserId, Users};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
    use tickwire_lane_windows::event::WakeEvent;

    static IS_STUCK: AtomicBool = AtomicBool::new(true);

    /// As a call that Windows lets wait.
    fn waits(_: BorrowedHandle<'_>) -> Result<ProvenSocket, Reason> {
        while IS_STUCK.load(SeqCst) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Err(Reason::Type)
    }

    #[test]
    fn a_handle_that_keeps_windows_waiting_is_refused_and_counts_for_its_user_until_it_is_free() {
        let (users, user): (_, UserId) = (Users::default(), Arc::from([1]));
        let take = || users.take(&user, Resource::HandleThread);
        let thread = HandleThread::start(waits, take().unwrap()).unwrap();
        let handle = || WakeEvent::new().unwrap().as_handle().try_clone_to_owned().unwrap();
        assert_eq!(thread.examine(handle()).err(), Some(Reason::HandleBusy));
        drop(thread);
        let mut others: Vec<_> = std::iter::from_fn(|| take().ok()).collect();
        others.pop();
        let free = take().unwrap();
        assert_eq!(take().err(), Some(Reason::HandleBusy), "the thread that waits counts");
        IS_STUCK.store(false, SeqCst);
        while take().is_err() {
            std::thread::yield_now();
        }
        drop(free);
    }
}
