//! `select` and `WSAPoll`: some of the sockets may be the lane's, some the kernel's.

use super::call;
use super::kernel_waiting::{poll_list, poll_sets};
use super::select_sets::{MOST, Set, ask_kernel, until};
use crate::hook::boundary::WinsockError;
use crate::hook::winsock;
use crate::lane::{Access, lane};
use crate::notice::Condition;
use crate::socket::Socket;
use crate::socket::readiness::{KernelPart, wait_until_ready};
use crate::socket::table;
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickwire_stack::SocketId;
use windows_sys::Win32::Networking::WinSock::{FD_SET, SOCKET, SOCKET_ERROR, TIMEVAL, WSAPOLLFD};

/// The sockets of these handles that are on the lane, by their places.
fn on_lane(handles: &[SOCKET]) -> Vec<OnLane> {
    let known = |(place, handle): (usize, &SOCKET)| {
        let socket = table::get(*handle)?;
        let id = socket.on_lane()?;
        Some(OnLane { place, id, socket })
    };
    handles.iter().enumerate().filter_map(known).collect()
}

/// A socket that is on the lane.
struct OnLane {
    /// Its place in the program's list.
    place: usize,
    id: SocketId,
    socket: Arc<Socket>,
}

impl OnLane {
    /// It, if the kernel has a half.
    fn kernel_half(&self) -> Option<Arc<Socket>> {
        self.socket.has_kernel_half().then(|| Arc::clone(&self.socket))
    }

    /// What is the case at it now.
    fn condition(&self, access: &mut Access<'_>) -> Condition {
        self.socket.condition(access, self.id)
    }
}

/// What is the case at these sockets now.
fn conditions<'s>(sockets: impl IntoIterator<Item = &'s OnLane>) -> Vec<Condition> {
    let sockets = sockets.into_iter();
    match lane() {
        Ok(lane) if !lane.is_lost() => lane.enter(|access| sockets.map(|own| own.condition(access)).collect()),
        _ => sockets.map(|own| own.socket.condition_if_lost(own.id)).collect(),
    }
}

pub(super) unsafe extern "system" fn select(
    ignored: i32,
    read: *mut FD_SET,
    write: *mut FD_SET,
    except: *mut FD_SET,
    timeout: *const TIMEVAL,
) -> i32 {
    let left = Cell::new(None);
    let original = || {
        let left = left.get();
        let timeout = left.as_ref().map_or(timeout, |left| &raw const *left);
        // SAFETY: the caller's arguments, or what polling has left of its time.
        unsafe { winsock::SELECT.get()(ignored, read, write, except, timeout) }
    };
    // SAFETY: the caller's arguments.
    call(SOCKET_ERROR, || unsafe { select_ours([read, write, except], timeout, &left) }, original)
}

/// # Safety
/// As the documentation of `select` has it.
unsafe fn select_ours(
    [read, write, except]: [*mut FD_SET; 3],
    timeout: *const TIMEVAL,
    left: &Cell<Option<TIMEVAL>>,
) -> Result<Option<i32>, WinsockError> {
    // SAFETY: as the caller promises.
    let sets = unsafe {
        [
            Set::read(read, Condition::SELECT_READ)?,
            Set::read(write, Condition::SELECT_WRITE)?,
            Set::read(except, Condition::SELECT_EXCEPT)?,
        ]
    };
    let ours: Vec<Vec<OnLane>> = sets.iter().map(|set| on_lane(&set.sockets)).collect();
    if ours.iter().all(Vec::is_empty) {
        // SAFETY: as the caller promises.
        return unsafe { poll_sets(&sets, timeout.as_ref(), left) };
    }
    // SAFETY: as the caller promises.
    let until = unsafe { timeout.as_ref() }.map(until).transpose()?;
    let is_ours =
        |set: usize, place: usize| ours[set].iter().any(|own| own.place == place && !own.socket.has_kernel_half());
    let of_kernel: Vec<Vec<SOCKET>> = sets
        .iter()
        .enumerate()
        .map(|(number, set)| {
            let others = set.sockets.iter().enumerate().filter(|(place, _)| !is_ours(number, *place));
            others.map(|(_, socket)| *socket).collect()
        })
        .collect();
    let halves: Vec<Arc<Socket>> = ours.iter().flatten().filter_map(OnLane::kernel_half).collect();
    let has_others = of_kernel.iter().flatten().any(|socket| halves.iter().all(|half| half.handle != *socket));
    let kernel = KernelPart::new(halves, has_others);
    let is_ready = |access: &mut Access<'_>| {
        let mut all = sets.iter().zip(&ours).flat_map(|(set, ours)| ours.iter().map(|own| (own, set.wanted)));
        all.any(|(own, wanted)| own.condition(access).has(wanted))
    };
    let mut kernel_ready: [Vec<SOCKET>; 3] = Default::default();
    let mut kernel_error = None;
    let mut ask_kernel = || match ask_kernel(&of_kernel) {
        Ok(ready) => {
            kernel_ready = ready;
            kernel_ready.iter().any(|sockets| !sockets.is_empty())
        }
        Err(error) => {
            kernel_error = Some(error);
            true
        }
    };
    wait_until_ready(is_ready, (kernel.as_ref(), &mut ask_kernel), until);
    if let Some(error) = kernel_error {
        return Err(error);
    }
    let found: Vec<Vec<Condition>> = ours.iter().map(conditions).collect();
    if found.iter().flatten().any(|condition| condition.has(Condition::CLOSED)) {
        return Err(WinsockError::NOT_A_SOCKET);
    }
    let mut count = 0;
    for (((set, ours), found), mut ready) in sets.iter().zip(&ours).zip(found).zip(kernel_ready) {
        for (own, found) in ours.iter().zip(found) {
            let socket = set.sockets[own.place];
            if found.has(set.wanted) && !ready.contains(&socket) {
                ready.push(socket);
            }
        }
        count += ready.len();
        // SAFETY: as the caller promises.
        unsafe { set.write(&ready) };
    }
    Ok(Some(count as i32))
}

pub(super) unsafe extern "system" fn wsa_poll(sockets: *mut WSAPOLLFD, count: u32, timeout_ms: i32) -> i32 {
    let left_ms = Cell::new(timeout_ms);
    // SAFETY: the caller's arguments, and what polling has left of the time.
    call(
        SOCKET_ERROR,
        || unsafe { poll_ours(sockets, count, &left_ms) },
        || unsafe { winsock::WSA_POLL.get()(sockets, count, left_ms.get()) },
    )
}

/// # Safety
/// As the documentation of `WSAPoll` has it.
unsafe fn poll_ours(sockets: *mut WSAPOLLFD, count: u32, left_ms: &Cell<i32>) -> Result<Option<i32>, WinsockError> {
    let count = count as usize;
    if sockets.is_null() || count > MOST {
        return Ok(None);
    }
    // SAFETY: as the caller promises.
    let list = unsafe { std::slice::from_raw_parts_mut(sockets, count) };
    let handles: Vec<SOCKET> = list.iter().map(|entry| entry.fd).collect();
    let ours = on_lane(&handles);
    let time_ms = u64::try_from(left_ms.get()).ok();
    let until = time_ms.map(|time_ms| Instant::now() + Duration::from_millis(time_ms));
    if ours.is_empty() {
        return poll_list(list, until, left_ms);
    }
    let events: Vec<i16> = ours.iter().map(|own| list[own.place].events).collect();
    let is_ready = |access: &mut Access<'_>| {
        let mut all = ours.iter().zip(&events);
        all.any(|(own, events)| own.condition(access).polled(*events) != 0)
    };
    // Those of which the kernel has a part, or all; and where they are in the program's list.
    let is_only_ours = |place: usize| ours.iter().any(|own| own.place == place && !own.socket.has_kernel_half());
    // Entries below zero are left out by the program.
    let is_left_out = |place: &usize| handles[*place].cast_signed() < 0;
    let places: Vec<usize> = (0..count).filter(|place| !is_only_ours(*place) && !is_left_out(place)).collect();
    // Those that the kernel is not asked for are not ready.
    let mut others: Vec<WSAPOLLFD> = places.iter().map(|place| WSAPOLLFD { revents: 0, ..list[*place] }).collect();
    let mut failure = None;
    let mut ask_kernel = || {
        // SAFETY: a list of this function's own.
        let ready = unsafe { winsock::WSA_POLL.get()(others.as_mut_ptr(), others.len() as u32, 0) };
        // It fails where no entry is a socket, and says so of each.
        failure = (ready == SOCKET_ERROR).then(crate::real::last).filter(|error| *error != WinsockError::NOT_A_SOCKET);
        ready != 0
    };
    let halves: Vec<Arc<Socket>> = ours.iter().filter_map(OnLane::kernel_half).collect();
    let has_others = places.iter().any(|place| halves.iter().all(|half| half.handle != handles[*place]));
    let kernel = KernelPart::new(halves, has_others);
    wait_until_ready(is_ready, (kernel.as_ref(), &mut ask_kernel), until);
    if let Some(error) = failure {
        return Err(error);
    }
    let kernels: Vec<i16> = others.iter().map(|other| other.revents).collect();
    list.iter_mut().for_each(|entry| entry.revents = 0);
    places.iter().zip(kernels).for_each(|(place, revents)| list[*place].revents = revents);
    for (own, found) in ours.iter().zip(conditions(&ours)) {
        let entry = &mut list[own.place];
        entry.revents |= found.polled(entry.events);
    }
    Ok(Some(list.iter().filter(|entry| entry.revents != 0).count() as i32))
}
