//! The thread that drives the stack while no other does: it takes packets in that arrive while the
//! program is busy or asleep, has timeouts processed, and hears the service.

use super::{AtEnd, Lane, exit_gate};
use crate::hook::reentrancy;
use std::os::windows::io::AsHandle;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tickwire_lane_windows::clock;
use tickwire_lane_windows::event::wait_for;

/// It looks for packets and timeouts at least so often, if there were packets in the last second: a
/// thread that polled may have left the ring without a wakeup.
const TICK: Duration = Duration::from_millis(5);

/// And so often otherwise.
const IDLE: Duration = Duration::from_millis(50);

/// A second.
const SECOND_NS: u64 = 1_000_000_000;

/// Starts it. Returns whether that was possible.
pub(super) fn start(lane: &'static Lane) -> bool {
    std::thread::Builder::new().name("tickwire".into()).spawn(move || run(lane)).is_ok()
}

fn run(lane: &'static Lane) {
    let _inside = reentrancy::enter();
    exit_gate::pass_always();
    let Ok(arrived) = lane.lock().port.arrived().try_clone_to_owned() else { return };
    loop {
        {
            let mut core = lane.lock();
            lane.receive(&mut core);
            let news = lane.control.take_news(|path| core.stack.path_set(path, clock::now()));
            if news.is_err() {
                lane.is_lost.store(true, Relaxed);
                lane.changed.notify_all();
                return;
            }
            lane.send(&mut core);
            if !core.is_armed {
                core.is_armed = core.port.arm();
            }
        }
        let is_left = lane.work(AtEnd(false));
        let quiet_ns = clock::now().as_nanos().saturating_sub(lane.last_packet.load(Relaxed));
        let [news, kept] = lane.control.events();
        let _ = wait_for(
            &[arrived.as_handle(), news, kept],
            Some(if is_left || quiet_ns < SECOND_NS { TICK } else { IDLE }),
        );
    }
}
