//! Connections that the program has closed and the stack has not finished with (FIN-WAIT,
//! TIME-WAIT). Their flows stay claimed until it has, so that the last acknowledgements reach the
//! stack and the port stays taken.

use crate::base::locked::{Lock, Locked};
use crate::lane::{Access, Lane};
use crate::sys::errno::Result;
use crate::table::desc::UnfinishedClose;
use tickwire_lane::control::{Claim, ClaimPart, Parts, Request};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::table;

/// A closed connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClosedConnection {
    /// Its row among those of TCP.
    pub(crate) index: u32,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) claim: u64,
    /// The claim is a listener's.
    pub(crate) shared: bool,
    /// That listener has closed: the claim covers single flows now.
    pub(crate) converted: bool,
    /// The claim is that of a port that the lane held.
    pub(crate) ephemeral: bool,
}

/// A closed connection with its lane: to the service of the next lane its claim would be another's.
#[derive(Clone, Copy)]
pub(crate) struct UnreleasedClaim {
    lane: &'static Lane,
    closed: ClosedConnection,
}

impl UnreleasedClaim {
    fn is_of(&self, lane: &Lane) -> bool {
        core::ptr::eq(self.lane, lane)
    }
}

static CLOSED: Lock<Vec<UnreleasedClaim>> = Lock::new(Vec::new());

/// The list, locked; also held across fork.
pub(crate) fn list() -> Locked<'static, Vec<UnreleasedClaim>> {
    CLOSED.lock()
}

/// Makes room for all connections that a lane can have: one may be closed in a signal handler that
/// has interrupted the allocator.
pub(crate) fn make_room(connections: u32) {
    let mut list = list();
    let missing = (connections as usize).saturating_sub(list.len());
    list.reserve(missing);
}

/// Records a closed connection, if its claim is to be released some day.
pub(crate) fn add(lane: &'static Lane, closed: ClosedConnection) {
    if is_first(&mut list(), UnreleasedClaim { lane, closed }) {
        crate::base::wakeup_fd::ring();
    }
}

/// Enters one; returns whether the helper has to be woken. While there is any, the helper checks
/// again by itself: a wakeup for each closed connection would cost more than the close.
fn is_first(list: &mut Vec<UnreleasedClaim>, kept: UnreleasedClaim) -> bool {
    list.push(kept);
    list.len() == 1
}

/// A listener's claim covers single flows from now on: those of closed connections are marked, as
/// many as `remotes` has room for. Returns how many.
pub(crate) fn convert(lane: &Lane, claim: u64, remotes: &mut [Endpoint]) -> usize {
    // An ended connection needs no flow, and would keep the port until the next sweep.
    let _ = lane.with(|access| {
        list().retain(|kept| {
            let ClosedConnection { shared, converted, .. } = kept.closed;
            let of_listener = kept.is_of(lane) && kept.closed.claim == claim && shared && !converted;
            !of_listener || lives(access, &kept.closed)
        });
        Ok(())
    });
    let mut list = list();
    let of_lane = list.iter_mut().filter(|kept| kept.is_of(lane)).map(|kept| &mut kept.closed);
    let found = of_lane.filter(|closed| closed.claim == claim && !closed.converted);
    let named = found.zip(remotes).map(|(closed, remote)| {
        closed.converted = true;
        *remote = closed.remote;
    });
    named.count()
}

/// A claim was lost: the ports of connections that were closed under it are not the program's any
/// more, and the next connection may get one of them.
pub(crate) fn forget(lane: &'static Lane, claim: u64) {
    let _ = lane.with_quietly(|access| {
        list().retain(|kept| {
            let lost = kept.is_of(lane) && kept.closed.claim == claim;
            if lost {
                access.stack.tcp_forget(kept.closed.local, kept.closed.remote);
            }
            !lost
        });
        Ok(())
    });
}

/// Whether any connection is left.
pub(crate) fn is_empty() -> bool {
    list().is_empty()
}

/// Forgets everything (in a forked child: the parent releases the claims, or the remaining
/// processes when the parent ends).
pub(crate) fn clear() {
    list().clear();
}

/// As [`clear`], in a child. The list may have been locked when the child was forked, and then
/// stays so: returns false.
pub(crate) fn abandon() -> bool {
    CLOSED.try_lock().map(|mut list| list.clear()).is_some()
}

/// Whether the stack still has the connection.
pub(crate) fn lives(access: &Access<'_>, closed: &ClosedConnection) -> bool {
    access.tcp_row(closed.index).is_some_and(|row| {
        row.kind.get() == table::kind::TCP && row.local.get() == closed.local && row.remote.get() == closed.remote
    })
}

/// Whether data or FIN of a connection is still unacknowledged: the program may not end yet.
pub(crate) fn unfinished(access: &Access<'_>) -> bool {
    list().iter().any(|kept| is_unfinished(access, &kept.closed))
}

fn is_unfinished(access: &Access<'_>, closed: &ClosedConnection) -> bool {
    // SYN-RECEIVED, where the FIN waits for the connection, FIN-WAIT-1, CLOSING, LAST-ACK, and
    // anything with bytes in the queue, as Linux numbers states.
    let unfinished = |row: &table::SocketRow| row.tx_queue.get() > 0 || matches!(row.state.get(), 3 | 4 | 9 | 11);
    lives(access, closed) && access.tcp_row(closed.index).is_some_and(unfinished)
}

/// The connections of a lane that are [`unfinished`].
pub(crate) fn unfinished_of(lane: &'static Lane) -> Vec<ClosedConnection> {
    let found = lane.with_quietly(|access| {
        let list = list();
        let of_lane = list.iter().filter(|kept| kept.is_of(lane)).map(|kept| kept.closed);
        Ok(of_lane.filter(|closed| is_unfinished(access, closed)).collect())
    });
    found.unwrap_or_default()
}

/// The kernel has a connection now, and its claim is gone.
pub(crate) fn is_the_kernels(lane: &Lane, closed: &ClosedConnection) {
    let is_it = |other: &ClosedConnection| {
        (other.local, other.remote, other.claim) == (closed.local, closed.remote, closed.claim)
    };
    list().retain(|kept| !(kept.is_of(lane) && is_it(&kept.closed)));
}

/// Whether a connection has ended and the lane holds its port again.
fn is_put_back(access: &mut Access<'_>, closed: &ClosedConnection) -> bool {
    closed.ephemeral && !lives(access, closed) && access.put_port_back(closed.claim, closed.local)
}

/// Returns ports of ended connections to those that the lane holds.
pub(crate) fn put_ports_back(lane: &Lane, access: &mut Access<'_>) {
    list().retain(|kept| !kept.is_of(lane) || !is_put_back(access, &kept.closed));
}

/// Releases the claims of a lane's ended connections, or leaves it to the next call. The claims of
/// a lane that is over ended with it.
pub(crate) fn sweep(lane: &'static Lane) {
    release_ended(lane);
}

/// Returns whether all releases were sent to the service.
fn release_ended(lane: &'static Lane) -> bool {
    loop {
        let Ok((over, count)) = take_ended(lane) else {
            if lane.is_over() {
                list().retain(|kept| !kept.is_of(lane));
            }
            return false;
        };
        let over = &over[..count];
        let mut parts = [ClaimPart::default(); Parts::MAX];
        parts.iter_mut().zip(over).for_each(|(part, closed)| {
            let remote = if closed.shared { closed.remote } else { Endpoint::default() };
            *part = ClaimPart { claim: Claim(closed.claim), remote };
        });
        if lane.release_parts(&parts[..count]) < count {
            list().extend(over.iter().map(|&closed| UnreleasedClaim { lane, closed }));
            return false;
        }
        if count < Parts::MAX {
            return true;
        }
    }
}

/// Removes ended connections from the list, as many as fit into one message to the service. (A list
/// of all would have to be allocated.)
fn take_ended(lane: &'static Lane) -> Result<([ClosedConnection; Parts::MAX], usize)> {
    let mut over = [ClosedConnection::default(); Parts::MAX];
    let mut count = 0;
    lane.with_quietly(|access| {
        list().retain(|kept| {
            if !kept.is_of(lane) {
                return !kept.lane.is_over();
            }
            let closed = kept.closed;
            if count == over.len() || lives(access, &closed) {
                return true;
            }
            // The listener lives and keeps its claim.
            let is_listeners = closed.shared && !closed.converted;
            if !is_listeners && !is_put_back(access, &closed) {
                over[count] = closed;
                count += 1;
            }
            false
        });
        Ok(())
    })?;
    Ok((over, count))
}

/// As [`sweep`]; when it returns true, the ports of ended connections are free. False if the
/// service could not be asked.
pub(crate) fn free_ports(lane: &'static Lane) -> bool {
    // The releases of connections that the helper has taken off the list have been sent.
    let _still = crate::base::helper_work::asleep();
    // The service handles requests in order. The first attempt may have failed because another
    // thread was using the session.
    let answered = || lane.ask(&Request::Release { parts: Parts::new(&[]) }, None, |_| Ok(())).is_ok();
    (0..2).any(|_| {
        let told = release_ended(lane);
        answered() && told
    })
}

/// At the end of this process: unfinished connections are left to the other processes of the lane.
pub(crate) fn leave(lane: &'static Lane) {
    sweep(lane);
    let _ = lane.with(|access| {
        list().retain(|kept| {
            let ClosedConnection { index, claim, shared, converted, ephemeral, .. } = kept.closed;
            if kept.is_of(lane) {
                access.descriptions().leave(UnfinishedClose { row: index, claim, shared, converted, ephemeral });
            }
            !kept.is_of(lane)
        });
        Ok(())
    });
}

/// Takes over what other processes have left.
pub(crate) fn take_over(lane: &'static Lane) {
    let _ = lane.with_quietly(|access| {
        let rows = access.tcp_rows();
        access.descriptions().take_over(|UnfinishedClose { row, claim, shared, converted, ephemeral }| {
            if let Some(named) = rows.get(row as usize) {
                let (local, remote) = (named.local.get(), named.remote.get());
                let closed = ClosedConnection { index: row, local, remote, claim, shared, converted, ephemeral };
                list().push(UnreleasedClaim { lane, closed });
            }
        });
        Ok(())
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use std::time::Duration;
    use tickwire_lane::control::Reply;
    use tickwire_lane_linux::control::Channel;

    /// The claims that `work` releases, as the service's end of the connection receives them,
    /// message by message.
    fn released(service: &Channel, work: impl FnOnce() + Send) -> Vec<Vec<u64>> {
        std::thread::scope(|scope| {
            let working = scope.spawn(work);
            let mut released = Vec::new();
            loop {
                let over = working.is_finished();
                match service.receive(Duration::from_millis(20)) {
                    Ok(asked) => {
                        let (number, request) = asked.decode::<Request>().unwrap();
                        let Request::Release { parts } = request else { panic!("{request:?}") };
                        released.push(parts.as_slice().iter().map(|part| part.claim.0).collect());
                        service.send(&Reply::Done, number, &[]).unwrap();
                    }
                    Err(_) if over => return released,
                    Err(_) => {}
                }
            }
        })
    }

    /// The row of a connection that the stack has, and its ends.
    fn living(lane: &'static Lane, index: u32) -> (&'static table::SocketRow, [Endpoint; 2]) {
        let ends = [1, 2].map(|port| Endpoint::new(testing::THERE, port));
        let row = lane.with(|access| Ok(access.tcp_row(index).unwrap())).unwrap();
        row.kind.set(table::kind::TCP);
        row.local.set(ends[0]);
        row.remote.set(ends[1]);
        (row, ends)
    }

    #[test]
    fn what_was_closed_on_one_lane_is_not_released_on_the_next() {
        let ((before, _service), (next, service)) = (testing::another(), testing::another());
        // Both services count from 1: to the second one, claim 1 is that of a live connection.
        let (local, remote) = (Endpoint::default(), Endpoint::default());
        let closed = |claim| ClosedConnection {
            index: 0,
            local,
            remote,
            claim,
            shared: false,
            converted: false,
            ephemeral: false,
        };
        add(before, closed(1));
        add(next, closed(2));
        assert_eq!(released(&service, || sweep(next)), [[2]]);
        add(next, closed(1));
        assert_eq!(convert(next, 1, &mut [Endpoint::default(); 2]), 1);
        list().retain(|kept| !kept.is_of(before) && !kept.is_of(next));
    }

    /// There is a FIN to be sent, and perhaps data, as soon as the peer has answered.
    #[test]
    fn the_program_does_not_end_before_a_connection_that_was_closed_before_it_was_open() {
        let (lane, _service) = testing::another();
        let (row, ends) = living(lane, 5);
        add(
            lane,
            ClosedConnection {
                index: 5,
                local: ends[0],
                remote: ends[1],
                claim: 7,
                shared: false,
                converted: false,
                ephemeral: false,
            },
        );
        let waits = |state| {
            row.state.set(state);
            lane.with(|access| Ok(unfinished(access))) == Ok(true)
        };
        // SYN-RECEIVED, FIN-WAIT-1, CLOSING, LAST-ACK; FIN-WAIT-2, TIME-WAIT.
        assert_eq!([3, 4, 11, 9, 5, 6].map(waits), [true, true, true, true, false, false]);
        list().retain(|kept| !kept.is_of(lane));
    }

    #[test]
    fn what_a_process_leaves_at_its_end_another_releases_when_it_is_over() {
        let (lane, service) = testing::another();
        let (row, ends) = living(lane, 3);
        let closed = ClosedConnection {
            index: 3,
            local: ends[0],
            remote: ends[1],
            claim: 9,
            shared: false,
            converted: false,
            ephemeral: false,
        };
        let kept = || list().iter().filter(|kept| kept.is_of(lane)).map(|kept| kept.closed.claim).collect::<Vec<_>>();
        add(lane, closed);
        add(lane, ClosedConnection { index: 4, claim: 8, ..closed });
        assert_eq!(released(&service, || leave(lane)), [[8]], "this one is over");
        assert!(kept().is_empty());
        take_over(lane);
        assert_eq!(kept(), [9]);
        assert!(released(&service, || sweep(lane)).is_empty());
        row.kind.set(table::kind::FREE);
        assert_eq!(released(&service, || sweep(lane)), [[9]]);
    }

    #[test]
    fn what_cannot_be_released_while_another_asks_is_released_later() {
        let (lane, service) = testing::another();
        let (local, remote) = (Endpoint::default(), Endpoint::default());
        add(
            lane,
            ClosedConnection { index: 0, local, remote, claim: 1, shared: false, converted: false, ephemeral: false },
        );
        std::thread::scope(|scope| {
            let asking = scope.spawn(|| lane.ask(&Request::ListLanes { after: 0 }, None, |_| Ok(())).is_ok());
            let (number, _) = service.receive(Duration::from_secs(5)).unwrap().decode::<Request>().unwrap();
            sweep(lane);
            service.send(&Reply::Done, number, &[]).unwrap();
            assert!(asking.join().unwrap());
        });
        assert_eq!(released(&service, || sweep(lane)), [[1]]);
        assert!(!list().iter().any(|kept| kept.is_of(lane)));
    }

    #[test]
    fn the_port_of_a_connection_that_has_ended_stays_with_the_lane() {
        let (lane, service) = testing::another();
        let (row, ends) = living(lane, 3);
        let [local, remote] = ends;
        let closed =
            ClosedConnection { index: 3, local, remote, claim: 9, shared: false, converted: false, ephemeral: true };
        add(lane, closed);
        add(lane, ClosedConnection { index: 4, claim: 8, ephemeral: false, ..closed });
        let rest = || lane.with(|access| Ok(access.ports().any_rests())) == Ok(true);
        assert_eq!((released(&service, || sweep(lane)), rest()), (vec![vec![8]], false), "it lives");
        row.kind.set(table::kind::FREE);
        assert_eq!((released(&service, || sweep(lane)), rest()), (vec![], true));
        assert!(!list().iter().any(|kept| kept.is_of(lane)));
    }

    #[test]
    fn the_helper_is_woken_for_the_first_and_comes_by_itself_for_the_others() {
        let (lane, _service) = testing::another();
        let (local, remote) = (Endpoint::default(), Endpoint::default());
        let closed =
            ClosedConnection { index: 0, local, remote, claim: 1, shared: false, converted: false, ephemeral: false };
        let mut list = Vec::new();
        assert!(is_first(&mut list, UnreleasedClaim { lane, closed }));
        assert!(!is_first(&mut list, UnreleasedClaim { lane, closed }));
        list.clear();
        assert!(is_first(&mut list, UnreleasedClaim { lane, closed }));
    }

    #[test]
    fn many_that_have_ended_are_released_by_few_messages() {
        let (lane, service) = testing::another();
        let (local, remote) = (Endpoint::default(), Endpoint::default());
        for claim in 1..=70 {
            // Connections of a live listener keep its claim.
            add(
                lane,
                ClosedConnection {
                    index: 0,
                    local,
                    remote,
                    claim,
                    shared: claim > 68,
                    converted: false,
                    ephemeral: false,
                },
            );
        }
        let messages = released(&service, || sweep(lane));
        assert_eq!(messages.iter().map(Vec::len).collect::<Vec<_>>(), [8, 8, 8, 8, 8, 8, 8, 8, 4]);
        assert_eq!(messages.concat(), (1..=68).collect::<Vec<_>>());
    }
}
