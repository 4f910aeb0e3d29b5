//! Reading by the program.

use super::ReceiveQueue;
use crate::frame::Frames;
use crate::pool::PoolLink;
use crate::time::Instant;

impl ReceiveQueue {
    /// Passes up to `limit` unread bytes to `take`, which returns how many it took. Removes those
    /// unless `peek`. Returns the number of bytes taken, and the arrival time of their last
    /// segment.
    pub(in crate::tcp) fn read(
        &mut self,
        frames: &mut Frames<'_>,
        limit: usize,
        peek: bool,
        mut take: impl FnMut(&[u8]) -> usize,
    ) -> (usize, Instant) {
        let (mut at, mut total, mut came) = (self.head, 0, Instant::NEVER);
        while let Some(id) = at.get() {
            if total == limit {
                break;
            }
            let data = frames.data(id);
            let most = data.len().min(limit - total);
            let taken = take(&data[..most]).min(most);
            total += taken;
            if taken > 0 {
                came = frames.meta[id as usize].at;
            }
            at = frames.meta[id as usize].next;
            if !peek {
                self.consume(frames, taken);
            }
            if taken < most {
                break;
            }
        }
        (total, came)
    }

    /// Drops the first `bytes` of the first frame, which has that many.
    fn consume(&mut self, frames: &mut Frames<'_>, bytes: usize) {
        let Some(id) = self.head.get() else { return };
        let meta = &mut frames.meta[id as usize];
        meta.offset += bytes as u16;
        meta.len -= bytes as u16;
        self.bytes -= bytes as u32;
        if meta.len == 0 {
            self.head = meta.next;
            if self.head.is_none() {
                self.tail = PoolLink::NONE;
            }
            self.frames -= 1;
            frames.give(id);
        }
    }

    /// Drops up to `bytes` unread bytes.
    pub(in crate::tcp) fn skip(&mut self, frames: &mut Frames<'_>, bytes: usize) {
        self.read(frames, bytes, false, <[u8]>::len);
    }
}
