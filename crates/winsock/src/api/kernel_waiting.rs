//! `select` and `WSAPoll` where the kernel has all of the sockets: they are polled before the
//! program's own call sleeps.

use super::select_sets::{Set, ask_kernel, until};
use crate::hook::boundary::WinsockError;
use crate::hook::winsock;
use crate::real;
use crate::socket::kernel_polling::Polling;
use crate::socket::{Socket, table};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;
use windows_sys::Win32::Networking::WinSock::{
    POLLRDBAND, POLLRDNORM, POLLWRNORM, SOCKET, SOCKET_ERROR, TIMEVAL, WSAPOLLFD,
};

/// The sockets of the kernel, known here, that a call waits for to receive from.
struct KernelWait(Vec<Arc<Socket>>);

impl KernelWait {
    /// `None`: the call is not to poll: it does not wait, or waits for none of them.
    fn new(sockets: impl IntoIterator<Item = SOCKET>, waits: bool) -> Option<Self> {
        if !waits {
            return None;
        }
        let known = sockets.into_iter().filter_map(table::get).filter(|socket| socket.is_kernels());
        let known: Vec<_> = known.collect();
        (!known.is_empty()).then_some(Self(known))
    }

    /// Polls by `look`, which asks the kernel for all sockets of the call. Returns whether there is
    /// something; `None`: there was no polling.
    fn poll(&self, until: Option<Instant>, look: impl FnMut() -> bool) -> Option<bool> {
        let has_found = Polling::begin()?.poll(until, look);
        if !has_found {
            self.0.iter().for_each(|socket| socket.note_poll(false));
        }
        Some(has_found)
    }

    /// Polling has found these.
    fn note_found(&self, is_ready: impl Fn(SOCKET) -> bool) {
        self.0.iter().filter(|socket| is_ready(socket.handle)).for_each(|socket| socket.note_poll(true));
    }
}

/// Polls sets of which the kernel has all sockets. `left`: what the original is to wait.
///
/// # Safety
/// As [`Set::read`].
pub(super) unsafe fn poll_sets(
    sets: &[Set; 3],
    timeout: Option<&TIMEVAL>,
    left: &Cell<Option<TIMEVAL>>,
) -> Result<Option<i32>, WinsockError> {
    // The original says what is wrong about a time.
    let Ok(until) = timeout.map(until).transpose() else { return Ok(None) };
    let waits = timeout.is_none_or(|time| time.tv_sec > 0 || time.tv_usec > 0);
    let Some(wait) = KernelWait::new(sets[0].sockets.iter().copied(), waits) else { return Ok(None) };
    let all: Vec<Vec<SOCKET>> = sets.iter().map(|set| set.sockets.clone()).collect();
    let mut found = Ok(<[Vec<SOCKET>; 3]>::default());
    let polled = wait.poll(until, || {
        found = ask_kernel(&all);
        found.as_ref().map_or(true, |ready| ready.iter().any(|sockets| !sockets.is_empty()))
    });
    if polled != Some(true) {
        left.set(until.filter(|_| polled.is_some()).map(time_left));
        return Ok(None);
    }
    let ready = found?;
    wait.note_found(|socket| ready[0].contains(&socket));
    // SAFETY: as the caller promises.
    sets.iter().zip(&ready).for_each(|(set, ready)| unsafe { set.write(ready) });
    Ok(Some(ready.iter().map(Vec::len).sum::<usize>() as i32))
}

/// The time until then.
fn time_left(until: Instant) -> TIMEVAL {
    let left = until.saturating_duration_since(Instant::now());
    let tv_sec = i32::try_from(left.as_secs()).unwrap_or(i32::MAX);
    TIMEVAL { tv_sec, tv_usec: left.subsec_micros().cast_signed() }
}

/// Polls a list of which the kernel has all sockets. `left_ms`: what the original is to wait.
pub(super) fn poll_list(
    list: &mut [WSAPOLLFD],
    until: Option<Instant>,
    left_ms: &Cell<i32>,
) -> Result<Option<i32>, WinsockError> {
    let receives = list.iter().filter(|entry| entry.events & (POLLRDNORM | POLLRDBAND) != 0).map(|entry| entry.fd);
    let Some(wait) = KernelWait::new(receives, left_ms.get() != 0) else { return Ok(None) };
    let mut looked = list.to_vec();
    let mut ready = 0;
    let polled = wait.poll(until, || {
        // SAFETY: a list of this function's own.
        ready = unsafe { winsock::WSA_POLL.get()(looked.as_mut_ptr(), looked.len() as u32, 0) };
        ready != 0
    });
    if polled != Some(true) {
        if let (Some(until), Some(false)) = (until, polled) {
            // The rest of a millisecond counts as one.
            let left = until.saturating_duration_since(Instant::now()).as_micros().div_ceil(1000);
            left_ms.set(i32::try_from(left).unwrap_or(i32::MAX));
        }
        return Ok(None);
    }
    if ready == SOCKET_ERROR {
        return Err(real::last());
    }
    list.copy_from_slice(&looked);
    wait.note_found(|socket| looked.iter().any(|entry| entry.fd == socket && entry.revents & !POLLWRNORM != 0));
    Ok(Some(ready))
}
