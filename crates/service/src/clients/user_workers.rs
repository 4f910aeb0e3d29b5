//! Work on descriptors that programs passed, away from the service's loop.
//!
//! A program keeps a hold on what it passes. A system call on its socket blocks for as long as
//! another call of the program holds the socket's lock. Closing the socket blocks for as long as
//! the program's `SO_LINGER` says. Neither may block the service. Each user has a few threads for
//! this, so that such a program delays only its own user.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the loop waits for an answer. Such calls take microseconds, but on a busy host a thread
/// may have to wait for a CPU.
const TIMEOUT: Duration = Duration::from_millis(500);

/// For so long after a late answer nothing of that user's is waited for.
const PENALTY: Duration = Duration::from_secs(30);

/// Threads of one user.
const MAX_THREADS: usize = 4;

/// With so many jobs waiting nothing more is received from the user: each packet may bring a few
/// more descriptors.
const MAX_WAITING: usize = 256;

/// An idle thread ends after so long.
const IDLE: Duration = Duration::from_secs(5);

type Job = Box<dyn FnOnce() + Send>;

struct State {
    jobs: VecDeque<Job>,
    threads: usize,
    idle: usize,
    distrusted: Option<Instant>,
    /// Makes a thread.
    make: fn(Arc<Queue>) -> io::Result<()>,
    /// The last attempt to make one failed.
    scarce: bool,
}

impl Default for State {
    fn default() -> Self {
        Self { jobs: VecDeque::new(), threads: 0, idle: 0, distrusted: None, make: make_thread, scarce: false }
    }
}

fn make_thread(queue: Arc<Queue>) -> io::Result<()> {
    let named = std::thread::Builder::new().name("foreign".into()).stack_size(256 << 10);
    named.spawn(move || queue.run()).map(drop)
}

/// The work for one user.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    work: Condvar,
}

/// The queues of one service, by user. One that is not needed any more is removed: a user with a
/// range of subordinate user ids could connect by each of them.
#[derive(Default)]
pub(crate) struct UserWorkers(HashMap<u32, Arc<Queue>>);

impl UserWorkers {
    /// The queue of a user.
    pub(crate) fn of(&mut self, user: u32) -> Arc<Queue> {
        Arc::clone(self.0.entry(user).or_default())
    }

    /// Tries again to make the threads that could not be made, and removes the queues that nothing
    /// refers to. Called every second.
    pub(crate) fn staff(&mut self) {
        self.0.values().for_each(Queue::staff_anew);
        // Its threads, connections and descriptors refer to it.
        self.0.retain(|_, queue| Arc::strong_count(queue) > 1 || !queue.is_forgettable());
    }
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue").field("jobs", &self.state().jobs.len()).finish_non_exhaustive()
    }
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One for which no thread can be made.
    #[cfg(test)]
    pub(crate) fn without_threads() -> Arc<Self> {
        let queue = Self::default();
        queue.state().make = |_| Err(io::ErrorKind::OutOfMemory.into());
        Arc::new(queue)
    }

    /// Queues a job. Without a thread it waits for one; if it is not `lasting`, it is dropped then.
    /// Returns whether there is a thread.
    fn add(self: &Arc<Self>, job: Job, lasting: bool) -> bool {
        let mut state = self.state();
        state.jobs.push_back(job);
        self.staff(&mut state);
        let staffed = state.threads > 0;
        let dropped = if staffed || lasting { None } else { state.jobs.pop_back() };
        drop(state);
        drop(dropped);
        self.work.notify_one();
        staffed
    }

    /// Makes another thread if one is needed.
    fn staff(self: &Arc<Self>, state: &mut State) {
        if state.jobs.len() <= state.idle || state.threads >= MAX_THREADS {
            return;
        }
        match (state.make)(Arc::clone(self)) {
            Ok(()) => (state.threads, state.scarce) = (state.threads + 1, false),
            Err(error) => {
                if !std::mem::replace(&mut state.scarce, true) {
                    let jobs = state.jobs.len();
                    tracing::error!(
                        %error, jobs,
                        "no thread for work on a program's sockets, which waits: raise the service's limit of tasks (TasksMax)"
                    );
                }
            }
        }
    }

    /// Tries again to make a thread that could not be made.
    pub(crate) fn staff_anew(self: &Arc<Self>) {
        self.staff(&mut self.state());
    }

    fn run(&self) {
        loop {
            let mut state = self.state();
            let Some(job) = state.jobs.pop_front() else {
                state.idle += 1;
                let (mut state, waited) = self.work.wait_timeout(state, IDLE).unwrap_or_else(PoisonError::into_inner);
                state.idle -= 1;
                if waited.timed_out() && state.jobs.is_empty() {
                    state.threads -= 1;
                    return;
                }
                continue;
            };
            drop(state);
            job();
        }
    }

    /// Whether the user's jobs are waited for.
    pub(crate) fn is_trusted(&self) -> bool {
        self.state().distrusted.is_none_or(|since| since.elapsed() > PENALTY)
    }

    /// Runs the job and waits for its answer, unless that takes too long or no thread can run it.
    fn wait<T: Send + 'static>(self: &Arc<Self>, job: impl FnOnce() -> T + Send + 'static, lasting: bool) -> Option<T> {
        let (tell, told) = sync_channel(1);
        let job = move || {
            let _ = tell.send(job());
        };
        if !self.add(Box::new(job), lasting) {
            return None;
        }
        let answer = told.recv_timeout(TIMEOUT).ok();
        if answer.is_none() {
            tracing::warn!("a program's socket keeps the service waiting: nothing of that user's is waited for now");
            self.state().distrusted = Some(Instant::now());
        }
        answer
    }

    /// Queries the user's descriptors; `None` if there is no answer in time, or was none lately.
    pub(crate) fn ask<T: Send + 'static>(self: &Arc<Self>, job: impl FnOnce() -> T + Send + 'static) -> Option<T> {
        if self.is_trusted() { self.wait(job, false) } else { None }
    }

    /// Runs a job that must not be dropped, and waits for it if that does not take long.
    pub(crate) fn finish(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        if self.is_trusted() {
            let _ = self.wait(job, true);
        } else {
            self.add(Box::new(job), true);
        }
    }

    /// Runs a job without waiting for it.
    pub(crate) fn later(self: &Arc<Self>, job: impl FnOnce() + Send + 'static) {
        self.add(Box::new(job), true);
    }

    /// Whether so many jobs wait that nothing more should be received.
    pub(crate) fn is_full(&self) -> bool {
        self.state().jobs.len() >= MAX_WAITING
    }

    /// Whether nothing of the queue's state matters any more.
    fn is_forgettable(&self) -> bool {
        self.is_trusted() && self.state().jobs.is_empty()
    }

    /// Whether all threads of the user are busy and more jobs wait.
    pub(crate) fn is_stuck(&self) -> bool {
        let state = self.state();
        state.threads >= MAX_THREADS && state.idle == 0 && !state.jobs.is_empty()
    }
}

/// A descriptor that a program passed. Dropping it closes it in a thread of the user's.
#[derive(Debug)]
pub(crate) struct Foreign {
    descriptor: Option<OwnedFd>,
    queue: Arc<Queue>,
}

impl Foreign {
    pub(crate) fn new(descriptor: OwnedFd, queue: Arc<Queue>) -> Self {
        Self { descriptor: Some(descriptor), queue }
    }

    /// The queue for work on it.
    pub(crate) fn queue(&self) -> Arc<Queue> {
        Arc::clone(&self.queue)
    }

    /// The descriptor, while there is one: until it is closed.
    pub(crate) fn get(&self) -> Option<BorrowedFd<'_>> {
        self.descriptor.as_ref().map(AsFd::as_fd)
    }

    /// Closes it in the calling thread: for the threads of this module.
    pub(crate) fn close(mut self) {
        drop(self.descriptor.take());
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(descriptor) = self.descriptor.take() {
            self.queue.later(move || drop(descriptor));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_that_keeps_the_service_waiting_does_so_once_and_others_are_served() {
        let mut offload = UserWorkers::default();
        let (slow, other) = (offload.of(1), offload.of(2));
        let (release, held) = sync_channel::<()>(0);
        let begin = Instant::now();
        assert_eq!(slow.ask(move || held.recv().is_ok()), None);
        assert!(begin.elapsed() >= TIMEOUT);
        let begin = Instant::now();
        assert_eq!(slow.ask(|| 1), None, "not again");
        slow.finish(|| ());
        assert!(begin.elapsed() < TIMEOUT);
        assert_eq!(other.ask(|| 2), Some(2));
        release.send(()).unwrap();
    }

    #[test]
    fn a_user_has_so_many_threads_and_no_more() {
        let queue: Arc<Queue> = Arc::default();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        for _ in 0..MAX_THREADS + 3 {
            let held = Arc::clone(&held);
            queue.later(move || {
                let _ = held.lock().unwrap().recv();
            });
        }
        assert_eq!(queue.state().threads, MAX_THREADS);
        let end = Instant::now() + Duration::from_secs(5);
        while !queue.is_stuck() {
            assert!(Instant::now() < end, "all threads wait");
        }
        drop(release);
        assert_eq!(queue.ask(|| 1), Some(1));
    }

    #[test]
    fn without_a_thread_what_must_be_done_waits_for_one_and_questions_have_no_answer() {
        let queue = Queue::without_threads();
        let mut offload = UserWorkers(HashMap::from([(1, Arc::clone(&queue))]));
        let (tell, told) = sync_channel(2);
        let (first, second) = (tell.clone(), tell);
        let begin = Instant::now();
        queue.finish(move || first.send(1).unwrap());
        assert_eq!(queue.ask(|| 2), None);
        queue.later(move || second.send(3).unwrap());
        assert!(begin.elapsed() < TIMEOUT && queue.is_trusted(), "it is not the user's doing");
        offload.staff();
        assert_eq!((queue.state().jobs.len(), told.try_recv().ok()), (2, None));
        queue.state().make = make_thread;
        offload.staff();
        assert_eq!([told.recv_timeout(TIMEOUT), told.recv_timeout(TIMEOUT)], [Ok(1), Ok(3)]);
        assert_eq!(queue.ask(|| 4), Some(4));
    }

    #[test]
    fn a_user_that_is_gone_leaves_no_queue_unless_it_is_distrusted_or_something_waits() {
        let mut offload = UserWorkers::default();
        let kept = offload.of(1);
        offload.of(2);
        offload.of(3).state().distrusted = Some(Instant::now());
        let unstaffed = Queue::without_threads();
        unstaffed.later(|| ());
        offload.0.insert(4, unstaffed);
        offload.staff();
        let mut users: Vec<u32> = offload.0.keys().copied().collect();
        users.sort_unstable();
        assert_eq!(users, [1, 3, 4]);
        drop(kept);
        offload.staff();
        assert!(!offload.0.contains_key(&1));
    }

    #[test]
    fn so_much_may_wait_and_then_nothing_more_should_come() {
        let queue: Arc<Queue> = Arc::default();
        let (release, held) = std::sync::mpsc::channel::<()>();
        let held = Arc::new(Mutex::new(held));
        let hold = || {
            let held = Arc::clone(&held);
            queue.later(move || {
                let _ = held.lock().unwrap().recv();
            });
        };
        let until = |what, holds: &dyn Fn() -> bool| {
            let end = Instant::now() + Duration::from_secs(5);
            while !holds() {
                assert!(Instant::now() < end, "{what}");
            }
        };
        for _ in 0..MAX_THREADS {
            hold();
            until("each thread takes one", &|| queue.state().jobs.is_empty());
        }
        for _ in 0..MAX_WAITING {
            assert!(!queue.is_full());
            hold();
        }
        assert!(queue.is_full());
        drop(release);
        until("it goes on", &|| !queue.is_full());
    }

    #[test]
    fn what_must_be_done_is_done_when_the_answer_comes() {
        let queue: Arc<Queue> = Arc::default();
        let (mine, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let foreign = Foreign::new(theirs.into(), Arc::clone(&queue));
        queue.finish(move || foreign.close());
        let mut end = [0; 1];
        assert_eq!(std::io::Read::read(&mut &mine, &mut end).unwrap(), 0, "closed");
    }
}
