//! The names of what packets are recorded of.

use super::{CaptureService, wanted};
use anyhow::Result;
use std::collections::HashMap;
use tickwire_lane::capture_record::CaptureRecord;
use tickwire_lane::control::{Reply, Request};

/// The names of lanes and network cards.
#[derive(Default)]
pub(super) struct Names {
    /// Program and process by lane; none if the service does not know.
    programs: HashMap<u32, Option<(String, u32)>>,
    cards: HashMap<u32, String>,
}

impl Names {
    pub(super) fn read(service: &mut impl CaptureService) -> Result<Self> {
        let mut names = Self::default();
        let mut after = 0;
        while let Reply::Interface { info } = service.ask(&Request::ListInterfaces { after })? {
            after = info.interface;
            names.cards.insert(after, info.name.as_str().to_owned());
        }
        Ok(names)
    }

    /// Asks the service about a lane at its first packet.
    pub(super) fn learn(&mut self, service: &mut impl CaptureService, lane: u32) {
        if self.programs.contains_key(&lane) {
            return;
        }
        let before = u64::from(lane).saturating_sub(1);
        let program = match service.ask(&Request::ListLanes { after: before }) {
            Ok(Reply::LaneInfo { info, .. }) if info.lane == lane => Some((info.program.as_str().to_owned(), info.pid)),
            _ => None,
        };
        self.programs.insert(lane, program);
    }

    /// Whether a lane is that of a program, by its name or process number.
    pub(super) fn is(&self, lane: u32, wanted: &str) -> bool {
        let program = self.programs.get(&lane).and_then(Option::as_ref);
        program.is_some_and(|(name, pid)| wanted::is(name, *pid, wanted))
    }

    /// Name and description of the interface of a record.
    pub(super) fn describe(&self, record: &CaptureRecord) -> (String, String) {
        let lane = record.lane;
        let who = match self.programs.get(&lane) {
            Some(Some((name, pid))) => format!("{name} (process {pid})"),
            _ => format!("the program of lane {lane}"),
        };
        if record.outgoing {
            return (format!("lane{lane}"), format!("sent by {who}"));
        }
        let card = self.cards.get(&record.nic).cloned().unwrap_or_else(|| format!("if{}", record.nic));
        (format!("lane{lane}:{card}"), format!("came by {card} for {who}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_named_after_lane_card_and_program() {
        let mut names = Names::default();
        names.cards.insert(2, "eth0".into());
        names.programs.insert(5, Some(("nginx".into(), 77)));
        let record = CaptureRecord { monotonic_ns: 0, lane: 5, nic: 2, length: 60, outgoing: false };
        assert_eq!(names.describe(&record), ("lane5:eth0".into(), "came by eth0 for nginx (process 77)".into()));
        let sent = CaptureRecord { outgoing: true, ..record };
        assert_eq!(names.describe(&sent), ("lane5".into(), "sent by nginx (process 77)".into()));
        assert!(names.is(5, "nginx") && names.is(5, "77") && !names.is(5, "redis") && !names.is(6, "nginx"));
    }
}
