//! The sets of `select`, as programs have them, and asking the kernel for them.

use crate::hook::boundary::WinsockError;
use crate::hook::winsock;
use crate::notice::Condition;
use std::ptr::{addr_of_mut, null_mut};
use std::time::{Duration, Instant};
use windows_sys::Win32::Networking::WinSock::{FD_SET, SOCKET, SOCKET_ERROR, TIMEVAL};

/// The most sockets in a set or list: more than any program has.
pub(super) const MOST: usize = 1 << 16;

/// A set of sockets, as a program has it.
pub(super) struct Set {
    at: *mut FD_SET,
    pub(super) sockets: Vec<SOCKET>,
    pub(super) wanted: Condition,
}

impl Set {
    /// # Safety
    /// `at` is null, or a set of as many sockets as it says.
    pub(super) unsafe fn read(at: *mut FD_SET, wanted: Condition) -> Result<Self, WinsockError> {
        if at.is_null() {
            return Ok(Self { at, sockets: Vec::new(), wanted });
        }
        // SAFETY: as the caller promises; the array is as long as the program has made it.
        let sockets = unsafe {
            let count = (*at).fd_count as usize;
            if count > MOST {
                return Err(WinsockError::INVALID);
            }
            std::slice::from_raw_parts(addr_of_mut!((*at).fd_array).cast::<SOCKET>(), count).to_vec()
        };
        Ok(Self { at, sockets, wanted })
    }

    /// Leaves these sockets in the set. They are some of those that were in it.
    ///
    /// # Safety
    /// As [`Set::read`].
    pub(super) unsafe fn write(&self, ready: &[SOCKET]) {
        if self.at.is_null() {
            return;
        }
        // SAFETY: as the caller promises: there is room for as many as there were.
        unsafe {
            (*self.at).fd_count = ready.len() as u32;
            let array = addr_of_mut!((*self.at).fd_array).cast::<SOCKET>();
            std::ptr::copy_nonoverlapping(ready.as_ptr(), array, ready.len());
        }
    }
}

/// A set for the kernel: as `FD_SET`, but as long as it must be.
struct KernelSet(Vec<usize>);

impl KernelSet {
    fn new(sockets: &[SOCKET]) -> Self {
        // The count is 32 bits at the beginning of a structure that is aligned as a socket is.
        Self(std::iter::once(sockets.len()).chain(sockets.iter().copied()).collect())
    }

    fn pointer(&mut self) -> *mut FD_SET {
        if self.0.len() == 1 { null_mut() } else { self.0.as_mut_ptr().cast() }
    }

    fn ready(&self) -> &[SOCKET] {
        let count = self.0[0] & u32::MAX as usize;
        self.0.get(1..1 + count).unwrap_or_default()
    }
}

/// The time at which a wait ends.
pub(super) fn until(time: &TIMEVAL) -> Result<Instant, WinsockError> {
    match (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec)) {
        (Ok(seconds), Ok(micros)) => Ok(Instant::now() + Duration::from_secs(seconds) + Duration::from_micros(micros)),
        _ => Err(WinsockError::INVALID),
    }
}

/// Which of the kernel's sockets are ready now.
pub(super) fn ask_kernel(sets: &[Vec<SOCKET>]) -> Result<[Vec<SOCKET>; 3], WinsockError> {
    let mut asked = [0, 1, 2].map(|number| KernelSet::new(&sets[number]));
    let [read, write, except] = &mut asked;
    let now = TIMEVAL { tv_sec: 0, tv_usec: 0 };
    // SAFETY: sets of this function's own, or none.
    let count = unsafe { winsock::SELECT.get()(0, read.pointer(), write.pointer(), except.pointer(), &raw const now) };
    match count {
        SOCKET_ERROR => Err(crate::real::last()),
        0 => Ok(Default::default()),
        _ => Ok(asked.map(|set| set.ready().to_vec())),
    }
}
