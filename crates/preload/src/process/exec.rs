//! Sockets that outlive exec: the old program leaves the lane's descriptors open and names them in
//! the environment. The new program maps the region again and finds its sockets by their inodes. A
//! program in a new process (`posix_spawn`) gets the lane's descriptors from the service instead.

use crate::base::realtime;
use crate::lane::session::Session;
use crate::lane::start;
use crate::lane::{self, Handover, Lane};
use crate::process::lane_processes;
use crate::socket::close;
use crate::socket::kernel;
use crate::socket::leaving;
use crate::socket::pending;
use crate::sys;
use crate::table::counts;
use crate::table::desc::flag;
use crate::table::fd::{Entry, TABLE, Table};
use core::ffi::{CStr, c_int};
use core::fmt::Write;
use std::collections::HashMap;
use tickwire_lane::control::{Reason, Token};
use tickwire_lane_linux::control::Channel;
use tickwire_lane_linux::region::Region;
use tickwire_stack::Limits;

/// The environment variable that the new program reads.
const VARIABLE: &CStr = c"TICKWIRE_LANE";

/// The variable's content.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inheritance {
    number: u32,
    token: [u8; 16],
    slot: usize,
    /// What was left open; `None` for a process that is to attach by itself.
    left: Option<Left>,
}

/// The lane's descriptors, and what the region holds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Left {
    /// Control connection, receive ring, doorbell, region, TAP device, standby ring.
    descriptors: [c_int; 6],
    limits: [u32; 12],
}

impl Inheritance {
    fn to_text(&self) -> String {
        let token: String = self.token.iter().map(|byte| format!("{byte:02x}")).collect();
        let join = |numbers: Vec<String>| numbers.join(",");
        let mut text = format!("{}:{token}:{}", self.number, self.slot);
        if let Some(left) = &self.left {
            let _ = write!(
                text,
                ":{}:{}",
                join(left.descriptors.iter().map(ToString::to_string).collect()),
                join(left.limits.iter().map(ToString::to_string).collect()),
            );
        }
        text
    }

    fn from_text(text: &str) -> Option<Self> {
        let mut parts = text.split(':');
        let number = parts.next()?.parse().ok()?;
        let hex = parts.next()?;
        let mut token = [0; 16];
        if hex.len() != 32 || !hex.is_ascii() {
            return None;
        }
        for (i, byte) in token.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
        }
        let slot = parts.next()?.parse().ok()?;
        let left = match parts.next() {
            None => None,
            Some(text) => {
                let mut left = Left { descriptors: [0; 6], limits: [0; 12] };
                fill(&mut left.descriptors, text)?;
                fill(&mut left.limits, parts.next()?)?;
                Some(left)
            }
        };
        parts.next().is_none().then_some(Self { number, token, slot, left })
    }

    /// As an entry of the environment.
    fn to_entry(&self) -> String {
        format!("{}={}", VARIABLE.to_string_lossy(), self.to_text())
    }
}

/// Fills a list from a text that must have exactly as many numbers.
fn fill<T: std::str::FromStr>(list: &mut [T], text: &str) -> Option<()> {
    let mut numbers = text.split(',');
    for place in list.iter_mut() {
        *place = numbers.next()?.parse().ok()?;
    }
    numbers.next().is_none().then_some(())
}

/// Before an exec: what to add to the new program's environment, if it inherits a socket of ours.
/// The lane's descriptors stay open then. If it inherits none, this waits until the sent data has
/// arrived, before the lane ends.
pub(crate) fn before() -> Option<String> {
    let lane = lane::current()?;
    if !TABLE.each().any(|(fd, entry)| matches!(entry, Entry::Udp(_) | Entry::Tcp(_)) && outlives(fd)) {
        // The lane ends with this program, and so does everything it has not sent yet.
        crate::socket::flush::before_exec(lane);
        return None;
    }
    let descriptors = descriptors_of(lane);
    set_close_on_exec(&descriptors, false);
    let Handover { number, token, limits, .. } = lane.handover();
    let left = Some(Left { descriptors, limits: limits.to_list() });
    Some(Inheritance { number: *number, token: token.0, slot: lane.slot(), left }.to_entry())
}

/// What to add to the environment of a program in a new process, for which a slot has been
/// reserved.
pub(crate) fn to_a_new_process(lane: &Lane, slot: usize) -> String {
    let (number, token) = lane.identity();
    Inheritance { number, token: token.0, slot, left: None }.to_entry()
}

/// Whether a descriptor stays open through exec.
pub(crate) fn outlives(fd: c_int) -> bool {
    sys::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & libc::FD_CLOEXEC == 0)
}

/// Right before an exec, which kills the other threads of this process: the gate makes sure that
/// none of them is inside the lane. If the new program does not continue with the lane, the
/// connections that end with it are marked for the service.
pub(crate) fn now(continues: bool) -> Option<&'static Lane> {
    let lane = lane::current()?;
    realtime::lay_down();
    // From here on other threads are not inside, so none begins to hand a connection over.
    let moving = leaving::hold();
    lane.gate().close(true);
    drop(moving);
    if continues || lane_processes::has_company(lane) {
        // Left to the new program, which takes them over as it starts, or to this one if the exec
        // fails.
        pending::leave(lane);
    }
    if !continues {
        crate::socket::flush::mark_complete(lane, true);
    }
    lane.retire();
    Some(lane)
}

/// After an exec that failed. The lane may have ended meanwhile.
pub(crate) fn failed(lane: Option<&'static Lane>) {
    if let Some(lane) = lane {
        // First, because the closed gate refuses the thread that has closed it, too.
        lane.gate().open();
        crate::socket::flush::mark_complete(lane, false);
        set_close_on_exec(&descriptors_of(lane), true);
    }
}

fn descriptors_of(lane: &'static Lane) -> [c_int; 6] {
    let (ring, doorbell) = lane.descriptors();
    let Handover { region, tap, standby, .. } = *lane.handover();
    [lane.control_descriptor(), ring, doorbell, region, tap, standby]
}

fn set_close_on_exec(descriptors: &[c_int], on: bool) {
    for &fd in descriptors.iter().filter(|&&fd| fd >= 0) {
        let _ = sys::fcntl(fd, libc::F_SETFD, if on { libc::FD_CLOEXEC } else { 0 });
    }
}

/// In a new program, before it runs: takes over the lane that the old program left, if there is
/// one.
pub(crate) fn inherit() {
    let Some(text) = sys::take_variable(VARIABLE) else { return };
    let taken = Inheritance::from_text(&text).ok_or(Reason::BadRequest).and_then(|inheritance| {
        let lane = match &inheritance.left {
            Some(left) => adopt(&inheritance, left),
            None => attach(&inheritance),
        }?;
        start::inherited();
        let lane = lane::install(lane);
        lane_processes::born(lane, inheritance.slot);
        find_sockets(lane);
        lane_processes::look_for_dead(lane);
        crate::process::helper::start();
        Ok(())
    });
    if let Err(reason) = taken {
        sys::say(&format!("sockets that this program was given cannot be taken over and do not work here: {reason}"));
    }
}

/// Continues with the lane of the program that was this process before.
fn adopt(inheritance: &Inheritance, left: &Left) -> Result<Lane, Reason> {
    let limits = Limits::from_list(left.limits);
    let [control, ring, doorbell, region, tap, standby] = left.descriptors;
    let there = &left.descriptors;
    if there.iter().any(|&fd| !Table::fits(fd) || sys::fcntl(fd, libc::F_GETFD, 0).is_err()) {
        return Err(Reason::BadRequest);
    }
    set_close_on_exec(there, true);
    let mapped = Region::map(sys::borrowed(region), inheritance.number, &limits);
    let mapped = mapped.map_err(|_| Reason::Version)?;
    there.iter().for_each(|&fd| {
        TABLE.set(fd, Entry::Lane);
    });
    let session = Session::inherited(Channel::from(sys::owned(control)));
    let handover =
        Handover { number: inheritance.number, token: Token(inheritance.token), limits, region, tap, standby };
    start::assemble(session, handover, mapped, ring, doorbell, Some(inheritance.slot))
}

/// Attaches to the lane of the program that started this one.
fn attach(inheritance: &Inheritance) -> Result<Lane, Reason> {
    let token = Token(inheritance.token);
    let (session, given) = start::attach_again(inheritance.number, token, true)?;
    let (limits, descriptors) = given.ok_or(Reason::BadRequest)?;
    start::attach(session, inheritance.number, token, &limits, descriptors, Some(inheritance.slot))
}

/// Finds which descriptors of this program are sockets of the lane, and releases those that exec
/// has closed.
fn find_sockets(lane: &'static Lane) {
    let slot = lane.slot();
    let mut held: HashMap<u64, (u32, u64)> = HashMap::new();
    let mut sets = Vec::new();
    let _ = lane.with(|access| {
        let mut descriptions = access.descriptions();
        for index in 0..descriptions.used() {
            let mut description = descriptions.get(index);
            if *description.holders() & 1 << slot == 0 {
                continue;
            }
            if description.has(flag::EPOLL) {
                sets.push(index);
            } else {
                held.insert(*description.inode(), (index, description.flags()));
            }
        }
        Ok(())
    });
    let mut found = Vec::new();
    for fd in sys::open_descriptors().into_iter().flatten() {
        if Table::fits(fd)
            && let Some(inode) = sys::socket_inode(fd)
            && let Some(&(index, flags)) = held.get(&inode)
        {
            counts::enter(fd, if flags & flag::UDP != 0 { Entry::Udp(index) } else { Entry::Tcp(index) });
            found.push(inode);
        }
    }
    for (inode, (index, _)) in held {
        if !found.contains(&inode) {
            close::drop_reference(lane, index);
        }
    }
    kernel::take_stock(lane, true);
    // Epoll instances are not taken over: the new program must set up an inherited one again.
    sets.into_iter().for_each(|index| close::drop_reference(lane, index));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use tickwire_stack::TcpId;

    #[test]
    fn after_an_exec_that_failed_no_connection_is_the_services_to_end_in_order() {
        let lane = testing::lane();
        let fd = testing::connected(7);
        let index = TABLE.get(fd).description().unwrap();
        let row = lane.with(|access| {
            let id = TcpId::try_from(access.descriptions().get(index).socket())?;
            Ok(access.tcp_row(id.index).unwrap())
        });
        let row = row.unwrap();
        let shut = now(false);
        let before = row.complete.get();
        failed(shut);
        assert_eq!(before, 1, "it would be, if the program were gone");
        assert_eq!(row.complete.get(), 0, "the program goes on, and may be killed in the midst of something");
        testing::close(fd);
    }

    #[test]
    fn what_is_left_to_the_next_program_is_read_back_and_nonsense_is_not() {
        let inheritance = Inheritance {
            number: 7,
            token: [0xab; 16],
            slot: 3,
            left: Some(Left { descriptors: [900, 901, 902, 903, 904, 905], limits: Limits::DEFAULT.to_list() }),
        };
        let text = inheritance.to_text();
        assert_eq!(Inheritance::from_text(&text), Some(inheritance.clone()));
        assert_eq!(inheritance.left.as_ref().map(|left| Limits::from_list(left.limits)), Some(Limits::DEFAULT));
        let attaching = Inheritance { left: None, ..inheritance };
        assert_eq!(Inheritance::from_text(&attaching.to_text()), Some(attaching));
        for bad in ["", "7", "7:zz:3:1,2,3,4:5", &text[1..20], &format!("{text}:9"), &text.replace("903", "903,904")] {
            assert_eq!(Inheritance::from_text(bad), None, "{bad}");
        }
    }
}
