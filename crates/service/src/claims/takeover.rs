//! A lane's connection that the kernel is to continue, because the program passes it to another
//! process.
//!
//! The kernel sends from a socket that is made of what the program says about the connection. So
//! that must be no more than what the lane may send itself: from an address and port of its claim,
//! to a host that is reached by an accelerated interface. The program gets the socket only after
//! repair mode has ended: in repair mode it could give the socket any address.

use super::{Claims, HeldClaim};
use crate::answer::reason_of;
use crate::clients::Foreign;
use crate::lanes::Lanes;
use crate::ledger::Ledger;
use crate::paths::Paths;
use nix::fcntl::{FcntlArg, SealFlag, fcntl};
use nix::unistd::{Uid, fchown};
use std::fs::File;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};
use tickwire_host::Query;
use tickwire_lane::control::{ClaimKind, Reason};
use tickwire_lane_linux::sys_repair::Repair;
use tickwire_registry::{ClaimId, LaneId, TableChange};
use tickwire_stack::frame::FRAME_SIZE;
use tickwire_stack::path::PathState;
use tickwire_stack::tcp::Leaving;
use tickwire_steer::tables::{FlowKey, Protocol};

/// For so long after the kernel did not take the end of a connection nothing of that user's is
/// tried that needs one: the service's loop waits for it.
const END_AGAIN: Duration = Duration::from_secs(30);

/// The bytes of a connection.
struct Bytes {
    unread: Vec<u8>,
    in_flight: Vec<u8>,
    unsent: Vec<u8>,
}

/// A connection that leaves its lane, as the program describes it.
#[derive(Clone, Copy)]
pub(crate) struct Departure<'a> {
    pub(crate) lane: LaneId,
    /// The claim under which it is.
    pub(crate) claim: ClaimId,
    /// Whether the socket is to be one of IPv6.
    pub(crate) v6: bool,
    pub(crate) state: &'a Leaving,
}

impl Departure<'_> {
    fn flow(&self) -> FlowKey {
        FlowKey { protocol: Protocol::Tcp, local: self.state.local, remote: self.state.remote }
    }

    /// Whether a FIN has been received, or ours has been acknowledged.
    fn is_ended(&self) -> bool {
        self.state.fin_received || self.state.fin_acknowledged
    }

    /// The reason for the program when this fails, which is logged.
    fn failed(&self, what: &'static str) -> impl FnOnce(io::Error) -> Reason {
        let &Self { lane, claim, .. } = self;
        move |error: io::Error| {
            tracing::warn!(lane, claim, %error, "the kernel cannot go on with a connection: {what}");
            Reason::ServiceError
        }
    }
}

impl Claims {
    /// Answers [`tickwire_lane::control::Request::TakeOver`]: the kernel's socket; `None` if the
    /// connection is over now.
    pub(crate) fn take_over(
        &mut self,
        leaving: Departure<'_>,
        bytes: Foreign,
        lanes: &Lanes,
        paths: &mut Paths,
        ledger: &mut Ledger,
    ) -> Result<Option<OwnedFd>, Reason> {
        let Departure { lane, claim, state, .. } = leaving;
        self.check_leaving(&leaving, lanes, paths, ledger)?;
        let of_lane = lanes.get(lane).ok_or(Reason::LaneGone)?;
        let (user, most) = (of_lane.user, of_lane.limits.frames as usize * FRAME_SIZE);
        let (repair, unsent) = self.repair(&leaving, bytes, (user, most))?;
        self.let_go(lane, claim, leaving.flow(), ledger)?;
        // From here on the connection is the kernel's, whatever happens.
        match repair.finish(&unsent) {
            Ok((socket, written)) => {
                if let Err(error) = written {
                    tracing::warn!(lane, claim, %error, "the kernel has no room for what a connection has to send: it is reset");
                }
                tracing::debug!(lane, claim, local = %state.local, remote = %state.remote, "the kernel goes on");
                Ok(Some(socket))
            }
            Err(error) => {
                tracing::warn!(lane, claim, %error, "the kernel does not go on with a connection: it is over");
                Ok(None)
            }
        }
    }

    /// Makes the kernel's socket of a connection that has at most `most` bytes, in repair mode.
    /// Returns also what it has not sent yet.
    fn repair(
        &mut self,
        leaving: &Departure<'_>,
        bytes: Foreign,
        (user, most): (u32, usize),
    ) -> Result<(Repair, Vec<u8>), Reason> {
        let &Departure { v6, state, .. } = leaving;
        // The kernel gives the socket this much room, whatever its own limits are.
        if u64::from(state.unread) + u64::from(state.receive_window) > most as u64 {
            return Err(Reason::BadRequest);
        }
        let failed_lately = |at: &Instant| at.elapsed() < END_AGAIN;
        if leaving.is_ended() && self.ends_failed.get(&user).is_some_and(failed_lately) {
            return Err(Reason::ServiceError);
        }
        let known = *state;
        let bytes = bytes
            .queue()
            .ask(move || bytes.get().ok_or(io::ErrorKind::NotFound.into()).and_then(|fd| read(fd, &known, most)))
            .ok_or(Reason::ServiceError)?
            .map_err(leaving.failed("its bytes"))?;
        let repair = Repair::new(state, v6, &bytes.unread, &bytes.in_flight).map_err(leaving.failed("a socket"))?;
        repair
            .shut(state)
            .inspect_err(|_| {
                self.ends_failed.retain(|_, at| failed_lately(at));
                self.ends_failed.insert(user, Instant::now());
            })
            .map_err(leaving.failed("its end"))?;
        // For the kernel's rules on shared ports, and for `ss`. Without the right to change its
        // owner it stays the service's.
        let _ = fchown(&repair, Some(Uid::from_raw(user)), None);
        Ok((repair, bytes.unsent))
    }

    /// Whether the lane may give a connection away.
    fn check_leaving(
        &mut self,
        leaving: &Departure<'_>,
        lanes: &Lanes,
        paths: &mut Paths,
        ledger: &mut Ledger,
    ) -> Result<(), Reason> {
        let &Departure { lane, claim, v6, state } = leaving;
        let &Leaving { local, remote, interface, tos, .. } = state;
        let held = self.held.get(&claim).filter(|held| held.lane == lane).ok_or(Reason::BadRequest)?;
        let (user, bound) = (held.user, held.bound);
        let its = match held.kind {
            ClaimKind::Flow => bound.local == local && held.remote == remote,
            ClaimKind::Ephemeral => bound.local == local,
            ClaimKind::Bound => bound.covers(local),
        };
        let same_family = local.address.family() == remote.address.family();
        let fits = same_family && (v6 || local.address.to_v4().is_some()) && remote.port != 0;
        if bound.protocol != Protocol::Tcp || !its || !fits || !paths.nics.has_address(local.address) {
            return Err(Reason::BadRequest);
        }
        // An acknowledged FIN is the end of all that was sent.
        if state.fin_acknowledged && (state.in_flight, state.unsent) != (0, 0) {
            return Err(Reason::BadRequest);
        }
        // The peer's end is injected by the loopback, which is not a link-local peer's interface.
        if leaving.is_ended() && interface != 0 {
            return Err(Reason::BoundDevice);
        }
        if interface != 0 && !paths.nics.contains(interface) {
            return Err(Reason::BadRequest);
        }
        let flow = leaving.flow();
        self.forget_given(&flow, ledger);
        let is_anothers = self.registry.knows_flow(&flow) && !self.registry.holds_flow(lane, &flow);
        if is_anothers || self.others_have(lane, local, remote, lanes) {
            return Err(Reason::PortTaken);
        }
        if ledger.usage.room_for_flows(user) == 0 {
            return Err(Reason::UserFlowLimit);
        }
        let query = Query::to(remote.address).from(local.address).by(interface).of_service(tos);
        match paths.resolve(&query).map(|answer| (answer.path.state, answer.why)) {
            Ok((PathState::Ready | PathState::Resolving, None)) => Ok(()),
            Ok((_, why)) => Err(why.map_or(Reason::NoRoute, |why| reason_of(Some(why)))),
            Err(_) => Err(Reason::ServiceError),
        }
    }

    /// Packets of a lane's connection go to the kernel from now on. On an error nothing has
    /// changed.
    fn let_go(&mut self, lane: LaneId, claim: ClaimId, flow: FlowKey, ledger: &mut Ledger) -> Result<(), Reason> {
        let Some(held) = self.held.get(&claim) else { return Err(Reason::BadRequest) };
        let whole = match held.kind {
            ClaimKind::Flow | ClaimKind::Ephemeral => true,
            ClaimKind::Bound => held.closed.as_ref().is_some_and(|closed| closed.has_only(flow.remote)),
        };
        let mut changes = if whole {
            self.registry.release(lane, claim).unwrap_or_default()
        } else {
            self.registry.unpin(lane, claim, &flow)
        };
        let its_own = changes.len();
        // Other claims may listen at the port, or this one does: to each of them it is a connection
        // of the kernel's.
        let covers = |(&other, held): (&ClaimId, &HeldClaim)| {
            let listens = held.has_tcp_port() && held.bound.covers(flow.local) && !(whole && other == claim);
            listens.then_some((held.lane, other))
        };
        let listening: Vec<(LaneId, ClaimId)> = self.held.iter().filter_map(covers).collect();
        for &(lane, other) in &listening {
            changes.extend(self.registry.except(lane, other, &[(flow.local, flow.remote)]).unwrap_or_default());
        }
        let done = ledger.programs.apply(merged(changes.clone(), &flow));
        if let Err(error) = &done {
            tracing::warn!(lane, claim, %error, "a connection cannot be left to the kernel");
            if whole {
                // It is over here in any case: a claim that is gone from the registry cannot be
                // entered as it was.
                ledger.programs.apply_best(changes);
            } else {
                listening.iter().for_each(|&(lane, other)| self.registry.take_exception_back(lane, other, &flow));
                if its_own > 0 {
                    // The maps still have it.
                    let _ = self.registry.pin(lane, claim, &[flow]);
                }
            }
        } else if let Some(held) = self.held.get_mut(&claim) {
            held.pinned.retain(|pinned| *pinned != flow);
            let _ = held.closed.as_mut().map(|closed| closed.ends(flow.remote));
        }
        for (_, other) in listening {
            let _ = self.charge(other, &mut ledger.usage);
        }
        if whole {
            self.forget(vec![claim], &ledger.usage);
            return Ok(());
        }
        done.map_err(|_| Reason::FlowLimit)
    }
}

/// Merges the changes of one flow into one step: in between, packets would go to the port's
/// listener.
fn merged(changes: Vec<TableChange>, flow: &FlowKey) -> Vec<TableChange> {
    let mut first = None;
    let mut last = None;
    let mut others = Vec::with_capacity(changes.len() + 1);
    for change in changes {
        match change {
            TableChange::Flow { key, before, after } if key == *flow => {
                first = first.or(Some(before));
                last = Some(after);
            }
            other => others.push(other),
        }
    }
    if let (Some(before), Some(after)) = (first, last)
        && before != after
    {
        others.insert(0, TableChange::Flow { key: *flow, before, after });
    }
    others
}

/// The bytes of a connection, from a sealed memfd of the program's. Reading any other file may
/// block.
fn read(file: BorrowedFd<'_>, state: &Leaving, most: usize) -> io::Result<Bytes> {
    let seals = fcntl(file, FcntlArg::F_GET_SEALS)?;
    if !SealFlag::from_bits_retain(seals).contains(SealFlag::F_SEAL_SHRINK) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no sealed memory file"));
    }
    let sizes = [state.unread, state.in_flight, state.unsent].map(|size| size as usize);
    if sizes.iter().try_fold(0, |sum: usize, &size| sum.checked_add(size)).is_none_or(|sum| sum > most) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "more than a lane can hold"));
    }
    let file = File::from(file.try_clone_to_owned()?);
    let mut at = 0;
    let [unread, in_flight, unsent] = sizes.map(|size| {
        let mut bytes = vec![0; size];
        let done = file.read_exact_at(&mut bytes, at).map(|()| bytes);
        at += size as u64;
        done
    });
    Ok(Bytes { unread: unread?, in_flight: in_flight?, unsent: unsent? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::fd::AsFd;
    use tickwire_registry::FlowOwner;
    use tickwire_stack::addr::{Address, Endpoint};

    fn end(last: u8) -> Endpoint {
        Endpoint::new(Address::v4([10, 0, 0, last]), 80)
    }

    fn state(unread: u32, in_flight: u32, unsent: u32) -> Leaving {
        Leaving {
            local: end(1),
            remote: end(2),
            interface: 0,
            tos: 0,
            send_una: 0,
            in_flight,
            unsent,
            receive_next: 0,
            unread,
            send_window: 0,
            largest_window: 0,
            window_seq: 0,
            receive_window: 0,
            peer_mss: 1460,
            shifts: None,
            sack: false,
            timestamp: None,
            echo: 0,
            fin_received: false,
            fin_acknowledged: false,
        }
    }

    #[test]
    fn a_flow_changes_hands_in_one_step() {
        let flow = FlowKey { protocol: Protocol::Tcp, local: end(1), remote: end(2) };
        let other = FlowKey { remote: end(3), ..flow };
        let change = |key, before, after| TableChange::Flow { key, before, after };
        let (ours, kernels) = (Some(FlowOwner::Lane(1)), Some(FlowOwner::Kernel));
        let changes = vec![change(flow, ours, None), change(other, ours, None), change(flow, None, kernels)];
        assert_eq!(merged(changes, &flow), [change(flow, ours, kernels), change(other, ours, None)]);
        assert_eq!(merged(vec![change(flow, ours, None), change(flow, None, ours)], &flow), []);
    }

    #[test]
    fn only_a_memory_file_with_all_the_bytes_is_read() {
        use nix::sys::memfd::{MFdFlags, memfd_create};
        let made = memfd_create(c"bytes", MFdFlags::MFD_ALLOW_SEALING).unwrap();
        let mut file = File::from(made.try_clone().unwrap());
        file.write_all(b"abcdef").unwrap();
        assert!(read(made.as_fd(), &state(1, 2, 3), 100).is_err(), "it may shrink");
        fcntl(&made, FcntlArg::F_ADD_SEALS(SealFlag::F_SEAL_SHRINK)).unwrap();
        let bytes = read(made.as_fd(), &state(1, 2, 3), 100).unwrap();
        assert_eq!((&bytes.unread[..], &bytes.in_flight[..], &bytes.unsent[..]), (&b"a"[..], &b"bc"[..], &b"def"[..]));
        assert!(read(made.as_fd(), &state(1, 2, 4), 100).is_err(), "it is too short");
        assert!(read(made.as_fd(), &state(1, 2, 3), 5).is_err(), "more than a lane can hold");
        assert!(read(made.as_fd(), &state(u32::MAX, u32::MAX, u32::MAX), 1 << 24).is_err());
        let null = File::open("/dev/zero").unwrap();
        assert!(read(null.as_fd(), &state(1, 2, 3), 100).is_err(), "no memory file");
    }
}
