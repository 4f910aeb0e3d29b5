//! Programs that the C library starts by itself (`posix_spawn`): the library does not see that
//! fork. So the new program's share of the sockets is reserved before, and the new program attaches
//! to the lane as it starts.

use crate::base::locked::{Lock, Locked};
use crate::lane;
use crate::process::exec;
use crate::process::fork_inheritance::{Birth, ELSEWHERE, ForkShare, leave_to_kernel, say_elsewhere};
use crate::sys;
use crate::sys::errno::Errno;
use crate::table::fd::{Entry, TABLE};
use core::ffi::c_int;
use std::collections::HashMap;

/// Descriptors that a list of file actions gives to the new program by `dup2`, by the address of
/// the list: they are inherited, close-on-exec or not. The C library does not expose the lists'
/// content.
static GIVEN: Lock<Option<HashMap<usize, Vec<c_int>>>> = Lock::new(None);

/// The table, locked; also held across fork.
pub(crate) fn given() -> Locked<'static, Option<HashMap<usize, Vec<c_int>>>> {
    GIVEN.lock()
}

/// A list of file actions was made or destroyed: it passes no descriptor on.
pub(crate) fn gives_nothing(list: usize) {
    if let Some(all) = given().as_mut() {
        all.remove(&list);
    }
}

/// A list of file actions passes a descriptor on.
pub(crate) fn gives(list: usize, fd: c_int) {
    given().get_or_insert_default().entry(list).or_default().push(fd);
}

/// Reserves the new program's share, if it inherits a socket of ours. Also returns what to add to
/// its environment.
pub(crate) fn before(list: usize) -> Option<(ForkShare, String)> {
    let lane = lane::current()?;
    let named = given().as_ref().and_then(|all| all.get(&list).cloned()).unwrap_or_default();
    let is_given = |fd: c_int| named.contains(&fd) || exec::outlives(fd);
    if sys::children_are_elsewhere() {
        leave_to_kernel(lane, is_given);
    }
    let inherited: Vec<u32> = TABLE
        .each()
        .filter_map(|(fd, entry)| match entry {
            Entry::Udp(index) | Entry::Tcp(index) if is_given(fd) => Some(index),
            _ => None,
        })
        .collect();
    if inherited.is_empty() {
        return None;
    }
    let taken = ForkShare::take(lane, Birth::Spawn, |access, program| {
        let mut descriptions = access.descriptions();
        inherited.iter().for_each(|&index| *descriptions.get(index).holders() |= program);
    });
    match taken {
        Ok(share) => Some((share, exec::to_a_new_process(lane, share.slot()))),
        Err(ELSEWHERE) => {
            say_elsewhere();
            None
        }
        Err(Errno(libc::ENOBUFS)) => {
            sys::say("too many processes share one lane; the sockets that the new program inherits will not work");
            None
        }
        // The lane has ended meanwhile.
        Err(_) => None,
    }
}
