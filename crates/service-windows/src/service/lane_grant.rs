//! A new lane: its memory and its events, and what its program gets of them.

use crate::forwarder::LaneRings;
use crate::packet_thread::LaneWaker;
use std::io;
use std::os::windows::io::AsHandle;
use std::sync::Arc;
use tickwire_card_windows::card::CardWaker;
use tickwire_lane::record_ring::Wakes;
use tickwire_lane_windows::control::HandleGrant;
use tickwire_lane_windows::event::{PROGRAM_SETS, PROGRAM_WAITS, WakeEvent};
use tickwire_lane_windows::event_watch::EventWatch;
use tickwire_lane_windows::lane_memory::{LaneMemory, LaneSide, ReadRing, SECTION_BYTES, WriteRing, rings};
use tickwire_lane_windows::section::{PROGRAM_READS, PROGRAM_WRITES, SharedSection};

/// What a lane's program gets.
pub(super) struct LaneGrant {
    /// The section that the program writes.
    programs: SharedSection,
    /// The section that the service writes.
    services: SharedSection,
    /// A copy of [`Events::doorbell`].
    doorbell: WakeEvent,
    arrived: WakeEvent,
    standby: WakeEvent,
}

/// The events of a lane.
struct Events {
    /// The program sets it when the service sleeps and is to send something. Each lane has one of
    /// its own: a program can reset it, too, which then keeps only its own packets waiting.
    doorbell: EventWatch,
    /// Is set for threads that sleep on the receive ring.
    arrived: WakeEvent,
    /// Is set for the thread that stands by.
    standby: WakeEvent,
}

impl LaneWaker for Events {
    fn wake(&self, wakes: Wakes) {
        match wakes {
            Wakes::None => (),
            Wakes::Waiters => self.arrived.set(),
            Wakes::Standby => self.standby.set(),
        }
    }
}

/// A new lane.
pub(super) struct NewLane {
    /// Its rings on the side of the service.
    pub(super) rings: LaneRings<ReadRing, WriteRing>,
    /// What wakes its program.
    pub(super) waker: Box<dyn LaneWaker>,
    /// Its memory on the side of the service.
    pub(super) memory: Arc<LaneMemory>,
    /// What its program gets.
    pub(super) grant: LaneGrant,
}

/// Makes the memory and the events of a lane. `service`: wakes the thread that moves packets.
///
/// # Errors
/// If there is no memory, or there are no handles left.
pub(super) fn new_lane(service: Arc<dyn CardWaker>) -> io::Result<NewLane> {
    let copy = |event: &WakeEvent| event.as_handle().try_clone_to_owned().map(WakeEvent::from);
    let doorbell = EventWatch::new(WakeEvent::new()?, move || service.wake())?;
    let events = Events { doorbell, arrived: WakeEvent::new()?, standby: WakeEvent::new()? };
    let grant = LaneGrant {
        programs: SharedSection::create(SECTION_BYTES)?,
        services: SharedSection::create(SECTION_BYTES)?,
        doorbell: copy(events.doorbell.event())?,
        arrived: copy(&events.arrived)?,
        standby: copy(&events.standby)?,
    };
    let memory = LaneMemory::map(LaneSide::Service, &grant.services, &grant.programs)?;
    let (transmit, receive) = rings(Arc::clone(&memory));
    Ok(NewLane { rings: LaneRings { receive, transmit }, waker: Box::new(events), memory, grant })
}

impl LaneGrant {
    /// The handles of [`tickwire_lane::control::Reply::Lane`] in their order: the section that the
    /// program writes, the one that it reads, the lane's doorbell, and the two events that it
    /// waits for.
    pub(super) fn handles(&self) -> [HandleGrant<'_>; 5] {
        [
            HandleGrant::only(self.programs.as_handle(), PROGRAM_WRITES),
            HandleGrant::only(self.services.as_handle(), PROGRAM_READS),
            HandleGrant::only(self.doorbell.as_handle(), PROGRAM_SETS),
            HandleGrant::only(self.arrived.as_handle(), PROGRAM_WAITS),
            HandleGrant::only(self.standby.as_handle(), PROGRAM_WAITS),
        ]
    }
}
