//! Whether a call that let go of the lane's lock still has the socket with which it began.

use crate::base::errno::{DEMOTED, Errno, Result};
use crate::c::sys;
use crate::lane::Access;
use core::ffi::c_int;

/// The socket that a call works on while it lets go of the lock, to wait or to ask the service: meanwhile another thread may give it to the kernel, or close it, and its
/// description be another's. The inode of the kernel socket tells them apart.
#[derive(Clone, Copy)]
pub(crate) struct Same {
    pub(crate) fd: c_int,
    pub(crate) index: u32,
    inode: u64,
}

impl Same {
    /// The socket of this description now, called `fd` in this process.
    pub(crate) fn of(access: &mut Access<'_>, fd: c_int, index: u32) -> Self {
        Self { fd, index, inode: *access.descriptions().get(index).inode() }
    }

    /// Whether the description is still that of this socket.
    ///
    /// # Errors
    /// As [`Self::gone`] if it is not.
    pub(crate) fn check(&self, access: &mut Access<'_>) -> Result<()> {
        if *access.descriptions().get(self.index).inode() == self.inode { Ok(()) } else { Err(self.gone()) }
    }

    /// What has become of a socket whose description is another's: [`DEMOTED`] if it is the kernel's by now, `EBADF` if it was closed. (On Linux the call would go on
    /// with a socket that nobody else has.)
    #[cold]
    pub(crate) fn gone(&self) -> Errno {
        let kernels = sys::socket_inode(self.fd).unwrap_or(0) == self.inode;
        if kernels { DEMOTED } else { Errno(libc::EBADF) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::fd::TABLE;
    use crate::testing;
    use crate::wait::{self, AGAIN, NO_FD, OWN};
    use tickwire_stack::time::Span;

    /// What a call on `fd` says whose description is another's after it has begun to wait, and how often it looked at what it thinks its own.
    fn whose_place_is_anothers(fd: c_int, index: u32) -> (Result<()>, u32) {
        let mut looks = 0;
        let said = wait::transfer(
            testing::lane(),
            (fd, index),
            0,
            |_| Some(Span::from_millis(20)),
            &mut [NO_FD; OWN],
            |access, _| {
                looks += 1;
                if looks == 2 {
                    *access.descriptions().get(index).inode() ^= 1;
                }
                Err(AGAIN)
            },
        );
        (said, looks)
    }

    /// It would get what came for another.
    #[test]
    fn a_call_whose_socket_is_closed_does_not_go_on_with_the_next_in_its_place() {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            let fd = testing::socket(kind);
            let index = TABLE.get(fd).description().unwrap();
            assert_eq!(whose_place_is_anothers(-1, index), (Err(Errno(libc::EBADF)), 2));
            testing::close(fd);
            let fd = testing::socket(kind);
            let index = TABLE.get(fd).description().unwrap();
            assert_eq!(whose_place_is_anothers(fd, index), (Err(DEMOTED), 2), "the kernel socket is still there");
            testing::close(fd);
        }
    }
}
