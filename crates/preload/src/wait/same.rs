//! Whether a call that released the lane's lock still has the socket with which it began.

use crate::lane::Access;
use crate::sys;
use crate::sys::errno::{ANEW, DEMOTED, Errno, Result};
use crate::table::fd::{Entry, TABLE};
use crate::table::moved;
use core::ffi::c_int;

/// The socket that a call works on while it releases the lock, to wait or to ask the service.
/// Meanwhile another thread may give it to the kernel, or close it, and its description may be
/// reused. The inode of the kernel socket tells them apart.
#[derive(Clone, Copy)]
pub(crate) struct Same {
    pub(crate) fd: c_int,
    pub(crate) index: u32,
    pub(crate) inode: u64,
}

impl Same {
    /// The socket of this description, called `fd` in this process.
    ///
    /// # Errors
    /// [`ANEW`] if the descriptor refers to something else now; `EBADF` if it is closed, or about
    /// to be. (While it is being closed the kernel socket still exists, without a connection: a
    /// call on that would raise SIGPIPE.)
    pub(crate) fn of(access: &mut Access<'_>, fd: c_int, index: u32) -> Result<Self> {
        match TABLE.get(fd) {
            entry if entry.description() == Some(index) => {
                Ok(Self { fd, index, inode: *access.descriptions().get(index).inode() })
            }
            Entry::CLOSING => Err(Errno(libc::EBADF)),
            Entry::Foreign if !is_file(fd) => Err(Errno(libc::EBADF)),
            _ => Err(ANEW),
        }
    }

    /// Whether the description is still that of this socket.
    ///
    /// # Errors
    /// As [`Self::gone`] if it is not.
    pub(crate) fn check(&self, access: &mut Access<'_>) -> Result<()> {
        if *access.descriptions().get(self.index).inode() == self.inode { Ok(()) } else { Err(self.gone()) }
    }

    /// What has become of a socket whose description was reused: [`DEMOTED`] if it is a kernel
    /// socket now, `EBADF` if it was closed. (On Linux the call would continue on a socket that
    /// only the call itself still references.)
    #[cold]
    pub(crate) fn gone(&self) -> Errno {
        // A descriptor that is being closed belongs to no one but the kernel.
        let closed = matches!(TABLE.get(self.fd), Entry::Foreign | Entry::CLOSING);
        let inode = sys::socket_inode(self.fd).unwrap_or(0);
        let kernels = !closed && (inode == self.inode || moved::has_moved(self.inode, inode));
        if kernels { DEMOTED } else { Errno(libc::EBADF) }
    }
}

/// Whether a descriptor that is not ours is open, and is no socket that the kernel is about to
/// close for us: that one would be of an Internet family.
#[cold]
fn is_file(fd: c_int) -> bool {
    match sys::option(fd, libc::SOL_SOCKET, libc::SO_DOMAIN) {
        Ok(domain) => domain != libc::AF_INET && domain != libc::AF_INET6,
        Err(error) => error != Errno(libc::EBADF),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::fd::TABLE;
    use crate::testing;
    use crate::wait::{self, AGAIN, NO_FD, OWN};
    use tickwire_stack::time::Span;

    /// The result of a call on `fd` during whose wait `happens` runs, and how often it checked the
    /// socket that it assumes to be its own.
    fn while_it_waits(fd: c_int, happens: impl Fn(&mut Access<'_>, u32)) -> (Result<()>, u32) {
        let index = TABLE.get(fd).description().unwrap();
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
                    happens(access, index);
                }
                Err(AGAIN)
            },
        );
        (said, looks)
    }

    /// Its description now belongs to another socket.
    fn is_anothers(access: &mut Access<'_>, index: u32) -> Result<()> {
        *access.descriptions().get(index).inode() ^= 1;
        Ok(())
    }

    /// Otherwise it would receive another socket's data.
    #[test]
    fn a_call_whose_socket_is_closed_does_not_go_on_with_the_next_in_its_place() {
        for kind in [libc::SOCK_STREAM, libc::SOCK_DGRAM] {
            for closed in [true, false] {
                let fd = testing::socket(kind);
                let entry = TABLE.get(fd);
                let said = while_it_waits(fd, |access, index| {
                    is_anothers(access, index).unwrap();
                    if closed {
                        // The kernel socket is closed only after the description is free.
                        TABLE.set(fd, Entry::Foreign);
                    }
                });
                let told = if closed { Errno(libc::EBADF) } else { DEMOTED };
                assert_eq!(said, (Err(told), 2));
                testing::lane().with(|access| is_anothers(access, entry.description().unwrap())).unwrap();
                TABLE.set(fd, entry);
                testing::close(fd);
            }
        }
    }

    /// A descriptor that another thread has closed, or made refer to another socket, before the
    /// call checks it: its replacement is not touched.
    #[test]
    fn a_call_that_comes_too_late_begins_anew_or_ends() {
        let [before, after] = [(); 2].map(|()| testing::socket(libc::SOCK_DGRAM));
        let index = TABLE.get(before).description().unwrap();
        for (now, told) in [(Entry::Foreign, Errno(libc::EBADF)), (TABLE.get(after), ANEW), (Entry::Unlisted(0), ANEW)]
        {
            let entry = TABLE.set(before, now);
            let said = testing::lane().with(|access| Same::of(access, before, index).map(drop));
            assert_eq!(said, Err(told));
            TABLE.set(before, entry);
        }
        // The new file under its number is no socket of ours, as when a Java program closes a
        // socket. The number itself is never closed meanwhile.
        let bell = sys::eventfd().unwrap();
        // SAFETY: plain numbers.
        assert_eq!(unsafe { crate::exports::descriptor::dup2(bell, before) }, before);
        assert_eq!(testing::lane().with(|access| Same::of(access, before, index).map(drop)), Err(ANEW));
        sys::close(bell);
        [before, after].into_iter().for_each(testing::close);
    }
}
