//! The host under test as packetdrill's threads see it. One of them is the driver: it injects
//! packets, reads packets and advances time. Others wait in blocking calls. Virtual time must not
//! advance while a call that can return has not done so, or the call would seem to return late. So
//! the driver waits, after each step, until every waiting thread has checked its condition.

use crate::errno::{AGAIN, Errno, Result};
use crate::setup::Setup;
use crate::table::Table;
use crate::wire::{Sent, Wire};
use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;
use tickwire_stack::time::{Instant, Span};

/// How long, in real time, a waiting thread assumes that another one drives: packetdrill itself may
/// be waiting, or running a script's shell commands. Then it advances virtual time by itself.
const TIMEOUT: Duration = Duration::from_millis(250);
/// The same after a wait in which no thread drove.
const POLL_INTERVAL: Duration = Duration::from_millis(1);
/// After how many waits without any pending event it gives up.
const VAIN: u32 = 2000;
/// Virtual duration of a clock reading, so that a busy-wait on the clock ends.
const LOOK: Span = Span::from_micros(1);

/// A thread in a blocking call.
#[derive(Debug)]
struct Waiter {
    thread: ThreadId,
    until: Option<Instant>,
    /// The last step after which it has checked its condition.
    seen: u64,
}

/// State shared by the threads.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) wire: Wire,
    pub(crate) table: Table,
    waiters: Vec<Waiter>,
    step: u64,
    /// When a blocking call ended: the first action of its thread is to read the clock.
    ended: HashMap<ThreadId, Instant>,
}

/// The host under test.
#[derive(Debug)]
pub(crate) struct Machine {
    state: Mutex<State>,
    moved: Condvar,
    looked: Condvar,
}

/// How long a call may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TimeLimit {
    /// Non-blocking.
    None,
    /// With a timeout.
    For(Span),
    /// Without a timeout.
    Endless,
}

impl Machine {
    pub(crate) fn new(setup: Setup) -> Self {
        let state = State {
            wire: Wire::new(setup),
            table: Table::default(),
            waiters: Vec::new(),
            step: 0,
            ended: HashMap::new(),
        };
        Self { state: Mutex::new(state), moved: Condvar::new(), looked: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a step: lets every waiting thread check its condition.
    fn stepped<'a>(&self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        state.wire.settle();
        state.step += 1;
        let step = state.step;
        let this = thread::current().id();
        if !state.waiters.is_empty() {
            self.moved.notify_all();
        }
        while state.waiters.iter().any(|w| w.seen < step && w.thread != this) {
            state = self.looked.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    /// A non-blocking call.
    pub(crate) fn call<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.lock();
        let answer = call(&mut state);
        drop(self.stepped(state));
        answer
    }

    /// A call that blocks while `attempt` returns [`AGAIN`], at most for `time_limit`.
    pub(crate) fn wait<T>(&self, time_limit: TimeLimit, mut attempt: impl FnMut(&mut State) -> Result<T>) -> Result<T> {
        let mut state = self.lock();
        let first = attempt(&mut state);
        state = self.stepped(state);
        if !matches!(first, Err(AGAIN)) || time_limit == TimeLimit::None {
            return first;
        }
        let until = match time_limit {
            TimeLimit::For(span) => Some(state.wire.now() + span),
            _ => None,
        };
        let thread = thread::current().id();
        let seen = state.step;
        state.waiters.push(Waiter { thread, until, seen });
        let (mut time, mut vain) = (TIMEOUT, 0);
        let answer = loop {
            let step = state.step;
            let (woken, out) = self.moved.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
            state = woken;
            if state.step != step {
                time = TIMEOUT;
            } else if out.timed_out() {
                time = POLL_INTERVAL;
                match state.next_event() {
                    Some(at) => state.wire.time_is(at),
                    None => vain += 1,
                }
                state = self.stepped(state);
            }
            let answer = attempt(&mut state);
            state.wire.settle();
            let late = until.is_some_and(|until| until <= state.wire.now());
            if !matches!(answer, Err(AGAIN)) || late {
                break answer;
            }
            if vain == VAIN {
                break Err(Errno(libc::EDEADLK));
            }
            let step = state.step;
            state.waiters.iter_mut().filter(|w| w.thread == thread).for_each(|w| w.seen = step);
            self.looked.notify_all();
        };
        state.waiters.retain(|w| w.thread != thread);
        let now = state.wire.now();
        state.ended.insert(thread, now);
        self.looked.notify_all();
        answer
    }

    /// How many threads wait.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.lock().waiters.len()
    }

    /// Advances time to `then`.
    fn pass<'a>(&self, mut state: MutexGuard<'a, State>, then: Instant) -> MutexGuard<'a, State> {
        while let Some(at) = state.next_event().filter(|&at| at <= then) {
            state.wire.time_is(at);
            state = self.stepped(state);
        }
        state.wire.time_is(then);
        state
    }

    /// `usleep`.
    pub(crate) fn sleep(&self, span: Span) {
        let state = self.lock();
        let then = state.wire.now() + span;
        drop(self.pass(state, then));
    }

    /// `gettimeofday`.
    pub(crate) fn time(&self) -> Instant {
        let mut state = self.lock();
        if let Some(ended) = state.ended.remove(&thread::current().id()) {
            return ended;
        }
        let then = state.wire.now() + LOOK;
        state = self.pass(state, then);
        state.wire.now()
    }

    /// The next packet that the stack sends, if any.
    pub(crate) fn next_sent(&self) -> Option<Sent> {
        let mut state = self.lock();
        loop {
            if let Some(sent) = state.wire.take_sent() {
                return Some(sent);
            }
            let at = state.next_event()?;
            state.wire.time_is(at);
            state = self.stepped(state);
        }
    }
}

impl State {
    /// Time of the next event: a timer of the stack, or the timeout of a waiting thread.
    fn next_event(&mut self) -> Option<Instant> {
        let waited = self.waiters.iter().filter_map(|w| w.until).min();
        self.wire.deadline().into_iter().chain(waited).min()
    }
}
