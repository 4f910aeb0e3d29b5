//! Invariants of a stack that hold between any two calls. Only simulations, the endurance test and
//! fuzzers check them, at every step: the time is proportional to the number of frames and sockets.
//!
//! Only a defect of the stack can violate them, whatever peers and programs do. So a violation
//! panics.

#[cfg(test)]
pub(crate) mod tests;

use crate::Stack;
use crate::demux::invariants::Found;
use crate::frame::{FrameId, Frames, flag};

/// The holder of free frames.
const FREE: &str = "the free list";

/// The holder of each frame.
#[derive(Debug)]
pub(crate) struct Holders {
    of: Vec<Option<&'static str>>,
}

impl Holders {
    /// Records that a frame is held.
    #[track_caller]
    pub(crate) fn note(&mut self, frame: FrameId, holder: &'static str) {
        let before = self.of[frame as usize].replace(holder);
        assert_eq!(before, None, "frame {frame} has two holders, the other is {holder}");
    }

    /// Records that a packet's frames are held: the first, and those chained to it.
    pub(crate) fn note_chain(&mut self, frames: &Frames<'_>, first: FrameId, holder: &'static str) -> u32 {
        let (mut at, mut count) = (first, 0);
        loop {
            self.note(at, holder);
            count += 1;
            let meta = &frames.meta[at as usize];
            match meta.next.get() {
                Some(next) if meta.flags & flag::MORE != 0 => at = next,
                _ => return count,
            }
        }
    }
}

/// How many slots are in use that programs and peers can occupy, besides frames (and paths, which
/// stay cached for as long as there is room).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InUse {
    /// TCP connections, with or without a handle.
    pub connections: usize,
    /// Listening sockets.
    pub listeners: usize,
    /// UDP sockets.
    pub datagrams: usize,
    /// Memberships in groups.
    pub memberships: usize,
    /// Datagrams under reassembly.
    pub reassemblies: usize,
    /// Frames that wait for a neighbour.
    pub waiting: usize,
    /// Paths that are guesses.
    pub guesses: usize,
    /// Epoll sets.
    pub sets: usize,
    /// Their items.
    pub items: usize,
}

impl Stack<'_> {
    /// What is in use. All is zero some time after everything was closed.
    #[must_use]
    pub fn in_use(&self) -> InUse {
        let core = &self.mem.core;
        InUse {
            connections: core.free_tcp.used(),
            listeners: core.free_listeners.used(),
            datagrams: core.free_udp.used(),
            memberships: core.free_groups.used(),
            reassemblies: core.free_reassemblies.used(),
            waiting: core.free_waiting.used(),
            guesses: core.guesses as usize,
            sets: core.free_sets.used(),
            items: core.free_items.used(),
        }
    }

    /// Checks the invariants. Every frame has one holder. Every slot of every pool is either free
    /// or has an owner that will free it. Every list ends, and every count is right. Packets find
    /// the right socket, and no other. The sequence numbers of every connection are consistent, and
    /// it has a timer for whatever it waits for.
    ///
    /// # Panics
    /// If an invariant is violated; the message names it.
    pub fn check_invariants(&self) {
        let mut holders = Holders { of: vec![None; self.mem.frames.meta.len()] };
        let (free, frames) = (&self.mem.frames.free, &self.mem.frames);
        let taken = free.taken("frames", frames.meta, |meta| meta.next);
        (0..frames.meta.len() as FrameId).filter(|&id| !taken.has(id)).for_each(|id| holders.note(id, FREE));
        let mut found = Found::default();
        self.check_connections(&mut holders, &mut found);
        self.check_datagrams(&mut holders, &mut found);
        self.check_tables(&found);
        self.check_paths();
        self.check_sets();
        self.check_reassemblies(&mut holders);
        if let Some(first) = self.mem.core.partial_head.get() {
            let count = holders.note_chain(&self.mem.frames, first, "a packet that is coming in");
            assert!(count <= self.mem.core.partial_len);
        }
        self.check_rings(&holders);
    }

    /// Frames without a holder are being transmitted, and are freed afterwards; the rings hold as
    /// many frames as their counters say.
    fn check_rings(&self, holders: &Holders) {
        let core = &self.mem.core;
        let (mut filled, mut queued) = (0, 0);
        for (id, (meta, holder)) in self.mem.frames.meta.iter().zip(&holders.of).enumerate() {
            match holder {
                Some(FREE) => continue,
                Some(holder) => {
                    let stray = meta.flags & (flag::FILLED | flag::FREE_ON_COMPLETE);
                    assert_eq!(stray, 0, "frame {id} of {holder} has another holder, too: {:#x}", meta.flags);
                }
                None if meta.flags & flag::FILLED != 0 => filled += 1,
                None => {
                    let leaves = meta.flags & (flag::QUEUED | flag::IN_KERNEL) != 0;
                    assert!(
                        leaves && meta.flags & flag::FREE_ON_COMPLETE != 0,
                        "frame {id} is lost: {:#x}",
                        meta.flags
                    );
                }
            }
            queued += u32::from(meta.flags & flag::QUEUED != 0);
        }
        assert_eq!(filled, core.filled, "frames in the fill ring");
        let waiting: u32 = self.mem.paths.iter().map(|path| path.waiting).sum();
        assert_eq!(queued, core.queues.len() + waiting, "frames queued to be sent");
    }
}
