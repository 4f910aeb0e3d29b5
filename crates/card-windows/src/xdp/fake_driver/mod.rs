//! A driver in this process, which stands in for XDP in tests: network cards with wires between
//! them, and faults at will. Frames move when a test says so, or when a ring is poked, and stay in
//! order.
//!
//! | module | purpose |
//! |---|---|
//! | `network` | what is shared: cards, wires, rings as the driver has them, faults |
//! | `fake_socket` | sockets, as a card has them |
//! | `rules` | which frames rules match |

mod fake_socket;
mod network;
mod rules;

pub use fake_socket::FakeSocket;
pub use network::FakeCall;

use super::driver::{DriverCode, RingKind, SocketRole, XdpDriver, XdpRule};
use super::port_sets::PortSets;
use super::xsk_ring::XskRing;
use crate::card::CardWaker;
use fake_socket::BAD_PARAMETER;
use network::{FakeNic, NetworkState, ProgramState, SocketState};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
struct Shared {
    state: Mutex<NetworkState>,
    changed: Condvar,
}

/// Network cards, as a test sees them.
#[derive(Clone, Default)]
pub struct FakeNetwork(Arc<Shared>);

/// What a hostile driver writes into a ring.
#[derive(Clone, Copy, Debug)]
pub enum RingCorruption {
    /// The producer's index.
    Producer(u32),
    /// The consumer's index.
    Consumer(u32),
    /// The flags.
    Flags(u32),
    /// An element, by its index.
    Element(u32, [u64; 2]),
}

impl FakeNetwork {
    fn state(&self) -> MutexGuard<'_, NetworkState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut NetworkState) -> T) -> T {
        let result = change(&mut self.state());
        self.0.changed.notify_all();
        result
    }

    /// Adds a network card with so many receive queues (at least one).
    pub fn add_nic(&self, interface: u32, queues: u32) {
        self.change(|state| state.nics.insert(interface, FakeNic { queues, ..FakeNic::default() }));
    }

    /// Connects two network cards by a wire.
    pub fn connect(&self, one: u32, other: u32) {
        self.change(|state| {
            for (from, to) in [(one, other), (other, one)] {
                if let Some(nic) = state.nics.get_mut(&from) {
                    nic.peer = Some(to);
                }
            }
        });
    }

    /// The driver.
    #[must_use]
    pub fn driver(&self) -> FakeDriver {
        FakeDriver(self.clone())
    }

    /// A frame arrives at a network card.
    pub fn arrive(&self, interface: u32, frame: &[u8]) {
        self.change(|state| state.arrive(interface, frame.to_vec()));
    }

    /// The driver looks at all rings to transmit.
    pub fn run(&self) {
        self.change(NetworkState::run);
    }

    /// Takes the frames that a network card without a wire has sent.
    #[must_use]
    pub fn take_sent(&self, interface: u32) -> Vec<Vec<u8>> {
        self.change(|state| state.nics.get_mut(&interface).map(|nic| std::mem::take(&mut nic.sent))).unwrap_or_default()
    }

    /// Takes the frames that a network card's kernel has received.
    #[must_use]
    pub fn take_kernels(&self, interface: u32) -> Vec<Vec<u8>> {
        self.change(|state| state.nics.get_mut(&interface).map(|nic| std::mem::take(&mut nic.kernel)))
            .unwrap_or_default()
    }

    /// Whether the driver looks at rings to transmit when it is poked only.
    pub fn set_poke(&self, needs_poke: bool) {
        self.change(|state| state.set_poke(needs_poke));
    }

    /// Whether the driver looks at no ring to transmit, even if it is poked.
    pub fn set_stalled(&self, is_stalled: bool) {
        self.change(|state| state.is_stalled = is_stalled);
    }

    /// So many frames that arrive from now on are lost.
    pub fn lose(&self, frames: u32) {
        self.change(|state| state.losses = frames);
    }

    /// A kind of call fails from now on, after so many that do not.
    pub fn refuse(&self, call: FakeCall, after: u32, code: DriverCode) {
        self.change(|state| state.refusals.insert(call, (after, code)));
    }

    /// All calls succeed again.
    pub fn accept_all(&self) {
        self.change(|state| state.refusals.clear());
    }

    /// How often a kind of call was made.
    #[must_use]
    pub fn calls(&self, call: FakeCall) -> u32 {
        self.state().calls.get(&call).copied().unwrap_or(0)
    }

    /// A network card is removed; `error` is what its rings say (`XSK_ERROR`).
    pub fn detach(&self, interface: u32, error: u32) {
        self.change(|state| state.detach(interface, error));
    }

    /// How many sockets, programs and memories of frames there are.
    #[must_use]
    pub fn held(&self) -> [usize; 3] {
        let state = self.state();
        let memories = state.memories.iter().filter(|memory| memory.strong_count() > 0).count();
        [state.sockets.len(), state.programs.len(), memories]
    }

    /// The rules of the programs of a network card's queue.
    #[must_use]
    pub fn rules(&self, interface: u32, queue: u32) -> Vec<Vec<XdpRule>> {
        let state = self.state();
        let programs = state.programs.values();
        let of_queue = programs.filter(|program| (program.interface, program.queue) == (interface, queue));
        of_queue.map(|program| program.rules.clone()).collect()
    }

    /// A hostile driver writes into a ring of the socket with this role, at a queue of a network
    /// card.
    pub fn corrupt(&self, bound: (u32, u32, SocketRole), ring: RingKind, corruption: RingCorruption) {
        self.change(|state| {
            let socket = state.sockets.values().find(|socket| socket.bound == Some(bound));
            let Some(memory) = socket.and_then(|socket| socket.rings.get(&ring)) else { return };
            match ring {
                RingKind::Fill | RingKind::Completion => write(&memory.view::<1>(), corruption),
                RingKind::Receive | RingKind::Transmit => write(&memory.view::<2>(), corruption),
            }
        });
    }

    /// Waits until a thread sleeps for the driver.
    pub fn wait_for_sleeper(&self) {
        let mut state = self.state();
        while state.waiters == 0 {
            state = self.0.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn write<const WORDS: usize>(ring: &XskRing<WORDS>, corruption: RingCorruption) {
    match corruption {
        RingCorruption::Producer(index) => ring.producer().store(index, Relaxed),
        RingCorruption::Consumer(index) => ring.consumer().store(index, Relaxed),
        RingCorruption::Flags(flags) => ring.flags().store(flags, Relaxed),
        RingCorruption::Element(index, words) => {
            for (place, word) in ring.element(index).into_iter().zip(words) {
                place.store(word, Relaxed);
            }
        }
    }
}

/// The driver, as a card has it.
#[derive(Clone)]
pub struct FakeDriver(FakeNetwork);

/// A program of the stand-in.
pub struct FakeProgram {
    network: FakeNetwork,
    number: u64,
}

impl Drop for FakeProgram {
    fn drop(&mut self) {
        self.network.change(|state| state.programs.remove(&self.number));
    }
}

impl XdpDriver for FakeDriver {
    type Socket = FakeSocket;
    type Program = FakeProgram;

    fn open_socket(&mut self) -> Result<FakeSocket, DriverCode> {
        let number = self.0.change(|state| {
            state.call(FakeCall::OpenSocket)?;
            let number = state.next_number();
            state.sockets.insert(number, SocketState::default());
            Ok(number)
        })?;
        Ok(FakeSocket { network: self.0.clone(), number })
    }

    fn open_program(
        &mut self,
        interface: u32,
        queue: u32,
        rules: &[XdpRule],
        ports: &Arc<PortSets>,
        target: &FakeSocket,
    ) -> Result<FakeProgram, DriverCode> {
        let program =
            ProgramState { interface, queue, rules: rules.to_vec(), ports: Arc::clone(ports), target: target.number };
        let number = self.0.change(|state| {
            state.call(FakeCall::OpenProgram)?;
            if state.nics.get(&interface).is_none_or(|nic| queue >= nic.queues) {
                return Err(BAD_PARAMETER);
            }
            let number = state.next_number();
            state.programs.insert(number, program);
            Ok(number)
        })?;
        Ok(FakeProgram { network: self.0.clone(), number })
    }

    fn wait(&mut self, sockets: &mut dyn Iterator<Item = &mut FakeSocket>, time: Duration) {
        let numbers: Vec<u64> = sockets.map(|socket| socket.number).collect();
        let end = Instant::now() + time;
        let mut state = self.0.state();
        loop {
            let has_news = numbers.iter().any(|number| state.sockets.get(number).is_some_and(SocketState::has_news));
            let left = end.saturating_duration_since(Instant::now());
            if std::mem::take(&mut state.is_woken) || has_news || left.is_zero() {
                return;
            }
            state.waiters += 1;
            self.0.0.changed.notify_all();
            state = self.0.0.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
            state.waiters -= 1;
        }
    }

    fn waker(&self) -> Arc<dyn CardWaker> {
        Arc::new(FakeWaker(self.0.clone()))
    }
}

struct FakeWaker(FakeNetwork);

impl CardWaker for FakeWaker {
    fn wake(&self) {
        self.0.change(|state| state.is_woken = true);
    }
}
