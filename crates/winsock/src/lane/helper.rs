//! The thread that drives the stack while no other does: it takes packets in that arrive while the
//! program is busy or asleep, has timeouts processed, and hears the service and the alarm.

use super::{AtEnd, Happened, Lane};
use crate::hook::reentrancy;
use std::os::windows::io::AsHandle;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tickwire_lane_windows::clock;
use tickwire_lane_windows::event::wait_for;
use tickwire_stack::time::Instant;

/// It tries what is unfinished so often.
const TICK: Duration = Duration::from_millis(5);

/// It looks at least so often: a thread that polled may have left the ring without a wakeup.
const IDLE: Duration = Duration::from_millis(20);

/// Without a service it delivers so often what other threads have noted.
const AFTERWARDS: Duration = Duration::from_millis(100);

/// Starts it. Returns whether that was possible.
pub(super) fn start(lane: &'static Lane) -> bool {
    std::thread::Builder::new().name("tickwire".into()).spawn(move || run(lane)).is_ok()
}

/// Takes in what packets and the service have brought, and sends. Returns whether the lane is
/// there.
fn drive(lane: &Lane) -> bool {
    let mut core = lane.lock();
    lane.receive(&mut core);
    let news = lane.control.take_news(|path| core.stack.path_set(path, clock::now()));
    let Ok(lost) = news else { return false };
    lane.note_lost_claims(&mut core, lost);
    lane.send(&mut core);
    true
}

fn run(lane: &'static Lane) {
    let _inside = reentrancy::enter();
    let Ok(arrived) = lane.lock().port.arrived().try_clone_to_owned() else { return };
    loop {
        if !drive(lane) {
            lane.is_lost.store(true, Relaxed);
            lane.changed.notify_all();
            lane.deliver_at_once(Happened::Loss);
            return attend_kernel(lane);
        }
        lane.deliver();
        let (until_deadline, is_all_sent) = {
            let mut core = lane.lock();
            lane.arm(&mut core);
            lane.send(&mut core);
            let deadline = core.stack.deadline();
            let left = |at: Instant| Duration::from_nanos(at.as_nanos().saturating_sub(clock::now().as_nanos()));
            (deadline.map_or(IDLE, left), core.is_all_sent)
        };
        // What the ring had before it was armed.
        lane.deliver();
        let is_left = lane.work(AtEnd(false));
        let tick = if is_left || !is_all_sent { TICK } else { IDLE };
        let [news, kept] = lane.control.events();
        let alarm = lane.alarm.left();
        let longest = alarm.into_iter().fold(tick.min(until_deadline), Duration::min);
        // The first that is signalled is told. (Each is signalled once for what has happened.)
        let events = [lane.kernel_halves.event(), lane.alarm_event(), arrived.as_handle(), news, kept];
        heed(lane, wait_for(&events, Some(longest)).ok().flatten());
    }
}

/// Delivers what the first two events tell. (A flood of the first one keeps the second one's from
/// being told: it is looked at by itself.)
fn heed(lane: &Lane, signalled: Option<usize>) {
    if signalled == Some(0) {
        lane.deliver_kernel_halves();
    }
    let rings = match signalled {
        Some(0) => matches!(wait_for(&[lane.alarm_event()], Some(Duration::ZERO)), Ok(Some(_))),
        signalled => signalled == Some(1),
    };
    if rings || lane.alarm.left() == Some(Duration::ZERO) {
        lane.deliver_at_once(Happened::Alarm);
    }
}

/// The service has gone, and new sockets are the kernel's. Polls of those still begin and end, and
/// the kernel's parts of polls are this thread's: they end with it.
fn attend_kernel(lane: &Lane) {
    loop {
        lane.deliver();
        let events = [lane.kernel_halves.event(), lane.alarm_event()];
        let longest = lane.alarm.left().map_or(AFTERWARDS, |left| left.min(AFTERWARDS));
        heed(lane, wait_for(&events, Some(longest)).ok().flatten());
    }
}
