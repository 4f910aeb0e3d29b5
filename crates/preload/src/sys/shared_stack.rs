//! The stack in the shared region, and the lock that makes using it sound.

use crate::sys::errno::Errno;
use crate::sys::wire::Wire;
use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};
use tickwire_lane::layout::Waiting;
use tickwire_lane::lock::{LaneGuard, LockError};
use tickwire_lane::stream_turn::StreamTurnGuard;
use tickwire_lane_linux::port::Port;
use tickwire_lane_linux::pthread_mutex::PthreadMutex;
use tickwire_lane_linux::region::Region;
use tickwire_lane_linux::tx_batch::TxBatch;
#[cfg(any(test, fuzzing))]
use tickwire_stack::Limits;
use tickwire_stack::Stack;
use tickwire_stack::table::SocketRow;
use tickwire_stack::time::Instant;

/// What the lock protects.
pub(crate) struct LaneCore {
    /// The stack.
    pub(crate) stack: Stack<'static>,
    /// The source and sink of its packets.
    pub(crate) wire: Wire,
}

/// The stack behind its lock.
pub(crate) struct SharedStack {
    core: UnsafeCell<LaneCore>,
    lock: StackLock,
    /// Whether [`SharedStack::final_state`] has been read.
    is_read: AtomicBool,
    rows: &'static [SocketRow],
    port: Option<&'static Port>,
}

enum StackLock {
    Region(&'static Region),
    #[cfg(any(test, fuzzing))]
    Local(std::sync::Mutex<()>, Box<Waiting>),
}

// SAFETY: the core is reached through `lock` only, which admits one thread of all processes at a
// time.
unsafe impl Sync for SharedStack {}
// SAFETY: as above; nothing in it belongs to a thread.
unsafe impl Send for SharedStack {}

/// The core, for as long as the lock is held.
pub(crate) struct CoreGuard<'s> {
    core: &'s mut LaneCore,
    held: Held<'s>,
}

enum Held<'s> {
    Region {
        guard: LaneGuard<'static, PthreadMutex>,
    },
    #[cfg(any(test, fuzzing))]
    Local {
        _guard: std::sync::MutexGuard<'s, ()>,
    },
    #[expect(dead_code, reason = "names the lifetime outside tests")]
    Never(core::marker::PhantomData<&'s ()>),
}

/// The final state of the stack of a lane that has ended.
pub(crate) struct FinalState {
    /// The words of the stack's user.
    pub(crate) user: Vec<u64>,
    /// The code of the reason of each socket that stayed on the kernel, by its row.
    pub(crate) reasons: Vec<u32>,
}

/// Why the lock was not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// The lane was lost: a process died, or panicked, inside.
    Lost,
    /// This very thread is inside, or has shut the gate.
    Again,
    /// Another thread ends the program, or replaces it.
    Barred,
}

impl Refused {
    fn because(error: LockError) -> Self {
        match error {
            LockError::Recursive => Self::Again,
            LockError::Lost => Self::Lost,
        }
    }
}

impl SharedStack {
    /// The stack in a region of the service.
    pub(crate) fn in_region(region: Region, wire: Wire) -> Self {
        // Never unmapped: a thread may be inside at any time.
        let region: &'static Region = Box::leak(Box::new(region));
        // SAFETY: the memory is used under the region's lock only (`SharedStack::lock`), by this
        // one value, and the region is never dropped.
        let memory: tickwire_stack::Memory<'static> = unsafe { region.memory() };
        let rows = memory.rows;
        let port = wire.port();
        let core = LaneCore { stack: Stack::new(memory), wire };
        Self {
            core: UnsafeCell::new(core),
            lock: StackLock::Region(region),
            is_read: AtomicBool::new(false),
            rows,
            port,
        }
    }

    /// A stack that only this process uses.
    #[cfg(any(test, fuzzing))]
    pub(crate) fn local(limits: Limits, wire: Wire) -> Self {
        let memory = Box::leak(Box::new(tickwire_stack::OwnedMemory::new(&limits)));
        let memory = memory.memory();
        let rows = memory.rows;
        let core = LaneCore { stack: Stack::new(memory), wire };
        let lock = StackLock::Local(std::sync::Mutex::new(()), Box::default());
        Self { core: UnsafeCell::new(core), lock, is_read: AtomicBool::new(false), rows, port: None }
    }

    /// Takes the lock, if `admits` says that this thread may enter.
    ///
    /// # Errors
    /// [`Refused`].
    pub(crate) fn lock(&self, admits: impl FnOnce() -> Result<bool, Errno>) -> Result<CoreGuard<'_>, Refused> {
        let held = self.held()?;
        // Checked only now, because a thread shuts the gate while it holds the lock.
        match admits() {
            Ok(true) => {}
            Ok(false) => return Err(Refused::Barred),
            Err(_) => return Err(Refused::Again),
        }
        if let Held::Region { guard } = &held {
            guard.begin();
        }
        // SAFETY: the lock is held, for as long as the guard lives, and no other guard of this
        // thread exists (a second lock by one thread is an error of the lock).
        Ok(CoreGuard { core: unsafe { &mut *self.core.get() }, held })
    }

    fn held(&self) -> Result<Held<'_>, Refused> {
        match &self.lock {
            StackLock::Region(region) => {
                let guard = region.lock().lock().map_err(Refused::because)?;
                // Checked only now: a thread that panicked inside may have marked it while this one
                // waited for the lock.
                if region.waiting().lost.load(Ordering::Relaxed) != 0 {
                    return Err(Refused::Lost);
                }
                Ok(Held::Region { guard })
            }
            #[cfg(any(test, fuzzing))]
            StackLock::Local(mutex, _) => Ok(Held::Local { _guard: mutex.lock().map_err(|_| Refused::Lost)? }),
        }
    }

    /// Does `work` when no thread of this process is inside.
    pub(crate) fn while_none_is_inside(&self, work: impl FnOnce()) {
        let _held = self.held();
        work();
    }

    /// The stack's state as it is, or as a lost lane was left. `None` if this very thread is
    /// inside, and at all calls but the first.
    ///
    /// The gate may be shut, by an exec that may yet fail. Nothing is changed here, so that a
    /// thread killed here leaves everything consistent.
    pub(crate) fn final_state(&self) -> Option<FinalState> {
        let _held = match self.held() {
            Err(Refused::Again | Refused::Barred) => return None,
            held => held,
        };
        if self.is_read.swap(true, Ordering::Relaxed) {
            return None;
        }
        // SAFETY: the lock is held until the end of this function, by a thread that was not inside
        // before. Or the lane is lost: then no thread of any process gets a guard any more, and the
        // thread that panicked inside has died or left. No other thread of this process is here,
        // because this is reached once.
        let core = unsafe { &mut *self.core.get() };
        let reasons = core.stack.kernel_rows().iter().map(|row| row.reason.get()).collect();
        Some(FinalState { user: core.stack.user().to_vec(), reasons })
    }

    /// A call panicked inside: no thread in any process may use the stack any more.
    pub(crate) fn poison(&self) {
        self.waiting().lost.store(1, Ordering::Relaxed);
    }

    /// The words by which the lane's processes coordinate waiting.
    pub(crate) fn waiting(&self) -> &Waiting {
        match &self.lock {
            StackLock::Region(region) => region.waiting(),
            #[cfg(any(test, fuzzing))]
            StackLock::Local(_, waiting) => waiting,
        }
    }

    /// Records that the rings were polled on the program's behalf.
    pub(crate) fn note_poll(&self, now: Instant) {
        self.waiting().polled_at.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// When the rings were last polled on a program's behalf, in any process of the lane.
    pub(crate) fn polled_at(&self) -> Instant {
        Instant::from_nanos(self.waiting().polled_at.load(Ordering::Relaxed))
    }

    /// Takes the turn to send packets of streams, unless another thread of the lane has it.
    pub(crate) fn stream_turn(&self) -> Option<HeldStreamTurn> {
        match &self.lock {
            StackLock::Region(region) => region.stream_turn().try_take().map(HeldStreamTurn::Region),
            #[cfg(any(test, fuzzing))]
            StackLock::Local(..) => Some(HeldStreamTurn::Local),
        }
    }

    /// Public rows of all sockets.
    pub(crate) fn rows(&self) -> &'static [SocketRow] {
        self.rows
    }

    /// The rings, which may be read and kicked without the lock.
    pub(crate) fn port(&self) -> Option<&'static Port> {
        self.port
    }
}

impl CoreGuard<'_> {
    /// Makes a system call while the lock is held: a thread that dies during the call leaves
    /// everything consistent.
    fn paused(&self, call: impl FnOnce()) {
        if let Held::Region { guard } = &self.held {
            guard.pause();
        }
        call();
        if let Held::Region { guard } = &self.held {
            guard.begin();
        }
    }

    /// Takes packets that do not belong to streams out of the stack, to be sent once the lock is
    /// released. Those for which there is no room are sent now.
    pub(crate) fn take_prompt(&mut self) -> Option<TxBatch<'static>> {
        if self.core.stack.prompt_len() == 0 {
            return None;
        }
        let Some(port) = self.core.wire.port() else {
            #[cfg(any(test, fuzzing))]
            self.core.wire.poll(&mut self.core.stack, crate::sys::now());
            return None;
        };
        let mut batch = port.batch()?;
        while !port.take_prompt(&mut self.core.stack, &mut batch) {
            self.paused(|| port.send(&mut batch));
        }
        if !batch.is_reserved() {
            return Some(batch);
        }
        self.paused(|| port.send(&mut batch));
        None
    }

    /// Takes packets of streams out of the stack, to be sent once the lock is released, by the
    /// thread that has the turn. Returns the batch that holds them.
    pub(crate) fn take_streams(&mut self, batch: Option<TxBatch<'static>>) -> Option<TxBatch<'static>> {
        match &mut self.core.wire {
            Wire::Port(port) => {
                let mut batch = batch.or_else(|| port.batch().filter(|batch| !batch.is_reserved()))?;
                port.take_streams(&mut self.core.stack, &mut batch);
                Some(batch)
            }
            #[cfg(any(test, fuzzing))]
            Wire::Test(exchange) => {
                exchange(&mut self.core.stack, crate::sys::now());
                batch
            }
        }
    }
}

/// The turn to send packets of streams.
pub(crate) enum HeldStreamTurn {
    Region(#[expect(dead_code, reason = "it is given back when dropped")] StreamTurnGuard<'static, PthreadMutex>),
    #[cfg(any(test, fuzzing))]
    Local,
}

impl Deref for CoreGuard<'_> {
    type Target = LaneCore;
    fn deref(&self) -> &LaneCore {
        self.core
    }
}

impl DerefMut for CoreGuard<'_> {
    fn deref_mut(&mut self) -> &mut LaneCore {
        self.core
    }
}
