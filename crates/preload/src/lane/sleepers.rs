//! The threads of this process that sleep on the lane: which of them watches the rings, and who is woken for what.
//!
//! One watches the rings for all of them: if each slept in the kernel's wait for the rings, every packet would wake every thread. The others sleep on their own bells, and whoever
//! takes in what concerns them rings these. A thread that polls watches as well. Whoever waits no more while others sleep sees to it that one of them watches from then on.
//!
//! Another process of the lane has threads and a watcher of its own; its threads are woken by the doorbell, which all hear.

use crate::c::sys;
use core::ffi::c_int;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};
use tickwire_stack::time::Instant;
use tickwire_stack::{Calls, SleepsOn};

/// So many threads are told apart. More of them watch the rings themselves and hear the doorbell only.
const PLACES: usize = 256;
/// So many are woken one by one; for more the doorbell is rung.
const SINGLY: usize = 32;

/// A thread asleep.
#[derive(Debug, Default)]
struct Place {
    taken: AtomicU32,
    /// Its bell, -1 if it has none.
    bell: AtomicI32,
    /// Not 0 once it was to watch the rings, and did not.
    deposed: AtomicU32,
    on: [AtomicU32; SleepsOn::WORDS],
}

/// They change under the lane's lock, save for who polls.
#[derive(Debug, Default)]
pub(crate) struct Sleepers {
    /// On the heap: a lane is made on the stack of whatever thread needs the first, which may be small.
    places: Box<[Place]>,
    /// No place from here on was ever taken.
    used: AtomicU32,
    asleep: AtomicU32,
    /// Those of them that have no place.
    loose: AtomicU32,
    pollers: AtomicU32,
    /// The place of the one that watches the rings, or has been woken to do so, plus one; 0 for none.
    watcher: AtomicU32,
    /// Until when it sleeps at most, in nanoseconds.
    watches_until: AtomicU64,
}

/// A thread asleep, as it knows itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asleep {
    place: Option<u32>,
    /// Whether it has to watch the rings.
    pub(crate) watches: bool,
}

/// Who is to be woken, once the lock is released.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rouse {
    /// The bells of threads of this process.
    bells: [c_int; SINGLY],
    /// How many they are. `None`: everybody, in every process.
    len: Option<usize>,
}

/// The mark that a process leaves where its threads sleep, by its slot. The last is shared by several.
pub(crate) fn mark_of(slot: usize) -> u32 {
    1 << slot.min(31)
}

impl Sleepers {
    pub(crate) fn new() -> Self {
        Self { places: (0..PLACES).map(|_| Place::default()).collect(), ..Self::default() }
    }

    /// How many threads sleep.
    pub(crate) fn count(&self) -> u32 {
        self.asleep.load(SeqCst)
    }

    /// The calling thread is about to sleep. It has the lock.
    pub(super) fn add(&self, on: SleepsOn, bell: Option<c_int>) -> Asleep {
        self.asleep.fetch_add(1, SeqCst);
        let free = |place: &Place| place.taken.load(Relaxed) == 0;
        let Some((at, place)) = (0u32..).zip(&self.places).find(|(_, place)| free(place)) else {
            self.loose.fetch_add(1, SeqCst);
            return Asleep { place: None, watches: true };
        };
        place.taken.store(1, Relaxed);
        place.bell.store(bell.unwrap_or(-1), Relaxed);
        place.deposed.store(0, Relaxed);
        place.on.iter().zip(on.words()).for_each(|(place, word)| place.store(word, Relaxed));
        self.used.fetch_max(at + 1, Relaxed);
        // After it is counted: a thread that stops polling now sees it, or is not seen polling any more.
        let watches = self.watcher.load(SeqCst) == 0 && self.pollers.load(SeqCst) == 0;
        if watches {
            self.watcher.store(at + 1, SeqCst);
            self.watches_until.store(u64::MAX, Relaxed);
        }
        Asleep { place: Some(at), watches }
    }

    /// When this one is to look at the stack's timers, of which the next is due at `deadline`: not at all, if the one that watches does in time. Before it sleeps, without the lock.
    pub(super) fn timer_of(&self, asleep: Asleep, deadline: Option<Instant>) -> Option<Instant> {
        let at = deadline.map_or(u64::MAX, Instant::as_nanos);
        if !asleep.watches {
            return deadline.filter(|_| at < self.watches_until.load(Relaxed));
        }
        // A handler may have run meanwhile, and another have the watch.
        if asleep.place.is_some_and(|place| self.watcher.load(SeqCst) == place + 1) {
            self.watches_until.store(at, Relaxed);
        }
        deadline
    }

    /// One is awake again. The calling thread has the lock.
    pub(crate) fn remove(&self, asleep: Asleep) {
        one_less(&self.asleep);
        let Some((at, place)) = asleep.place.and_then(|at| Some((at, self.places.get(at as usize)?))) else {
            return one_less(&self.loose);
        };
        place.taken.store(0, Relaxed);
        let _ = self.watcher.compare_exchange(at + 1, 0, SeqCst, Relaxed);
    }

    /// A forked child has none of its parent's other threads.
    pub(super) fn forget(&self) {
        self.places.iter().for_each(|place| place.taken.store(0, Relaxed));
        for count in [&self.used, &self.asleep, &self.loose, &self.pollers, &self.watcher] {
            count.store(0, SeqCst);
        }
    }

    /// The calling thread watches the rings by polling them, until [`Sleepers::polls_no_more`].
    pub(crate) fn polls(&self) {
        self.pollers.fetch_add(1, SeqCst);
    }

    /// It does not any more.
    pub(crate) fn polls_no_more(&self) {
        one_less(&self.pollers);
    }

    /// Whether threads sleep for whom nobody watches the rings.
    pub(super) fn are_unwatched(&self) -> bool {
        self.pollers.load(SeqCst) == 0
            && self.watcher.load(SeqCst) == 0
            && self.asleep.load(SeqCst) > self.loose.load(SeqCst)
    }

    /// If nobody watches the rings, one of those asleep is to: it is to be woken. The calling thread has the lock.
    pub(super) fn appoint(&self) -> Option<Rouse> {
        if !self.are_unwatched() {
            return None;
        }
        let able = self.all().filter(|(_, place)| place.deposed.load(Relaxed) == 0);
        let (at, bell) = able.map(|(at, place)| (at, place.bell.load(Relaxed))).find(|&(_, bell)| bell >= 0)?;
        self.watcher.store(at + 1, SeqCst);
        self.watches_until.store(0, Relaxed);
        Some(Rouse::NOBODY.and(bell))
    }

    /// The watcher, and whoever polls, did not watch: they are gone, it seems, and are not to be appointed again. They may only be late: then what has been taken in meanwhile no longer
    /// wakes them, but their bells do. The calling thread has the lock.
    pub(super) fn depose(&self) {
        self.pollers.store(0, SeqCst);
        let gone = self.watcher.swap(0, SeqCst).checked_sub(1).and_then(|at| self.places.get(at as usize));
        gone.into_iter().for_each(|place| place.deposed.store(1, Relaxed));
    }

    /// Who is to be woken by what happened, for a process of this slot. The calling thread has the lock.
    pub(super) fn called(&self, calls: &Calls, slot: usize) -> Option<Rouse> {
        let marks = calls.marks();
        let alone = slot < 31 && marks == mark_of(slot);
        if !alone || self.loose.load(Relaxed) > 0 {
            return Some(Rouse::EVERYBODY);
        }
        let mut rouse = Rouse::NOBODY;
        for (_, place) in self.all() {
            let on = SleepsOn::of(place.on.each_ref().map(|word| word.load(Relaxed)));
            let bell = place.bell.load(Relaxed);
            if bell >= 0 && calls.concern(&on) {
                rouse = rouse.and(bell);
            }
        }
        (rouse.len != Some(0)).then_some(rouse)
    }

    fn all(&self) -> impl Iterator<Item = (u32, &Place)> {
        let used = self.used.load(Relaxed) as usize;
        (0u32..).zip(&self.places).take(used).filter(|(_, place)| place.taken.load(Relaxed) != 0)
    }
}

fn one_less(count: &AtomicU32) {
    let _ = count.fetch_update(SeqCst, Relaxed, |n| n.checked_sub(1));
}

impl Rouse {
    const NOBODY: Self = Self { bells: [-1; SINGLY], len: Some(0) };
    const EVERYBODY: Self = Self { len: None, ..Self::NOBODY };

    /// One more.
    fn and(mut self, bell: c_int) -> Self {
        let Some(len) = self.len else { return self };
        match self.bells.get_mut(len) {
            Some(place) => {
                *place = bell;
                self.len = Some(len + 1);
                self
            }
            None => Self::EVERYBODY,
        }
    }

    /// Wakes them.
    pub(super) fn now(&self, doorbell: c_int) {
        match self.len {
            Some(len) => self.bells[..len].iter().for_each(|&bell| sys::ring_one(bell, doorbell)),
            None => sys::ring(doorbell),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::memory::{Limits, OwnedMemory};
    use tickwire_stack::udp::UdpOptions;
    use tickwire_stack::{Config, Error};

    const BELLS: [c_int; 3] = [70, 71, 72];

    /// Three threads asleep.
    fn three() -> (Sleepers, [Asleep; 3]) {
        let sleepers = Sleepers::new();
        let asleep = BELLS.map(|bell| sleepers.add(SleepsOn::ANYTHING, Some(bell)));
        (sleepers, asleep)
    }

    /// Whose bells are to be rung; `None`: everybody's.
    fn bells(rouse: Option<Rouse>) -> Option<Vec<c_int>> {
        rouse.map_or(Some(Vec::new()), |rouse| Some(rouse.bells[..rouse.len?].to_vec()))
    }

    #[test]
    fn one_watches_for_all_and_another_when_it_waits_no_more() {
        let (sleepers, [first, second, third]) = three();
        assert_eq!([first, second, third].map(|asleep| asleep.watches), [true, false, false]);
        assert!(!sleepers.are_unwatched() && sleepers.appoint().is_none());
        sleepers.remove(second);
        assert!(!sleepers.are_unwatched(), "it did not watch");
        sleepers.remove(first);
        assert!(sleepers.are_unwatched());
        assert_eq!(bells(sleepers.appoint()), Some(vec![BELLS[2]]));
        assert!(!sleepers.are_unwatched(), "it is on its way");
        assert!(!sleepers.add(SleepsOn::ANYTHING, Some(BELLS[0])).watches);
        // It sleeps again without having watched.
        sleepers.remove(third);
        assert!(sleepers.add(SleepsOn::ANYTHING, Some(BELLS[2])).watches);
    }

    #[test]
    fn nobody_watches_whom_another_polls_for() {
        let sleepers = Sleepers::new();
        sleepers.polls();
        let asleep = sleepers.add(SleepsOn::ANYTHING, Some(BELLS[0]));
        assert!(!asleep.watches && !sleepers.are_unwatched());
        sleepers.polls_no_more();
        assert_eq!(bells(sleepers.appoint()), Some(vec![BELLS[0]]));
        sleepers.remove(asleep);
        assert!(!sleepers.are_unwatched() && sleepers.count() == 0, "nobody sleeps");
        sleepers.polls_no_more();
        assert!(sleepers.add(SleepsOn::ANYTHING, Some(BELLS[0])).watches, "it polls no less than not at all");
    }

    #[test]
    fn a_timer_wakes_who_watches_and_others_only_if_that_one_would_be_late() {
        let (sleepers, [first, second, third]) = three();
        let [soon, late] = [10, 20].map(|at| Some(Instant::from_nanos(at)));
        assert_eq!(sleepers.timer_of(second, late), late, "it may be on its way to sleep longer");
        assert_eq!(sleepers.timer_of(first, late), late);
        assert_eq!([soon, late, None].map(|at| sleepers.timer_of(second, at)), [soon, None, None]);
        sleepers.remove(first);
        sleepers.appoint();
        assert_eq!(sleepers.timer_of(third, soon), None, "the one that has been woken will look");
        let loose = Asleep { place: None, watches: true };
        assert_eq!(sleepers.timer_of(loose, late), late);
    }

    #[test]
    fn who_went_without_a_word_is_replaced() {
        let (sleepers, [first, ..]) = three();
        sleepers.polls();
        sleepers.depose();
        assert_eq!(bells(sleepers.appoint()), Some(vec![BELLS[1]]));
        // It may have been late only.
        sleepers.polls_no_more();
        sleepers.remove(first);
        assert!(sleepers.appoint().is_none());
        sleepers.depose();
        assert_eq!(bells(sleepers.appoint()), Some(vec![BELLS[2]]));
        sleepers.depose();
        assert!(sleepers.appoint().is_none(), "nobody is left");
        assert!(sleepers.add(SleepsOn::ANYTHING, Some(BELLS[0])).watches);
    }

    #[test]
    fn a_thread_without_a_bell_is_not_appointed() {
        let sleepers = Sleepers::new();
        let [watcher, deaf, hears] = [None, None, Some(BELLS[0])].map(|bell| sleepers.add(SleepsOn::ANYTHING, bell));
        assert!(watcher.watches && !deaf.watches);
        sleepers.remove(watcher);
        assert_eq!(bells(sleepers.appoint()), Some(vec![BELLS[0]]));
        sleepers.remove(hears);
        assert!(sleepers.appoint().is_none());
    }

    #[test]
    fn who_is_called_is_woken_and_nobody_else() {
        let mut memory = OwnedMemory::new(&Limits::DEFAULT);
        let mut stack = memory.stack();
        stack.init(&Config::default(), Instant::from_nanos(1));
        let ids = [(); 2].map(|()| stack.udp_open(UdpOptions::default()).unwrap());
        let (own, other) = (mark_of(3), mark_of(4));
        let sleepers = Sleepers::new();
        let [on_first, on_second] = ids.map(|id| stack.sleep_on([id.into()], own));
        let first = sleepers.add(on_first, Some(BELLS[0]));
        sleepers.add(on_second, Some(BELLS[1]));
        let mut happens = |marks| {
            stack.sleep_on([ids[0].into()], marks);
            stack.udp_keep_error(ids[0], Error::Refused).unwrap();
            stack.take_calls().unwrap()
        };
        assert_eq!(bells(sleepers.called(&happens(own), 3)), Some(vec![BELLS[0]]));
        // One of another process sleeps on it, too.
        assert_eq!(bells(sleepers.called(&happens(own | other), 3)), None);
        // It was late, and the helper took in what it had watched for.
        sleepers.depose();
        assert_eq!(bells(sleepers.called(&happens(own), 3)), Some(vec![BELLS[0]]));
        // It has woken up by itself.
        sleepers.remove(first);
        assert_eq!(bells(sleepers.called(&happens(own), 3)), Some(vec![]));
        // Whoever sleeps on anything is woken by this as well.
        sleepers.add(SleepsOn::ANYTHING, Some(BELLS[2]));
        assert_eq!(bells(sleepers.called(&happens(own), 3)), Some(vec![BELLS[2]]));
        // Several processes have the last mark.
        assert_eq!(bells(sleepers.called(&happens(mark_of(63)), 63)), None);
    }

    #[test]
    fn more_than_there_are_places_for_watch_and_are_woken_all_the_same() {
        let mut memory = OwnedMemory::new(&Limits::DEFAULT);
        let mut stack = memory.stack();
        stack.init(&Config::default(), Instant::from_nanos(1));
        let id = stack.udp_open(UdpOptions::default()).unwrap();
        let mut happens = || {
            stack.sleep_on([id.into()], 1);
            stack.udp_keep_error(id, Error::Refused).unwrap();
            stack.take_calls().unwrap()
        };
        let sleepers = Sleepers::new();
        for _ in 0..SINGLY {
            sleepers.add(SleepsOn::ANYTHING, Some(BELLS[0]));
        }
        assert_eq!(bells(sleepers.called(&happens(), 0)).map(|bells| bells.len()), Some(SINGLY));
        for _ in SINGLY..PLACES {
            sleepers.add(SleepsOn::ANYTHING, Some(BELLS[0]));
        }
        assert_eq!(bells(sleepers.called(&happens(), 0)), None);
        let loose = sleepers.add(SleepsOn::ANYTHING, Some(BELLS[1]));
        assert!(loose.watches);
        sleepers.remove(loose);
        assert_eq!(sleepers.count() as usize, PLACES);
        sleepers.forget();
        assert!(sleepers.count() == 0 && sleepers.add(SleepsOn::ANYTHING, Some(BELLS[0])).watches);
    }
}
