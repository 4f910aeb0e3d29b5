//! A capture: which users may have one, its memory, and what its reader gets.

use crate::capture_tap::{CaptureTap, CapturedLanes};
use crate::packet_thread::LaneWaker;
use crate::users::User;
use std::io;
use std::os::windows::io::AsHandle;
use tickwire_lane::control::Reason;
use tickwire_lane::record_ring::Wakes;
use tickwire_lane_windows::control::HandleGrant;
use tickwire_lane_windows::event::{PROGRAM_WAITS, WakeEvent};
use tickwire_lane_windows::lane_memory::{LaneMemory, LaneSide, SECTION_BYTES, WriteRing, rings};
use tickwire_lane_windows::section::{PROGRAM_READS, PROGRAM_WRITES, SharedSection};
use tickwire_registry::LaneId;

/// What a capture's reader gets. Its memory is like a lane's, of which one ring is not used.
pub(super) struct CaptureGrant {
    /// The section that the reader writes: how far it has read.
    readers: SharedSection,
    /// The section that the service writes: the packets.
    services: SharedSection,
    arrived: WakeEvent,
}

impl CaptureGrant {
    /// The handles of [`tickwire_lane::control::Reply::Capturing`], in their order.
    pub(super) fn handles(&self) -> [HandleGrant<'_>; 3] {
        [
            HandleGrant::only(self.readers.as_handle(), PROGRAM_WRITES),
            HandleGrant::only(self.services.as_handle(), PROGRAM_READS),
            HandleGrant::only(self.arrived.as_handle(), PROGRAM_WAITS),
        ]
    }
}

/// What wakes a capture's reader.
pub(super) struct CaptureReader(WakeEvent);

impl LaneWaker for CaptureReader {
    fn wake(&self, wakes: Wakes) {
        if wakes != Wakes::None {
            self.0.set();
        }
    }
}

/// A new capture: its tap, what wakes its reader, and what that gets.
///
/// # Errors
/// If there is no memory, or there are no handles left.
pub(super) fn new_capture(
    lanes: CapturedLanes,
    snaplen: u32,
) -> io::Result<(CaptureTap<WriteRing>, CaptureReader, CaptureGrant)> {
    let arrived = WakeEvent::new()?;
    let reader = CaptureReader(arrived.as_handle().try_clone_to_owned()?.into());
    let (readers, services) = (SharedSection::create(SECTION_BYTES)?, SharedSection::create(SECTION_BYTES)?);
    let (_, ring) = rings(LaneMemory::map(LaneSide::Service, &services, &readers)?);
    let tap = CaptureTap { lanes, snaplen: snaplen as usize, ring };
    Ok((tap, reader, CaptureGrant { readers, services, arrived }))
}

/// Which lanes a user may capture of those asked for (0: of all). `lanes`: those there are, with
/// their users.
///
/// # Errors
/// [`Reason::NotPermitted`] for a lane of another user; [`Reason::LaneGone`] if there is none.
pub(super) fn permitted<'a>(
    user: &User,
    asked: LaneId,
    lanes: impl Iterator<Item = (LaneId, &'a User)>,
) -> Result<CapturedLanes, Reason> {
    if user.is_administrator && asked == 0 {
        return Ok(CapturedLanes::All);
    }
    let asked_for: Vec<_> = lanes.filter(|(lane, _)| asked == 0 || *lane == asked).collect();
    let own = asked_for.iter().filter(|(_, owner)| user.may_see(owner)).map(|(lane, _)| *lane);
    let own = own.collect::<std::collections::BTreeSet<_>>();
    match (asked, asked_for.is_empty(), own.is_empty()) {
        (1.., true, _) => Err(Reason::LaneGone),
        (1.., false, true) => Err(Reason::NotPermitted),
        // A user captures its lanes that exist now; later lanes need another capture.
        _ => Ok(CapturedLanes::These(own)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(id: &str, is_administrator: bool) -> User {
        User { id: id.as_bytes().into(), is_administrator }
    }

    fn asked(viewer: &User, lane: LaneId) -> Result<CapturedLanes, Reason> {
        let [a, b] = ["a", "b"].map(|id| user(id, false));
        permitted(viewer, lane, [(1, &a), (2, &b), (3, &User::unknown())].into_iter())
    }

    #[test]
    fn a_user_captures_its_own_lanes_and_an_administrator_all() {
        let these = |lanes: &[LaneId]| Ok(CapturedLanes::These(lanes.iter().copied().collect()));
        assert_eq!(asked(&user("x", true), 0), Ok(CapturedLanes::All));
        for lane in 1..=3 {
            assert_eq!(asked(&user("x", true), lane), these(&[lane]));
        }
        assert_eq!(asked(&user("a", false), 0), these(&[1]));
        assert_eq!(asked(&user("b", false), 2), these(&[2]));
        assert_eq!(asked(&user("x", false), 0), these(&[]), "none is its own");
        for lane in 2..=3 {
            assert_eq!(asked(&user("a", false), lane), Err(Reason::NotPermitted));
        }
        assert_eq!(asked(&user("x", true), 4), Err(Reason::LaneGone));
        assert_eq!(asked(&user("a", false), 4), Err(Reason::LaneGone));
    }
}
