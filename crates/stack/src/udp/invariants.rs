//! Invariants of UDP sockets: see [`Stack::check_invariants`].

use crate::Stack;
use crate::demux::invariants::{Found, Way};
use crate::invariants::Holders;
use crate::pool::PoolLink;
use crate::pool::invariants::walk;

use super::Socket;

impl Socket {
    fn way(&self) -> Way {
        match (self.bound.port, self.remote.port) {
            (0, _) => Way::None,
            (_, 0) => Way::Bound(self.bound),
            _ => Way::Connected(self.local, self.remote),
        }
    }
}

impl Stack<'_> {
    pub(crate) fn check_datagrams(&self, holders: &mut Holders, found: &mut Found) {
        let (core, frames) = (&self.mem.core, &self.mem.frames);
        let taken = self.mem.udp.taken("sockets for datagrams", &core.free_udp, |socket| socket.link);
        self.check_handles::<Socket>(&taken);
        let lines = core.free_groups.taken("memberships", self.mem.groups, |line| line.link);
        let mut memberships = 0;
        for index in taken.indices(&self.mem.udp) {
            let socket = &self.mem.udp[index];
            let mut last = PoolLink::NONE;
            let count = walk(socket.head, frames.meta.len(), |id| {
                holders.note_chain(frames, id, "a queue of datagrams");
                last = PoolLink::to(id);
                frames.meta[id as usize].prev
            });
            assert_eq!((count, last), (socket.count as usize, socket.tail), "datagrams of {index}");
            memberships += walk(socket.groups, self.mem.groups.len(), |line| {
                assert!(lines.has(line), "membership {line} of {index} is free");
                self.mem.groups[line as usize].link
            });
            self.check_way(index, socket.way(), found);
        }
        assert_eq!(memberships, core.free_groups.used(), "memberships");
    }
}
