//! One end of a control connection.
//!
//! The system calls are made directly, not through the C library's wrappers: the preload library
//! interposes these, and would call itself here. Control data is parsed here, too, so that every
//! descriptor that arrives is owned from that moment, also with a message that is then refused (a
//! hostile peer must not make descriptors accumulate in the service).

use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::{Duration, Instant};
use tickwire_lane::control::{Attached, MAX_DESCRIPTORS, MAX_MESSAGE, MalformedMessage, MessageTo};

/// Descriptors that came with a message.
pub type Descriptors = Attached<OwnedFd>;

/// A packet that was received through a channel.
#[derive(Debug)]
pub struct Incoming {
    bytes: [u8; MAX_MESSAGE],
    len: usize,
    /// It was longer than any message.
    cut: bool,
    /// Not all of its descriptors are here: this process may have no more, or it has more than any
    /// message.
    short: bool,
    /// Descriptors that came with it.
    pub descriptors: Descriptors,
}

impl Default for Incoming {
    fn default() -> Self {
        Self { bytes: [0; MAX_MESSAGE], len: 0, cut: false, short: false, descriptors: Descriptors::default() }
    }
}

impl Incoming {
    /// Reads it as a message of the wanted direction: its number and itself.
    ///
    /// # Errors
    /// [`MalformedMessage`] if it is none.
    pub fn decode<M: MessageTo>(&self) -> Result<(u32, M), MalformedMessage> {
        if self.cut || self.short {
            return Err(MalformedMessage::Length);
        }
        M::decode(&self.bytes[..self.len], self.descriptors.len())
    }

    /// Whether not all of its descriptors are here: this process may have no more, or it has more
    /// than any message.
    #[must_use]
    pub const fn is_short(&self) -> bool {
        self.short
    }

    /// The number of a message that is well formed but for descriptors for which this process has
    /// no room.
    #[must_use]
    pub fn number_if_short<M: MessageTo>(&self) -> Option<u32> {
        let decode = |descriptors| M::decode(&self.bytes[..self.len], descriptors).ok();
        if self.cut || !self.short { None } else { (0..=MAX_DESCRIPTORS).find_map(decode).map(|(number, _)| number) }
    }
}

/// One end of a control connection: a Unix `SOCK_SEQPACKET` socket.
#[derive(Debug)]
pub struct Channel(OwnedFd);

// SAFETY: `CMSG_SPACE` only computes.
const SPACE: usize = unsafe { libc::CMSG_SPACE((MAX_DESCRIPTORS * size_of::<RawFd>()) as u32) } as usize;

/// Room for control data, with the alignment that `cmsghdr` needs.
#[repr(C, align(8))]
struct Control([u8; SPACE]);

fn result(value: libc::c_long) -> io::Result<usize> {
    usize::try_from(value).map_err(|_| io::Error::last_os_error())
}

/// Repeats a system call for as long as signals interrupt it.
fn retry(mut call: impl FnMut() -> libc::c_long) -> io::Result<usize> {
    loop {
        match result(call()) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

impl Channel {
    /// Connects to the service's socket without blocking: a listener whose queue is full is an
    /// error.
    ///
    /// # Errors
    /// `NotFound` or `ConnectionRefused` when no service is there, `PermissionDenied`,
    /// `WouldBlock`, `InvalidInput` for a path that is too long for a socket.
    pub fn connect(path: &Path) -> io::Result<Self> {
        // SAFETY: the call takes numbers only.
        let fd = retry(|| unsafe {
            libc::syscall(
                libc::SYS_socket,
                libc::AF_UNIX,
                libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                0,
            )
        })?;
        // SAFETY: the descriptor was just made and has no other owner.
        let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
        // SAFETY: all-zero is a valid `sockaddr_un`.
        let mut address: libc::sockaddr_un = unsafe { zeroed() };
        address.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let bytes = path.as_os_str().as_bytes();
        // A terminating zero must remain.
        if bytes.len() >= address.sun_path.len() || bytes.contains(&0) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the socket's path is too long"));
        }
        for (to, from) in address.sun_path.iter_mut().zip(bytes) {
            *to = *from as libc::c_char;
        }
        // SAFETY: `address` is alive and of the length given.
        retry(|| unsafe {
            libc::syscall(libc::SYS_connect, fd.as_raw_fd(), &raw const address, size_of::<libc::sockaddr_un>())
        })?;
        Ok(Self(fd))
    }

    /// Two connected ends.
    ///
    /// # Errors
    /// If there are no descriptors left.
    pub fn pair() -> io::Result<(Self, Self)> {
        let mut fds: [RawFd; 2] = [-1; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: `fds` has room for the two numbers that the call writes.
        retry(|| unsafe { libc::syscall(libc::SYS_socketpair, libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
        // SAFETY: the two descriptors were just made and have no other owner.
        let [a, b] = fds.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) });
        Ok((Self(a), Self(b)))
    }

    /// Sends a message with descriptors. Never blocks: a peer that does not read is an error
    /// (`WouldBlock`).
    ///
    /// # Errors
    /// `WouldBlock`, `BrokenPipe` (the peer has gone), or the kernel's error about the descriptors.
    pub fn send(&self, message: &impl MessageTo, number: u32, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut done = Ok(());
        message.encode(number, &mut |bytes| done = self.send_bytes(bytes, descriptors));
        done
    }

    fn send_bytes(&self, bytes: &[u8], descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        if descriptors.len() > MAX_DESCRIPTORS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut control = Control([0; SPACE]);
        let mut part = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
        // SAFETY: all-zero is a valid `msghdr`.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        if !descriptors.is_empty() {
            let length = size_of_val(descriptors) as u32;
            const { assert!(size_of::<BorrowedFd<'_>>() == size_of::<RawFd>()) };
            header.msg_control = (&raw mut control).cast();
            // SAFETY: `CMSG_SPACE` only computes.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(length) } as _;
            // SAFETY: `control` is aligned for `cmsghdr` and has room for one with
            // `MAX_DESCRIPTORS` descriptors, so the first header exists and its data has room for
            // `descriptors`.
            unsafe {
                let first = libc::CMSG_FIRSTHDR(&raw const header);
                (*first).cmsg_level = libc::SOL_SOCKET;
                (*first).cmsg_type = libc::SCM_RIGHTS;
                (*first).cmsg_len = libc::CMSG_LEN(length) as _;
                let data = libc::CMSG_DATA(first).cast::<RawFd>();
                for (i, fd) in descriptors.iter().enumerate() {
                    data.add(i).write_unaligned(fd.as_raw_fd());
                }
            }
        }
        let flags = libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT;
        // SAFETY: `header` points at `part`, `bytes` and `control`, all alive; the kernel only
        // reads them.
        let sent = retry(|| unsafe { libc::syscall(libc::SYS_sendmsg, self.0.as_raw_fd(), &raw const header, flags) })?;
        if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
    }

    /// Receives a packet without blocking. `Ok(None)` if there is none.
    ///
    /// # Errors
    /// `UnexpectedEof` when the peer has gone.
    pub fn try_receive(&self) -> io::Result<Option<Incoming>> {
        let mut incoming = Incoming::default();
        Ok(self.receive_with(0, &mut incoming)?.then_some(incoming))
    }

    /// The same into `incoming`, which it replaces. Returns whether there was a packet.
    ///
    /// # Errors
    /// As [`Channel::try_receive`].
    pub fn try_receive_into(&self, incoming: &mut Incoming) -> io::Result<bool> {
        self.receive_with(0, incoming)
    }

    /// The same, but the packet stays in the queue: the descriptors are further ones of the same
    /// files. Closing one of them waits for the file's `flush`, as closing any does. A packet that
    /// [is short](Incoming::is_short) has more than there is room for, or than any message.
    ///
    /// # Errors
    /// As [`Channel::try_receive`].
    pub fn peek(&self) -> io::Result<Option<Incoming>> {
        let mut incoming = Incoming::default();
        Ok(self.receive_with(libc::MSG_PEEK, &mut incoming)?.then_some(incoming))
    }

    /// Removes the next packet. Its descriptors are closed, except those that [`Channel::peek`] has
    /// returned.
    ///
    /// # Errors
    /// If there is none.
    pub fn skip(&self) -> io::Result<()> {
        // SAFETY: all-zero is a valid `msghdr`: room for nothing, neither bytes nor descriptors.
        let mut header: libc::msghdr = unsafe { zeroed() };
        let flags = libc::MSG_DONTWAIT;
        // SAFETY: `header` is alive and points at nothing.
        retry(|| unsafe { libc::syscall(libc::SYS_recvmsg, self.0.as_raw_fd(), &raw mut header, flags) }).map(drop)
    }

    fn receive_with(&self, how: libc::c_int, incoming: &mut Incoming) -> io::Result<bool> {
        // The previous descriptors are closed.
        incoming.descriptors = Descriptors::default();
        let mut control = Control([0; SPACE]);
        let mut part = libc::iovec { iov_base: incoming.bytes.as_mut_ptr().cast(), iov_len: MAX_MESSAGE };
        // SAFETY: all-zero is a valid `msghdr`.
        let mut header: libc::msghdr = unsafe { zeroed() };
        header.msg_iov = &raw mut part;
        header.msg_iovlen = 1;
        header.msg_control = (&raw mut control).cast();
        header.msg_controllen = SPACE as _;
        let flags = how | libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
        // SAFETY: `header` points at `part`, the message's bytes and `control`, all alive and of
        // the lengths given.
        let received =
            retry(|| unsafe { libc::syscall(libc::SYS_recvmsg, self.0.as_raw_fd(), &raw mut header, flags) });
        incoming.len = match received {
            Ok(len) => len,
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(e) if e.kind() == io::ErrorKind::ConnectionReset => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(e) => return Err(e),
        };
        // SAFETY: the kernel has filled `control` up to `msg_controllen` with well-formed headers.
        unsafe { own_descriptors(&header, &mut incoming.descriptors) };
        // Not an error of this call: the caller must close the descriptors.
        incoming.cut = header.msg_flags & libc::MSG_TRUNC != 0;
        incoming.short = header.msg_flags & libc::MSG_CTRUNC != 0;
        if incoming.len == 0 && incoming.descriptors.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(true)
    }

    /// Waits up to `timeout` for a packet.
    ///
    /// # Errors
    /// `TimedOut`, or as [`Channel::try_receive`].
    pub fn receive(&self, timeout: Duration) -> io::Result<Incoming> {
        let mut incoming = Incoming::default();
        self.receive_into(&mut incoming, timeout)?;
        Ok(incoming)
    }

    /// The same into `incoming`, which it replaces.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn receive_into(&self, incoming: &mut Incoming, timeout: Duration) -> io::Result<()> {
        let end = Instant::now() + timeout;
        loop {
            if self.try_receive_into(incoming)? {
                return Ok(());
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            let mut poll = libc::pollfd { fd: self.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
            let wait = libc::timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos().into() };
            // SAFETY: one `pollfd` and one `timespec`, both alive; no signal mask.
            let done = result(unsafe {
                libc::syscall(libc::SYS_ppoll, &raw mut poll, 1, &raw const wait, std::ptr::null::<libc::sigset_t>(), 8)
            });
            match done {
                Err(e) if e.kind() != io::ErrorKind::Interrupted => return Err(e),
                _ => {}
            }
        }
    }
}

/// Takes ownership of every descriptor in received control data.
///
/// # Safety
/// `header` must be as the kernel left it after a successful `recvmsg`, its control buffer alive.
unsafe fn own_descriptors(header: &libc::msghdr, descriptors: &mut Descriptors) {
    // SAFETY: the caller's promise: headers are well formed, and each `SCM_RIGHTS` one holds
    // descriptors that now belong to this process and have no other owner in it.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            if (*at).cmsg_level == libc::SOL_SOCKET && (*at).cmsg_type == libc::SCM_RIGHTS {
                let bytes = ((*at).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
                let data = libc::CMSG_DATA(at).cast::<RawFd>();
                for i in 0..bytes / size_of::<RawFd>() {
                    descriptors.push(OwnedFd::from_raw_fd(data.add(i).read_unaligned()));
                }
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Channel {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl From<OwnedFd> for Channel {
    /// A connected (accepted) `SOCK_SEQPACKET` socket.
    fn from(fd: OwnedFd) -> Self {
        Self(fd)
    }
}

impl From<Channel> for OwnedFd {
    fn from(channel: Channel) -> Self {
        channel.0
    }
}

impl IntoRawFd for Channel {
    fn into_raw_fd(self) -> RawFd {
        self.0.into_raw_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_lane::control::{Claim, Name, Push, Remotes, Reply, Request};
    use tickwire_stack::addr::{Address, Endpoint};

    fn hello() -> Request {
        Request::Hello { program: Name::new("test"), layout: 1 }
    }

    #[test]
    fn messages_and_descriptors_arrive() {
        let (a, b) = Channel::pair().unwrap();
        assert!(b.try_receive().unwrap().is_none());
        a.send(&hello(), 5, &[]).unwrap();
        let (number, got) = b.try_receive().unwrap().unwrap().decode::<Request>().unwrap();
        assert!(number == 5 && matches!(got, Request::Hello { layout: 1, .. }));

        let file = std::fs::File::open("/dev/null").unwrap();
        b.send(&Reply::Capturing, 5, &[file.as_fd()]).unwrap();
        let mut incoming = a.receive(Duration::from_secs(1)).unwrap();
        assert!(matches!(incoming.decode::<Reply>().unwrap(), (5, Reply::Capturing)));
        assert!(incoming.descriptors.take(0).is_some() && incoming.descriptors.take(0).is_none());
        assert!(incoming.descriptors.take(9).is_none());
        assert!(incoming.decode::<Push>().is_err());
    }

    #[test]
    fn a_request_with_all_that_it_has_room_for_travels() {
        let (a, b) = Channel::pair().unwrap();
        let remotes = [Endpoint::new(Address::v4([10, 0, 0, 2]), 80); Remotes::MAX];
        let request = Request::Convert { claim: Claim(7), remotes: Remotes::new(&remotes), more: true, closes: true };
        a.send(&request, 9, &[]).unwrap();
        let (number, got) = b.try_receive().unwrap().unwrap().decode::<Request>().unwrap();
        assert_eq!((number, format!("{got:?}")), (9, format!("{request:?}")));
    }

    #[test]
    fn a_packet_that_is_looked_at_stays_until_it_is_skipped() {
        let (a, b) = Channel::pair().unwrap();
        assert!(b.peek().unwrap().is_none(), "nothing came");
        assert!(b.skip().is_err());
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let is_closed = || std::io::Read::read(&mut &ours, &mut [0]).is_ok_and(|n| n == 0);
        a.send(&hello(), 1, &[]).unwrap();
        a.send(&hello(), 2, &[theirs.as_fd(); MAX_DESCRIPTORS]).unwrap();
        drop(theirs);
        for (number, brings) in [(1, 0), (2, MAX_DESCRIPTORS)] {
            drop(b.peek().unwrap());
            let incoming = b.peek().unwrap().unwrap();
            assert_eq!((incoming.descriptors.len(), incoming.is_short()), (brings, false));
            assert_eq!(Request::decode(&incoming.bytes[..incoming.len], 0).unwrap().0, number);
            b.skip().unwrap();
            assert!(!is_closed(), "it is still in the queue, or ours");
        }
        assert!(is_closed() && b.peek().unwrap().is_none());
        drop(a);
        assert_eq!(b.peek().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn silence_times_out_and_a_closed_peer_is_told_apart() {
        let (a, b) = Channel::pair().unwrap();
        let silence = a.receive(Duration::from_millis(5)).unwrap_err();
        assert_eq!(silence.kind(), io::ErrorKind::TimedOut);
        drop(b);
        assert_eq!(a.try_receive().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(a.send(&hello(), 1, &[]).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_peer_that_does_not_read_blocks_no_sender() {
        let (a, _b) = Channel::pair().unwrap();
        let error = (0..100_000).find_map(|i| a.send(&hello(), i, &[]).err()).expect("the queue is bounded");
        assert_eq!(error.kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn oversized_packets_and_too_many_descriptors_are_refused_and_leak_nothing() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let (a, b) = Channel::pair().unwrap();
        a.send_bytes(&[0; MAX_MESSAGE], &[]).unwrap();
        assert_eq!(b.try_receive().unwrap().unwrap().decode::<Request>().unwrap_err(), MalformedMessage::Magic);
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(a.send(&hello(), 1, &[file.as_fd(); MAX_DESCRIPTORS + 1]).is_err());
        let before = open();
        for _ in 0..64 {
            a.send_bytes(b"garbage", &[file.as_fd(); MAX_DESCRIPTORS]).unwrap();
            assert!(b.try_receive().unwrap().unwrap().decode::<Request>().is_err());
        }
        // More bytes than any message has: the receiver gets the descriptors, and closes them where
        // it likes.
        a.send_bytes(&[0; MAX_MESSAGE], &[file.as_fd(); MAX_DESCRIPTORS]).unwrap();
        let mut incoming = b.try_receive().unwrap().unwrap();
        assert_eq!(incoming.descriptors.take_all().count(), MAX_DESCRIPTORS);
        assert_eq!(incoming.descriptors.take_all().count(), 0);
        // Other tests of this process open and close descriptors meanwhile; a leak would be 256 of
        // them.
        assert!(open() < before + 128);
    }

    #[test]
    fn an_absent_service_is_said_at_once() {
        let error = Channel::connect(Path::new("/nonexistent/service.sock")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        let error = Channel::connect(Path::new(&"x".repeat(200))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
    }
}
