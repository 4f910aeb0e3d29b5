//! What must hold of sockets for datagrams: see [`Stack::audit`].

use crate::Stack;
use crate::audit::{Holders, walk};
use crate::ids::SocketKind;
use crate::pool::Link;

impl Stack<'_> {
    pub(crate) fn audit_datagrams(&self, holders: &mut Holders) {
        let frames = &self.mem.frames;
        for (index, socket) in self.mem.udp.iter().enumerate() {
            if !self.is_open(SocketKind::Udp, index as u32) {
                continue;
            }
            let mut last = Link::NONE;
            let count = walk(socket.head, frames.meta.len(), |id| {
                holders.note_chain(frames, id, "a queue of datagrams");
                last = Link::to(id);
                frames.meta[id as usize].prev
            });
            assert_eq!((count, last), (socket.count as usize, socket.tail), "datagrams of {index}");
        }
    }
}
