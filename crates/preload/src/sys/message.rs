//! Messages through kernel sockets, with addresses and control data.

use super::called;
use crate::sys::errno::Result;
use crate::sys::guarded;
use crate::sys::iov::Buffers;
use crate::sys::name;
use core::ffi::{c_int, c_void};
use core::mem::zeroed;
use libc::{msghdr, sockaddr, socklen_t};
use tickwire_linux_abi::sockaddr::{MAX_NAME, SocketName};

/// What a message call on a kernel socket may fill in or use besides the bytes.
#[derive(Default)]
pub(crate) struct Extras<'a> {
    /// The address: for a send, as the program gave it, unchecked; filled in on receive.
    pub(crate) name: [u8; MAX_NAME],
    /// How many of its bytes count.
    pub(crate) name_len: usize,
    /// Control data.
    pub(crate) control: Option<ControlBuffer<'a>>,
    /// `msg_flags` of a received message.
    pub(crate) flags: c_int,
}

impl Extras<'_> {
    /// Takes the destination address of a send, and returns its parsed form; `None` for a null
    /// pointer.
    ///
    /// # Errors
    /// As [`name::read`].
    ///
    /// # Safety
    /// As [`name::read`].
    pub(crate) unsafe fn name_to_send(
        &mut self,
        address: *const sockaddr,
        len: socklen_t,
    ) -> Result<Option<SocketName>> {
        // SAFETY: by the caller's promise.
        let given = unsafe { name::read(address, len) }?;
        Ok(given.map(|(bytes, n)| {
            (self.name, self.name_len) = (bytes, n);
            SocketName::parse(&bytes[..n])
        }))
    }
}

/// A buffer for control messages, in the program's memory.
pub(crate) struct ControlBuffer<'a> {
    start: *mut u8,
    room: usize,
    len: usize,
    program: core::marker::PhantomData<&'a mut u8>,
}

impl ControlBuffer<'_> {
    /// The buffer. Messages to be sent are checked when they are sent: [`ControlBuffer::is_there`].
    ///
    /// # Safety
    /// `start` is the program's to give.
    pub(crate) unsafe fn new(start: *mut c_void, room: usize) -> Self {
        let room = if start.is_null() { 0 } else { room };
        Self { start: start.cast(), room, len: 0, program: core::marker::PhantomData }
    }

    /// Whether all of it can be read.
    pub(crate) fn is_there(&self) -> bool {
        guarded::can_read(self.start, self.room)
    }

    /// Whether there is a buffer: a send without control messages has none.
    pub(crate) fn has_room(&self) -> bool {
        self.room > 0
    }

    /// Bytes written.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Appends one message, cut to the room as in Linux (`put_cmsg`); `false` if it did not fit
    /// (`MSG_CTRUNC`), or the buffer is not accessible.
    pub(crate) fn push(&mut self, level: c_int, kind: c_int, data: &[u8]) -> bool {
        let left = self.room - self.len;
        // SAFETY: pure arithmetic.
        let [head, whole, padded] = unsafe {
            let len = data.len() as u32;
            [libc::CMSG_LEN(0), libc::CMSG_LEN(len), libc::CMSG_SPACE(len)].map(|size| size as usize)
        };
        if left < head {
            return false;
        }
        let cut = whole.min(left);
        // SAFETY: all parts are zero-valid integers.
        let mut header: libc::cmsghdr = unsafe { zeroed() };
        header.cmsg_len = cut as _;
        header.cmsg_level = level;
        header.cmsg_type = kind;
        let at = self.start.wrapping_add(self.len);
        // SAFETY: `cut` bytes fit after `len`; the buffer need not be aligned for these copies.
        let written = unsafe {
            guarded::store(header, at.cast()).is_ok() && guarded::copy(data.as_ptr(), at.wrapping_add(head), cut - head)
        };
        if !written {
            return false;
        }
        self.len += padded.min(left);
        cut == whole
    }

    /// Whether a message is shorter than its header, or longer than the remaining data: nothing is
    /// sent with such a message (`CMSG_OK`).
    pub(crate) fn is_malformed(&self) -> bool {
        !self.walk(|_, _, _, _| {})
    }

    /// Every message that the program gave: `each(level, type, data)`. Data longer than 64 bytes is
    /// cut.
    pub(crate) fn each(&self, mut each: impl FnMut(c_int, c_int, &[u8])) {
        self.walk(|level, kind, start, len| {
            let mut data = [0u8; 64];
            let n = len.min(data.len());
            // SAFETY: there is room for as many bytes.
            if unsafe { guarded::copy(start, data.as_mut_ptr(), n) } {
                each(level, kind, &data[..n]);
            }
        });
    }

    /// The descriptors that the program passes (`SCM_RIGHTS`).
    pub(crate) fn passed(&self) -> Vec<c_int> {
        let mut fds = Vec::new();
        self.walk(|level, kind, start, len| {
            if (level, kind) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let count = len / size_of::<c_int>();
                // SAFETY: any bytes are a number.
                fds.extend(
                    (0..count).map_while(|i| unsafe { guarded::load(start.cast::<c_int>().wrapping_add(i)) }.ok()),
                );
            }
        });
        fds
    }

    /// Every message: `each(level, type, start, length)`. False if one of them is malformed; the
    /// walk stops there.
    fn walk(&self, mut each: impl FnMut(c_int, c_int, *const u8, usize)) -> bool {
        // SAFETY: pure arithmetic.
        let head = unsafe { libc::CMSG_LEN(0) } as usize;
        let mut at = 0;
        while at + head <= self.room {
            // SAFETY: any bytes are a header.
            let header = unsafe { guarded::load(self.start.wrapping_add(at).cast::<libc::cmsghdr>()) };
            let Ok(header) = header else { return false };
            let whole: usize = header.cmsg_len as _;
            if whole < head || whole > self.room - at {
                return false;
            }
            each(header.cmsg_level, header.cmsg_type, self.start.wrapping_add(at + head), whole - head);
            at += whole.next_multiple_of(size_of::<usize>());
        }
        true
    }
}

/// Receives from a kernel socket into the program's buffers.
pub(crate) fn receive(fd: c_int, buffers: &Buffers<'_>, flags: c_int, extras: &mut Extras<'_>) -> Result<usize> {
    let (iov, count) = buffers.raw();
    // SAFETY: all parts are zero-valid.
    let mut message: msghdr = unsafe { zeroed() };
    message.msg_name = extras.name.as_mut_ptr().cast();
    message.msg_namelen = MAX_NAME as socklen_t;
    message.msg_iov = iov.cast_mut();
    message.msg_iovlen = count as _;
    if let Some(control) = &extras.control {
        message.msg_control = control.start.cast();
        message.msg_controllen = control.room as _;
    }
    // SAFETY: the buffers are valid by their creator's promise, the rest is ours.
    let len = called(unsafe { libc::syscall(libc::SYS_recvmsg, fd, &raw mut message, flags) })?;
    extras.name_len = (message.msg_namelen as usize).min(MAX_NAME);
    extras.flags = message.msg_flags;
    if let Some(control) = &mut extras.control {
        control.len = message.msg_controllen as usize;
    }
    Ok(len)
}

/// Sends from the program's buffers through a kernel socket.
pub(crate) fn send(fd: c_int, buffers: &Buffers<'_>, flags: c_int, extras: &mut Extras<'_>) -> Result<usize> {
    let (iov, count) = buffers.raw();
    // SAFETY: all parts are zero-valid.
    let mut message: msghdr = unsafe { zeroed() };
    if extras.name_len > 0 {
        message.msg_name = extras.name.as_mut_ptr().cast();
        message.msg_namelen = extras.name_len as socklen_t;
    }
    message.msg_iov = iov.cast_mut();
    message.msg_iovlen = count as _;
    if let Some(control) = &extras.control {
        message.msg_control = control.start.cast();
        message.msg_controllen = control.room as _;
    }
    // SAFETY: the buffers are valid by their creator's promise, the rest is ours.
    called(unsafe { libc::syscall(libc::SYS_sendmsg, fd, &raw const message, flags) })
}
