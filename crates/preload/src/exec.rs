//! Sockets that outlive exec: the old program leaves the lane's descriptors open and says in the environment which they are; the
//! new one maps the region again and finds its sockets by their inodes.

use crate::c::sys;
use crate::desc::flag;
use crate::fd::{Entry, TABLE, Table};
use crate::lane::{self, Handover, Lane};
use crate::session::Session;
use crate::{open, start};
use core::ffi::{CStr, c_int};
use std::collections::HashMap;
use tickwire_link::control::{Channel, Token};
use tickwire_link::region::Region;
use tickwire_stack::Limits;

/// The variable that the new program reads.
const VARIABLE: &CStr = c"TICKWIRE_LANE";

/// What the variable says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Inheritance {
    number: u32,
    token: [u8; 16],
    slot: usize,
    /// Control connection, rings, doorbell, region.
    descriptors: [c_int; 4],
    limits: [u32; 12],
}

fn limits_to_list(l: &Limits) -> [u32; 12] {
    [
        l.frames,
        l.tcp,
        l.listeners,
        l.udp,
        l.kernel_rows,
        l.paths,
        l.waiting,
        l.reassemblies,
        l.groups,
        l.watch_items,
        l.watch_sets,
        l.user_words,
    ]
}

fn limits_from_list(list: [u32; 12]) -> Limits {
    let [
        frames,
        tcp,
        listeners,
        udp,
        kernel_rows,
        paths,
        waiting,
        reassemblies,
        groups,
        watch_items,
        watch_sets,
        user_words,
    ] = list;
    Limits {
        frames,
        tcp,
        listeners,
        udp,
        kernel_rows,
        paths,
        waiting,
        reassemblies,
        groups,
        watch_items,
        watch_sets,
        user_words,
    }
}

impl Inheritance {
    fn to_text(&self) -> String {
        let token: String = self.token.iter().map(|byte| format!("{byte:02x}")).collect();
        let join = |numbers: Vec<String>| numbers.join(",");
        format!(
            "{}:{token}:{}:{}:{}",
            self.number,
            self.slot,
            join(self.descriptors.iter().map(ToString::to_string).collect()),
            join(self.limits.iter().map(ToString::to_string).collect()),
        )
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
        let mut descriptors = [0; 4];
        fill(&mut descriptors, parts.next()?)?;
        let mut limits = [0; 12];
        fill(&mut limits, parts.next()?)?;
        parts.next().is_none().then_some(Self { number, token, slot, descriptors, limits })
    }
}

/// Fills a list with exactly as many numbers as a text has.
fn fill<T: std::str::FromStr>(list: &mut [T], text: &str) -> Option<()> {
    let mut numbers = text.split(',');
    for place in list.iter_mut() {
        *place = numbers.next()?.parse().ok()?;
    }
    numbers.next().is_none().then_some(())
}

/// Before an exec: what to add to the new program's environment, if it inherits a socket of ours. The lane's descriptors stay open then.
pub(crate) fn before() -> Option<String> {
    let lane = lane::current()?;
    let inherits = TABLE.each().any(|(fd, entry)| {
        matches!(entry, Entry::Udp(_) | Entry::Tcp(_))
            && sys::fcntl(fd, libc::F_GETFD, 0).is_ok_and(|flags| flags & libc::FD_CLOEXEC == 0)
    });
    if !inherits {
        return None;
    }
    let descriptors = descriptors_of(lane);
    set_close_on_exec(&descriptors, false);
    let Handover { number, token, limits, .. } = lane.handover();
    let inheritance =
        Inheritance { number: *number, token: token.0, slot: lane.slot(), descriptors, limits: limits_to_list(limits) };
    Some(format!("{}={}", VARIABLE.to_string_lossy(), inheritance.to_text()))
}

/// Right before an exec, which kills the other threads of this process: none of them is inside the lane then.
pub(crate) fn now() {
    if let Some(lane) = lane::current() {
        lane.retire();
    }
}

/// After an exec that failed.
pub(crate) fn failed() {
    if let Some(lane) = lane::current() {
        lane.resume();
        set_close_on_exec(&descriptors_of(lane), true);
    }
}

fn descriptors_of(lane: &'static Lane) -> [c_int; 4] {
    let (ring, doorbell) = lane.descriptors();
    [lane.control_descriptor(), ring, doorbell, lane.handover().region]
}

fn set_close_on_exec(descriptors: &[c_int], on: bool) {
    for &fd in descriptors {
        let _ = sys::fcntl(fd, libc::F_SETFD, if on { libc::FD_CLOEXEC } else { 0 });
    }
}

/// In a new program, before it runs: takes over the lane that it was left, if it was.
pub(crate) fn inherit() {
    let Some(text) = sys::take_variable(VARIABLE) else { return };
    let taken = Inheritance::from_text(&text).and_then(|inheritance| adopt(&inheritance));
    if taken.is_none() {
        sys::say("the sockets of the program before this one cannot be taken over; they are reset");
    }
}

fn adopt(inheritance: &Inheritance) -> Option<()> {
    let limits = limits_from_list(inheritance.limits);
    let [control, ring, doorbell, region] = inheritance.descriptors;
    if inheritance.descriptors.iter().any(|&fd| !Table::fits(fd) || sys::fcntl(fd, libc::F_GETFD, 0).is_err()) {
        return None;
    }
    set_close_on_exec(&inheritance.descriptors, true);
    let mapped = Region::map(crate::c::shared::borrow(region), inheritance.number, &limits).ok()?;
    inheritance.descriptors.iter().for_each(|&fd| {
        TABLE.set(fd, Entry::Lane);
    });
    let session = Session::new(Channel::from(crate::c::shared::own(control)));
    let handover = Handover { number: inheritance.number, token: Token(inheritance.token), limits, region };
    let lane = start::assemble(session, handover, mapped, ring, doorbell, Some(inheritance.slot)).ok()?;
    let lane = lane::install(lane);
    find_sockets(lane);
    crate::helper::start();
    Some(())
}

/// Finds which descriptors of this program are sockets of the lane, and lets go of those that exec has closed.
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
    for entry in std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten() {
        let fd = entry.file_name().to_str().and_then(|name| name.parse::<c_int>().ok());
        if let Some(fd) = fd.filter(|&fd| Table::fits(fd))
            && let Some(inode) = sys::socket_inode(fd)
            && let Some(&(index, flags)) = held.get(&inode)
        {
            open::enter(fd, if flags & flag::UDP != 0 { Entry::Udp(index) } else { Entry::Tcp(index) });
            found.push(inode);
        }
    }
    for (inode, (index, _)) in held {
        if !found.contains(&inode) {
            open::drop_reference(lane, index);
        }
    }
    // Epoll instances are not taken over: what the new program makes of an inherited one it must build anew.
    sets.into_iter().for_each(|index| open::drop_reference(lane, index));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_to_the_next_program_is_read_back_and_nonsense_is_not() {
        let inheritance = Inheritance {
            number: 7,
            token: [0xab; 16],
            slot: 3,
            descriptors: [900, 901, 902, 903],
            limits: limits_to_list(&Limits::DEFAULT),
        };
        let text = inheritance.to_text();
        assert_eq!(Inheritance::from_text(&text), Some(inheritance.clone()));
        assert_eq!(limits_from_list(inheritance.limits), Limits::DEFAULT);
        for bad in ["", "7", "7:zz:3:1,2,3,4:5", &text[1..20], &format!("{text}:9"), &text.replace("903", "903,904")] {
            assert_eq!(Inheritance::from_text(bad), None, "{bad}");
        }
    }
}
