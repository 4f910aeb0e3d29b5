//! Detects that something happened to the sockets of a polling thread.

use crate::lane::{Access, Lane};

/// Detects that something happened to the sockets of a polling thread, which another thread took
/// in.
pub(super) struct SocketChange {
    /// [`Lane::change`] at the thread's last check.
    seen: u32,
    /// The bits of its sockets, once it has checked them, and their number before.
    own: Option<(u64, u32)>,
}

impl SocketChange {
    pub(super) fn new(lane: &Lane) -> Self {
        // The value at the thread's last check, before it began to poll.
        Self { seen: lane.change().1, own: None }
    }

    #[inline]
    pub(super) fn is_there(&mut self, lane: &Lane) -> bool {
        let (now, _) = lane.change();
        if now == self.seen {
            return false;
        }
        let changed = self.own.is_none_or(|(bits, number)| lane.change_of(bits) != number);
        if !changed {
            // To others' sockets.
            self.seen = now;
        }
        changed
    }

    /// The thread checks its sockets, with the lock. What it takes in itself is seen as a change
    /// once more.
    pub(super) fn about_to_look(&mut self, lane: &Lane, access: &mut Access<'_>, on: &[u32]) {
        let bits = self.own.map_or_else(|| access.change_bits(on), |(bits, _)| bits);
        self.own = Some((bits, lane.change_of(bits)));
    }

    /// The check found nothing.
    pub(super) fn looked(&mut self, lane: &Lane) {
        if self.own.is_some_and(|(bits, number)| lane.change_of(bits) == number) {
            self.seen = lane.change().1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::desc::flag;
    use crate::testing;
    use tickwire_stack::StackError;
    use tickwire_stack::udp::UdpOptions;

    #[test]
    fn a_polling_thread_sees_at_once_what_another_took_in_for_it_and_nothing_of_others_sockets() {
        let (lane, _service) = testing::another();
        let [(own, index), (other, _)] = [(); 2].map(|()| {
            let opened = lane.with(|access| {
                let id = access.stack.udp_open(UdpOptions::default())?;
                let index = access.descriptions().take(flag::UDP, 0).unwrap();
                access.descriptions().get(index).set_socket(id.into());
                Ok((id, index))
            });
            opened.unwrap()
        });
        let happens = |id| {
            std::thread::scope(|scope| {
                let work = || lane.with(|access| Ok(access.stack.udp_keep_error(id, StackError::Refused)?)).unwrap();
                scope.spawn(work).join().unwrap();
            });
        };
        let look = |change: &mut SocketChange| {
            let looked = lane.with(|access| {
                change.about_to_look(lane, access, &[index]);
                Ok(())
            });
            looked.unwrap();
            change.looked(lane);
        };
        // Since its first look, with which every call begins.
        lane.with(|_| Ok(())).unwrap();
        happens(own);
        let mut change = SocketChange::new(lane);
        assert!(change.is_there(lane) && change.is_there(lane));
        look(&mut change);
        assert!(!change.is_there(lane));
        happens(other);
        assert!(!change.is_there(lane));
        happens(own);
        assert!(change.is_there(lane));
        look(&mut change);
        assert!(!change.is_there(lane));
        // Between its look and the check after it.
        lane.with(|access| {
            change.about_to_look(lane, access, &[index]);
            Ok(())
        })
        .unwrap();
        happens(own);
        change.looked(lane);
        assert!(change.is_there(lane));
    }
}
