//! Sets compared with a naive model that keeps plain lists and checks everything.

use super::{Event, Interest, WatchError};
use crate::addr::{Address, Endpoint};
use crate::ids::{Ready, SetId, SocketId, UdpId};
use crate::memory::{Limits, OwnedMemory};
use crate::udp::UdpOptions;
use crate::{Stack, StackConfig};
use proptest::prelude::*;

const SOCKETS: usize = 4;
const SETS: usize = 3;

fn memory() -> OwnedMemory {
    let limits = Limits { frames: 128, tcp: 8, udp: 8, watch_items: 16, watch_sets: 8, ..Limits::DEFAULT };
    let mut memory = OwnedMemory::new(&limits);
    memory.stack().init(&StackConfig::default());
    memory
}

fn socket(stack: &mut Stack<'_>, number: usize) -> UdpId {
    let id = stack.udp_open(UdpOptions::default()).unwrap();
    stack.udp_bind(id, Endpoint::new(Address::v4([10, 0, 0, 1]), 1000 + number as u16)).unwrap();
    id
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A datagram arrives at a socket.
    Arrive(usize),
    /// The program reads a datagram.
    Read(usize),
    Add(usize, usize, Interest),
    /// Nests a set in another.
    Nest(usize, usize, Interest),
    Modify(usize, usize, Interest),
    Delete(usize, usize),
    Wait(usize, usize),
    Reopen(usize),
}

fn interest() -> impl Strategy<Value = Interest> {
    (prop_oneof![Just(Ready::IN), Just(Ready::OUT), Just(Ready::IN | Ready::OUT)], any::<bool>(), any::<bool>())
        .prop_map(|(ready, edge, oneshot)| Interest { ready, edge, oneshot })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..SOCKETS).prop_map(Step::Arrive),
        3 => (0..SOCKETS).prop_map(Step::Read),
        4 => (0..SETS, 0..SOCKETS, interest()).prop_map(|(s, i, e)| Step::Add(s, i, e)),
        1 => (0..SETS, 0..SETS, interest()).prop_map(|(s, i, e)| Step::Nest(s, i, e)),
        2 => (0..SETS, 0..SOCKETS, interest()).prop_map(|(s, i, e)| Step::Modify(s, i, e)),
        1 => (0..SETS, 0..SOCKETS).prop_map(|(s, i)| Step::Delete(s, i)),
        5 => (0..SETS, 1..4usize).prop_map(|(s, n)| Step::Wait(s, n)),
        1 => (0..SOCKETS).prop_map(Step::Reopen),
    ]
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watched {
    Socket(usize),
    Set(usize),
}

#[derive(Clone, Debug)]
struct ModelItem {
    what: Watched,
    interest: Interest,
    data: u64,
    armed: bool,
    /// When it was added: the latest watcher of a socket is notified first.
    added: usize,
}

/// The specification: sets as lists of items, ready lists as lists of watched objects.
#[derive(Default)]
struct Model {
    queue: [usize; SOCKETS],
    items: [Vec<ModelItem>; SETS],
    ready: [Vec<Watched>; SETS],
    added: usize,
}

impl Model {
    fn state(&self, what: Watched) -> Ready {
        match what {
            Watched::Socket(i) if self.queue[i] > 0 => Ready::IN | Ready::OUT,
            Watched::Socket(_) => Ready::OUT,
            Watched::Set(s) => {
                let any = self.ready[s].iter().any(|&w| {
                    let item = self.item(s, w);
                    item.armed && !(self.state(w) & item.interest.ready).is_empty()
                });
                if any { Ready::IN } else { Ready::NONE }
            }
        }
    }

    fn item(&self, set: usize, what: Watched) -> &ModelItem {
        self.items[set].iter().find(|i| i.what == what).expect("in the set")
    }

    fn changed(&mut self, what: Watched, ready: Ready) {
        let watching = (0..SETS).filter_map(|s| self.items[s].iter().find(|i| i.what == what).map(|i| (s, i.clone())));
        let mut watching: Vec<_> = watching.collect();
        watching.sort_by_key(|(_, item)| std::cmp::Reverse(item.added));
        for (set, item) in watching {
            if item.armed && !(item.interest.ready & ready).is_empty() {
                self.enqueue(set, what);
            }
        }
    }

    fn enqueue(&mut self, set: usize, what: Watched) {
        if !self.ready[set].contains(&what) {
            self.ready[set].push(what);
        }
        self.changed(Watched::Set(set), Ready::IN);
    }

    fn put(&mut self, set: usize, what: Watched, interest: Interest, data: u64) {
        self.added += 1;
        let added = self.items[set].iter().find(|i| i.what == what).map_or(self.added, |i| i.added);
        self.items[set].retain(|i| i.what != what);
        self.items[set].push(ModelItem { what, interest, data, armed: true, added });
        if !(self.state(what) & interest.ready).is_empty() {
            self.enqueue(set, what);
        }
    }

    fn remove(&mut self, set: usize, what: Watched) {
        self.items[set].retain(|i| i.what != what);
        self.ready[set].retain(|&w| w != what);
    }

    fn wait(&mut self, set: usize, max: usize) -> Vec<Event> {
        let mut events = Vec::new();
        for _ in 0..self.ready[set].len() {
            if events.len() == max {
                break;
            }
            let what = self.ready[set].remove(0);
            let item = self.item(set, what).clone();
            let ready = self.state(what) & item.interest.ready;
            if !item.armed || ready.is_empty() {
                continue;
            }
            events.push(Event { ready, data: item.data });
            if item.interest.oneshot {
                let item = self.items[set].iter_mut().find(|i| i.what == what).unwrap();
                item.armed = false;
            } else if !item.interest.edge {
                self.ready[set].push(what);
            }
        }
        events
    }

    fn reaches(&self, from: usize, to: usize) -> bool {
        from == to || self.items[from].iter().any(|i| matches!(i.what, Watched::Set(s) if self.reaches(s, to)))
    }
}

proptest! {
    #![proptest_config(crate::testing::proptest_config(400))]

    #[test]
    fn sets_do_what_the_model_does(steps in prop::collection::vec(step(), 1..120)) {
        let mut memory = memory();
        let mut stack = memory.stack();
        let mut sockets: Vec<UdpId> = (0..SOCKETS).map(|i| socket(&mut stack, i)).collect();
        let sets: Vec<SetId> = (0..SETS).map(|_| stack.set_create().unwrap()).collect();
        let mut model = Model::default();
        for (number, step) in steps.into_iter().enumerate() {
            let data = number as u64;
            match step {
                Step::Arrive(i) => {
                    stack.udp_put(sockets[i], b"x");
                    model.queue[i] += 1;
                    model.changed(Watched::Socket(i), Ready::IN);
                }
                Step::Read(i) => {
                    let got = stack.udp_recv(sockets[i], false, &mut Vec::new()).is_ok();
                    prop_assert_eq!(got, model.queue[i] > 0);
                    model.queue[i] -= usize::from(got);
                }
                Step::Add(s, i, interest) => {
                    let known = model.items[s].iter().any(|item| item.what == Watched::Socket(i));
                    let added = stack.item_add(sets[s], sockets[i].into(), i as u64, interest, data);
                    prop_assert_eq!(added, if known { Err(WatchError::Exists) } else { Ok(()) });
                    if !known {
                        model.put(s, Watched::Socket(i), interest, data);
                    }
                }
                Step::Nest(s, inner, interest) => {
                    let what = Watched::Set(inner);
                    let known = model.items[s].iter().any(|item| item.what == what);
                    let added = stack.item_add(sets[s], sets[inner].into(), 100, interest, data);
                    let expected = if known {
                        Err(WatchError::Exists)
                    } else if model.reaches(inner, s) {
                        Err(WatchError::Loop)
                    } else {
                        Ok(())
                    };
                    prop_assert_eq!(added, expected);
                    if added.is_ok() {
                        model.put(s, what, interest, data);
                    }
                }
                Step::Modify(s, i, interest) => {
                    let known = model.items[s].iter().any(|item| item.what == Watched::Socket(i));
                    let done = stack.item_modify(sets[s], sockets[i].into(), i as u64, interest, data);
                    prop_assert_eq!(done, if known { Ok(()) } else { Err(WatchError::Missing) });
                    if known {
                        model.put(s, Watched::Socket(i), interest, data);
                    }
                }
                Step::Delete(s, i) => {
                    let known = model.items[s].iter().any(|item| item.what == Watched::Socket(i));
                    let done = stack.item_delete(sets[s], sockets[i].into(), i as u64);
                    prop_assert_eq!(done, if known { Ok(()) } else { Err(WatchError::Missing) });
                    model.remove(s, Watched::Socket(i));
                }
                Step::Wait(s, max) => {
                    let mut events = Vec::new();
                    let count = stack.set_wait(sets[s], max, |event| events.push(event)).unwrap();
                    prop_assert_eq!(count, events.len());
                    prop_assert_eq!(events, model.wait(s, max));
                }
                Step::Reopen(i) => {
                    stack.udp_close(sockets[i]).unwrap();
                    sockets[i] = socket(&mut stack, i);
                    model.queue[i] = 0;
                    (0..SETS).for_each(|s| model.remove(s, Watched::Socket(i)));
                }
            }
            for (s, set) in sets.iter().enumerate() {
                let id = SocketId::from(*set);
                prop_assert_eq!(stack.readiness(id).unwrap(), model.state(Watched::Set(s)));
            }
        }
        for set in sets {
            stack.set_destroy(set).unwrap();
        }
        prop_assert_eq!(stack.mem.core.free_items.used(), 0);
    }
}

#[test]
fn sets_nest_five_deep_and_no_deeper() {
    let mut memory = memory();
    let mut stack = memory.stack();
    let sets: Vec<SetId> = (0..7).map(|_| stack.set_create().unwrap()).collect();
    let level = Interest::level(Ready::IN);
    let mut nest = |outer: usize, inner: usize| stack.item_add(sets[outer], sets[inner].into(), 0, level, 0);
    for i in 0..4 {
        assert_eq!(nest(i, i + 1), Ok(()));
    }
    assert_eq!(nest(4, 5), Err(WatchError::Loop));
    assert_eq!(nest(4, 0), Err(WatchError::Loop));
    assert_eq!(nest(6, 0), Err(WatchError::Loop));
}

#[test]
fn what_is_ready_outside_is_told_with_what_is_ready_inside_and_uses_up_what_is_told_once() {
    let mut memory = memory();
    let mut stack = memory.stack();
    let (id, set) = (socket(&mut stack, 0), stack.set_create().unwrap());
    let told = |stack: &mut Stack<'_>| stack.item_report(set, id.into(), 7, Ready::IN);
    assert_eq!(told(&mut stack), Err(WatchError::Missing));
    let once = Interest { oneshot: true, ..Interest::level(Ready::IN | Ready::OUT) };
    stack.item_add(set, id.into(), 7, once, 1).unwrap();
    assert_eq!(told(&mut stack), Ok(Some(Event { ready: Ready::IN | Ready::OUT, data: 1 })));
    assert_eq!(told(&mut stack), Ok(None));
    assert_eq!(stack.set_wait(set, 9, |_| {}), Ok(0));
    stack.item_modify(set, id.into(), 7, once, 2).unwrap();
    assert_eq!(stack.set_wait(set, 9, |_| {}), Ok(1));
    assert_eq!(told(&mut stack), Ok(None), "told from inside");
    stack.item_modify(set, id.into(), 7, Interest::level(Ready::IN), 3).unwrap();
    for _ in 0..2 {
        assert_eq!(told(&mut stack), Ok(Some(Event { ready: Ready::IN, data: 3 })));
    }
}

#[test]
fn a_class_of_data_is_told_alone_where_nothing_else_was_asked_for() {
    let mut memory = memory();
    let mut stack = memory.stack();
    let (id, inner, outer) = (socket(&mut stack, 0), stack.set_create().unwrap(), stack.set_create().unwrap());
    stack.item_add(inner, id.into(), 0, Interest::level(Ready::NONE), 1).unwrap();
    stack.item_add(outer, inner.into(), 0, Interest::edge(Ready::RDNORM), 2).unwrap();
    let told = |stack: &mut Stack<'_>, set| {
        let mut told = None;
        stack.set_wait(set, 9, |event| told = Some(event)).unwrap();
        told
    };
    for class in [Ready::WRNORM, Ready::WRBAND] {
        stack.item_modify(inner, id.into(), 0, Interest::level(class), 1).unwrap();
        assert_eq!(told(&mut stack, inner), Some(Event { ready: class, data: 1 }));
        assert_eq!(told(&mut stack, outer), Some(Event { ready: Ready::RDNORM, data: 2 }));
    }
    stack.item_modify(inner, id.into(), 0, Interest::edge(Ready::RDNORM | Ready::PRI), 3).unwrap();
    assert_eq!(told(&mut stack, inner), None);
    stack.notify(id.into(), Ready::IN);
    assert_eq!(
        stack.item_report(inner, id.into(), 0, Ready::RDNORM),
        Ok(Some(Event { ready: Ready::RDNORM, data: 3 }))
    );
}

#[test]
fn a_stale_handle_is_refused_everywhere() {
    let mut memory = memory();
    let mut stack = memory.stack();
    let a = socket(&mut stack, 0);
    let set = stack.set_create().unwrap();
    stack.udp_close(a).unwrap();
    let again = socket(&mut stack, 0);
    assert_eq!((a.index, a == again), (again.index, false));
    assert_eq!(stack.item_add(set, a.into(), 0, Interest::level(Ready::IN), 0), Err(WatchError::Stale));
    assert_eq!(stack.udp_recv(a, false, &mut Vec::new()), Err(crate::StackError::Stale));
    stack.set_destroy(set).unwrap();
    assert_eq!(stack.set_wait(set, 1, |_| {}), Err(WatchError::Stale));
}
