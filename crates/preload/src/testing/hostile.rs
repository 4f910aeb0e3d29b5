//! A hostile program, decoded from bytes: the fuzz target `calls` runs it, and the tests run it
//! again over the committed corpus.
//!
//! Its pointers are good, for just as many bytes as it says (behind them is inaccessible memory).
//! Everything else is arbitrary: lengths beyond any sense where the kernel checks the length first,
//! options, levels, flags, control messages, addresses, descriptors. Whatever it requests, no call
//! may panic, touch more than it was given, or report that it did more than it could; and the stack
//! stays consistent.

use super::{HERE, THERE, address, lane};
use crate::exports::{data, descriptor, socket, waiting};
use crate::sys;
use crate::sys::errno;
use crate::table::protect;
use core::ffi::{c_int, c_void};
use libc::{epoll_event, iovec, msghdr, pollfd, socklen_t};
use std::sync::OnceLock;
use tickwire_sim::Input;
use tickwire_stack::addr::Address;

/// The maximum number of calls in a run, so that no input takes long.
const MOST_CALLS: usize = 200;
/// The maximum number of open descriptors.
const MOST_DESCRIPTORS: usize = 8;
/// The largest argument.
const PAGE: usize = 4096;
/// Buffers for the arguments of one call.
const PLACES: usize = 8;

/// A length that a program gives for a buffer with `room` bytes: exact, less, or one that no kernel
/// accepts.
fn said_len(input: &mut Input<'_>, room: usize) -> socklen_t {
    match input.u8() {
        0xff => socklen_t::MAX,
        0xfe => 1 << 31,
        n if n & 1 == 0 => room as socklen_t,
        n => (usize::from(n) % (room + 1)) as socklen_t,
    }
}

/// Pages, each with a buffer at its very end, followed by inaccessible memory.
struct Places {
    base: *mut u8,
}

impl Places {
    fn new() -> Self {
        let len = PLACES * 2 * PAGE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory, of which only every other page can be touched.
        let base = unsafe {
            let base = libc::mmap(core::ptr::null_mut(), len, libc::PROT_NONE, flags, -1, 0).cast::<u8>();
            assert_ne!(base.cast(), libc::MAP_FAILED);
            for n in 0..PLACES {
                let page = base.add(n * 2 * PAGE).cast();
                assert_eq!(libc::mprotect(page, PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
            }
            base
        };
        Self { base }
    }

    /// Buffer `n` for `len` bytes.
    fn room(&mut self, n: usize, len: usize) -> *mut c_void {
        assert!(n < PLACES && len <= PAGE);
        self.base.wrapping_add(n * 2 * PAGE + PAGE - len).cast()
    }

    /// Buffer `n` with these bytes in it.
    fn with(&mut self, n: usize, bytes: &[u8]) -> *mut c_void {
        let place = self.room(n, bytes.len());
        // SAFETY: there is as much room.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), place.cast(), bytes.len()) };
        place
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        // SAFETY: our own memory, which no argument uses any more.
        unsafe { libc::munmap(self.base.cast(), PLACES * 2 * PAGE) };
    }
}

/// Whether the thread has its own network namespace, in which nothing reaches any other host.
/// Without the right to one, calls that could are skipped.
fn alone() -> bool {
    thread_local! {
        static ALONE: OnceLock<bool> = const { OnceLock::new() };
    }
    ALONE.with(|alone| {
        *alone.get_or_init(|| {
            // The lane and its threads are shared by all tests.
            lane();
            // As in Rust's programs, but not under the fuzzer: a write without a reader is an
            // error, and does not end the process.
            // SAFETY: ignoring a signal is always allowed.
            unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
            // SAFETY: concerns this thread only.
            let own = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
            for arguments in [["link", "set", "lo", "up"].as_slice(), &["route", "add", "default", "dev", "lo"]] {
                if own {
                    // Without it the kernel reaches no host, which is as good.
                    let _ = std::process::Command::new("ip").args(arguments).status();
                }
            }
            own
        })
    })
}

/// Makes the calls that the bytes encode.
pub(crate) fn calls(data: &[u8]) {
    let mut program = Program { alone: alone(), places: Places::new(), open: Vec::new() };
    let mut input = Input::new(data);
    for _ in 0..MOST_CALLS {
        if input.is_empty() {
            break;
        }
        program.call(&mut input);
    }
    while let Some(fd) = program.open.pop() {
        program.close(fd);
    }
    // Does the work of the helper, which does not run here: otherwise the claims of closed
    // connections use up all descriptors.
    crate::socket::pending::sweep(lane());
    lane()
        .with(|access| {
            access.stack.check_invariants();
            Ok(())
        })
        .expect("the lane is there");
}

struct Program {
    alone: bool,
    places: Places,
    open: Vec<c_int>,
}

const FLAGS: [c_int; 12] = [
    0,
    libc::MSG_PEEK,
    libc::MSG_TRUNC,
    libc::MSG_OOB,
    libc::MSG_MORE,
    libc::MSG_ERRQUEUE,
    libc::MSG_WAITALL,
    libc::MSG_EOR,
    libc::MSG_CONFIRM,
    libc::MSG_FASTOPEN,
    libc::MSG_CMSG_CLOEXEC,
    libc::MSG_DONTROUTE,
];
const LEVELS: [c_int; 6] =
    [libc::SOL_SOCKET, libc::IPPROTO_IP, libc::IPPROTO_IPV6, libc::IPPROTO_TCP, libc::IPPROTO_UDP, 255];
/// Options that reach out of a network namespace, or that join shared multicast groups.
const GROUPS: [c_int; 6] = [
    libc::IP_ADD_MEMBERSHIP,
    libc::IP_ADD_SOURCE_MEMBERSHIP,
    libc::IPV6_ADD_MEMBERSHIP,
    42, // MCAST_JOIN_GROUP
    46, // MCAST_JOIN_SOURCE_GROUP
    libc::IP_MSFILTER,
];

impl Program {
    /// A descriptor: mostly one of its own, sometimes an invalid one.
    fn fd(&self, input: &mut Input<'_>) -> c_int {
        match input.u8() {
            0xff => -1,
            0xfe => 60_000,
            n => self.open.get(usize::from(n) % self.open.len().max(1)).copied().unwrap_or(-1),
        }
    }

    fn keep(&mut self, fd: c_int) {
        if fd >= 0 {
            self.open.push(fd);
        }
        if self.open.len() > MOST_DESCRIPTORS {
            let fd = self.open.remove(0);
            self.close(fd);
        }
    }

    /// Closes it for good: a connection leaves nothing pending.
    fn close(&mut self, fd: c_int) {
        let linger = [1i32.to_ne_bytes(), 0i32.to_ne_bytes()].concat();
        let place = self.places.with(0, &linger);
        // SAFETY: a place as long as said.
        unsafe {
            socket::setsockopt(fd, libc::SOL_SOCKET, libc::SO_LINGER, place, 8);
            descriptor::close(fd);
        }
    }

    /// An address: one that is safe to reach, or bytes of another family.
    fn address(&self, input: &mut Input<'_>) -> Vec<u8> {
        let port = input.of(&[7, 9, 13, 15, 1000, 0]);
        match input.u8() % 10 {
            0..=4 => address(THERE, port),
            5 => address(HERE, port),
            6 => address(Address::ANY_V4, port),
            7 => address(Address::v4([127, 0, 0, 1]), port),
            8 if self.alone => address(Address::v4([239, 1, 2, 3]), port),
            _ => {
                let mut bytes = input.take(40).to_vec();
                bytes.resize(bytes.len().max(2), 0);
                // Anything but an address to which a packet could go.
                let family = match input.of(&[libc::AF_UNSPEC, libc::AF_UNIX, libc::AF_NETLINK, 255]) {
                    // As a destination it is equivalent to IPv4's.
                    libc::AF_UNSPEC if !self.alone => 255,
                    family => family,
                };
                bytes[..2].copy_from_slice(&(family as u16).to_ne_bytes());
                bytes
            }
        }
    }

    fn call(&mut self, input: &mut Input<'_>) {
        errno::set(0);
        match input.u8() % 20 {
            0 | 1 => self.open(input),
            2 => self.name(input),
            3 | 4 => self.set(input),
            5 => self.get(input),
            6..=8 => self.send_message(input),
            9 | 10 => self.receive_message(input),
            11 => self.receive_from(input),
            12 => self.vectors(input),
            13 => self.watch(input),
            14 | 15 => self.wait(input),
            16 => self.poll(input),
            17 => self.select(input),
            18 => self.shape(input),
            _ => self.names(input),
        }
        assert_ne!(errno::get(), libc::EIO, "a panic inside");
    }

    fn open(&mut self, input: &mut Input<'_>) {
        let kind = input.of(&[libc::SOCK_DGRAM, libc::SOCK_STREAM, libc::SOCK_STREAM, -1]);
        // SAFETY: plain numbers.
        let fd = unsafe {
            if kind < 0 {
                waiting::epoll_create1(libc::EPOLL_CLOEXEC)
            } else {
                socket::socket(libc::AF_INET, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0)
            }
        };
        if kind >= 0 {
            // Our address on the lane is not this machine's.
            let _ = sys::set_option(fd, libc::IPPROTO_IP, libc::IP_FREEBIND, &1i32);
        }
        self.keep(fd);
    }

    /// `bind`, `connect`.
    fn name(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        let connect = input.u8() & 3 != 0;
        let bytes = self.address(input);
        let len = said_len(input, bytes.len());
        let place = self.places.with(0, &bytes).cast();
        // SAFETY: a place of so many bytes, or a length that no kernel takes.
        unsafe { if connect { socket::connect(fd, place, len) } else { socket::bind(fd, place, len) } };
    }

    fn option(&self, input: &mut Input<'_>) -> (c_int, c_int) {
        let (level, name) = (input.of(&LEVELS), c_int::from(input.u8() % 90));
        let harmful = level == libc::SOL_SOCKET && name == libc::SO_LINGER;
        if harmful || (!self.alone && GROUPS.contains(&name)) { (255, name) } else { (level, name) }
    }

    fn set(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        let (level, name) = self.option(input);
        let room = usize::from(input.u8() % 80);
        let mut value = input.take(room).to_vec();
        value.resize(room, 0);
        let len = said_len(input, room);
        let place = self.places.with(0, &value);
        // SAFETY: as above.
        unsafe { socket::setsockopt(fd, level, name, place, len) };
    }

    fn get(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        let (level, name) = self.option(input);
        let room = usize::from(input.u8());
        let len = said_len(input, room);
        let (value, place) = (self.places.room(0, room), self.places.with(1, &len.to_ne_bytes()));
        // SAFETY: as above; the length is where it was put, which has its alignment because pages
        // end at whole words.
        let (told, left) = unsafe {
            (socket::getsockopt(fd, level, name, value, place.cast()), place.cast::<socklen_t>().read_unaligned())
        };
        assert!(told != 0 || left <= len, "{left} of {len} bytes of option {level}, {name}");
    }

    /// Buffers, in the places from `first` on.
    fn buffers(&mut self, first: usize, input: &mut Input<'_>) -> (Vec<iovec>, usize) {
        let count = usize::from(input.u8() % 4);
        let mut buffers = Vec::new();
        let mut total = 0;
        for n in 0..count {
            let len = usize::from(input.u16()) % PAGE;
            total += len;
            buffers.push(iovec { iov_base: self.places.room(first + n, len), iov_len: len });
        }
        (buffers, total)
    }

    fn flags(input: &mut Input<'_>) -> c_int {
        input.of(&FLAGS) | input.of(&FLAGS) | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL
    }

    /// Control messages: well-formed ones with any content, or any bytes.
    fn control(input: &mut Input<'_>) -> Vec<u8> {
        let mut control = Vec::new();
        for _ in 0..input.u8() % 4 {
            let level = input.of(&LEVELS);
            let kind =
                input.of(&[libc::IP_PKTINFO, libc::IP_TTL, libc::IP_TOS, libc::UDP_SEGMENT, libc::SO_TIMESTAMP, 200]);
            let len = usize::from(input.u8() % 24);
            let said = match input.u8() {
                0xff => usize::MAX,
                0xfe => 0,
                0xfd => size_of::<libc::cmsghdr>() - 1,
                0xfc => size_of::<libc::cmsghdr>() + len + 100,
                _ => size_of::<libc::cmsghdr>() + len,
            };
            // Descriptors are not passed over Internet sockets, and would stay open.
            control.extend(said.to_ne_bytes());
            control.extend(level.to_ne_bytes());
            control.extend(kind.to_ne_bytes());
            control.extend(input.take(len));
            control.resize(control.len().next_multiple_of(8), 0);
        }
        control.truncate(control.len().saturating_sub(usize::from(input.u8() % 16)));
        control
    }

    fn send_message(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        let name = if input.u8() & 1 == 0 { Vec::new() } else { self.address(input) };
        let named = said_len(input, name.len());
        let control = Self::control(input);
        let (mut buffers, total) = self.buffers(3, input);
        let flags = Self::flags(input);
        // SAFETY: all zero is a message of nothing.
        let mut message: msghdr = unsafe { core::mem::zeroed() };
        if !name.is_empty() {
            (message.msg_name, message.msg_namelen) = (self.places.with(0, &name), named);
        }
        (message.msg_control, message.msg_controllen) = (self.places.with(1, &control), control.len());
        (message.msg_iov, message.msg_iovlen) = (buffers.as_mut_ptr(), buffers.len());
        // SAFETY: a message whose parts are as long as said, but for a name's length that no kernel
        // takes.
        let sent = unsafe { data::sendmsg(fd, &raw const message, flags) };
        assert!(sent <= total as isize, "{sent} of {total} bytes sent");
    }

    fn receive_message(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        let named = usize::from(input.u8() % 40);
        let room = usize::from(input.u8());
        let (mut buffers, total) = self.buffers(3, input);
        let flags = Self::flags(input);
        // SAFETY: as above.
        let mut message: msghdr = unsafe { core::mem::zeroed() };
        if named > 0 {
            (message.msg_name, message.msg_namelen) = (self.places.room(0, named), said_len(input, named));
        }
        (message.msg_control, message.msg_controllen) = (self.places.room(1, room), room);
        (message.msg_iov, message.msg_iovlen) = (buffers.as_mut_ptr(), buffers.len());
        // SAFETY: as above.
        let got = unsafe { data::recvmsg(fd, &raw mut message, flags) };
        let whole = flags & libc::MSG_TRUNC != 0;
        assert!(whole || got <= total as isize, "{got} bytes in {total}");
        assert!(message.msg_controllen <= room, "{} bytes of control messages in {room}", message.msg_controllen);
    }

    fn receive_from(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        let (len, named) = (usize::from(input.u16()) % PAGE, usize::from(input.u8() % 40));
        let said = said_len(input, named);
        let flags = Self::flags(input);
        let (buffer, name, place) =
            (self.places.room(0, len), self.places.room(1, named), self.places.with(2, &said.to_ne_bytes()));
        // SAFETY: as above.
        let got = unsafe { data::recvfrom(fd, buffer, len, flags, name.cast(), place.cast()) };
        assert!(flags & libc::MSG_TRUNC != 0 || got <= len as isize, "{got} bytes in {len}");
    }

    fn vectors(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        let (buffers, total) = self.buffers(0, input);
        let count = match input.u8() {
            0xff => -1,
            0xfe => 1025,
            _ => buffers.len() as c_int,
        };
        // Only sockets, which do not block: a number may be another file's by now.
        if !crate::table::fd::TABLE.get(fd).is_socket() {
            return;
        }
        // SAFETY: as many buffers as said, or a number that no kernel takes.
        let moved = unsafe {
            if input.u8() & 1 == 0 {
                data::readv(fd, buffers.as_ptr(), count)
            } else {
                data::writev(fd, buffers.as_ptr(), count)
            }
        };
        assert!(moved <= total as isize);
    }

    /// `epoll_ctl`.
    fn watch(&mut self, input: &mut Input<'_>) {
        let (epfd, fd) = (self.fd(input), self.fd(input));
        let op = input.of(&[libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_ADD, libc::EPOLL_CTL_MOD, libc::EPOLL_CTL_DEL, 77]);
        let bits =
            [libc::EPOLLIN, libc::EPOLLOUT, libc::EPOLLET, libc::EPOLLONESHOT, libc::EPOLLRDHUP, libc::EPOLLEXCLUSIVE];
        let events = input.of(&bits) | input.of(&bits);
        let mut event = epoll_event { events: events as u32, u64: fd as u64 };
        // SAFETY: an event of our own.
        unsafe { waiting::epoll_ctl(epfd, op, fd, &raw mut event) };
    }

    /// `epoll_wait`.
    fn wait(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        let room = usize::from(input.u8() % 6);
        let max = if input.u8() == 0xff { c_int::MIN } else { room as c_int };
        let events = self.places.room(0, room * size_of::<epoll_event>()).cast();
        // SAFETY: as much room as said, or none.
        let told = unsafe { waiting::epoll_wait(fd, events, max, 0) };
        assert!(told <= max.max(-1), "{told} events in {max} places");
    }

    fn poll(&mut self, input: &mut Input<'_>) {
        let count = usize::from(input.u8() % 6);
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(pollfd { fd: self.fd(input), events: input.u16() as i16, revents: 0x55 });
        }
        let said = if input.u8() == 0xff { libc::nfds_t::MAX } else { count as libc::nfds_t };
        let place = self.places.room(0, count * size_of::<pollfd>()).cast::<pollfd>();
        // SAFETY: there is as much room; as many are said, or more than any kernel takes.
        let told = unsafe {
            core::ptr::copy_nonoverlapping(list.as_ptr(), place, count);
            let told = waiting::poll(place, said, 0);
            core::ptr::copy_nonoverlapping(place, list.as_mut_ptr(), count);
            told
        };
        let ready = list.iter().filter(|entry| entry.revents != 0).count();
        assert!(told < 0 || told as usize == ready, "{told} told, {ready} marked");
    }

    fn select(&mut self, input: &mut Input<'_>) {
        let sets = [(); 3].map(|()| {
            let mut bits = [0u8; 128];
            for _ in 0..input.u8() % 3 {
                let fd = self.fd(input);
                if (0..1024).contains(&fd) {
                    bits[fd as usize / 8] |= 1 << (fd % 8);
                }
            }
            bits
        });
        let count = match input.u8() {
            0xff => -1,
            // As `select(getdtablesize(), ...)`, with sets for all descriptors that can be open.
            // (The service is in this process, too, and keeps sockets of closed connections.)
            0xfe if protect::room_of_program() <= 1024 => 1 << 20,
            _ => 1024,
        };
        let [read, write, except] = [0, 1, 2].map(|n| self.places.with(n, &sets[n]).cast());
        let mut none = libc::timeval { tv_sec: 0, tv_usec: 0 };
        // SAFETY: sets of as many descriptors as said.
        unsafe { waiting::select(count, read, write, except, &raw mut none) };
    }

    /// `listen`, `accept`, `shutdown`, `dup`, `close`.
    fn shape(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        // SAFETY: plain numbers.
        let new = unsafe {
            match input.u8() % 6 {
                0 => socket::listen(fd, c_int::from(input.u8() as i8)).min(-1),
                1 => socket::accept4(
                    fd,
                    core::ptr::null_mut(),
                    core::ptr::null_mut(),
                    libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC,
                ),
                2 => socket::shutdown(fd, c_int::from(input.u8() % 5) - 1).min(-1),
                3 => descriptor::dup(fd),
                _ => {
                    if let Some(at) = self.open.iter().position(|&open| open == fd) {
                        let fd = self.open.remove(at);
                        self.close(fd);
                    }
                    -1
                }
            }
        };
        self.keep(new);
    }

    /// `getsockname`, `getpeername`, `ioctl`.
    fn names(&mut self, input: &mut Input<'_>) {
        let fd = self.fd(input);
        let room = usize::from(input.u8() % 40);
        let said = said_len(input, room);
        let (name, place) = (self.places.room(0, room).cast(), self.places.with(1, &said.to_ne_bytes()));
        // SAFETY: as above.
        unsafe {
            match input.u8() % 4 {
                0 => socket::getsockname(fd, name, place.cast()),
                1 => socket::getpeername(fd, name, place.cast()),
                n => {
                    let request = if n == 2 { libc::FIONREAD } else { libc::TIOCOUTQ };
                    descriptor::ioctl(fd, request, place as usize)
                }
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For the kernel a length is signed, and a list is bounded: it refuses both before it reads
    /// any of their data.
    #[test]
    fn lengths_that_no_kernel_takes_are_refused_and_nothing_is_touched() {
        let mut places = Places::new();
        let fd = super::super::socket(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK);
        let told = |answer: isize| if answer < 0 { errno::get() } else { 0 };
        let name = places.with(0, &address(THERE, 7));
        let none = places.room(1, 0);
        for len in [socklen_t::MAX, 1 << 31] {
            let place = places.with(2, &len.to_ne_bytes()).cast();
            // SAFETY: places of 16 bytes and of none at the end of memory, with lengths that are
            // refused.
            unsafe {
                assert_eq!(told(socket::bind(fd, name.cast(), len) as _), libc::EINVAL);
                assert_eq!(told(socket::connect(fd, name.cast(), len) as _), libc::EINVAL);
                assert_eq!(told(data::sendto(fd, none, 0, 0, name.cast(), len)), libc::EINVAL);
                let mut message: msghdr = core::mem::zeroed();
                (message.msg_name, message.msg_namelen) = (name, len);
                assert_eq!(told(data::sendmsg(fd, &raw const message, 0)), libc::EINVAL);
                assert_eq!(told(data::recvmsg(fd, &raw mut message, 0)), libc::EINVAL);
                for option in [libc::SO_RCVBUF, libc::SO_LINGER, libc::SO_TIMESTAMP] {
                    assert_eq!(told(socket::setsockopt(fd, libc::SOL_SOCKET, option, none, len) as _), libc::EINVAL);
                    assert_eq!(told(socket::getsockopt(fd, libc::SOL_SOCKET, option, none, place) as _), libc::EINVAL);
                }
            }
        }
        // SAFETY: a list of no entries, whose count is larger than allowed.
        unsafe { assert_eq!(told(waiting::poll(none.cast(), libc::nfds_t::MAX, 0) as _), libc::EINVAL) };
        super::super::close(fd);
    }

    /// Programs written by hand, as seeds: each number is a decision of `Program::call` and of what
    /// it calls.
    fn seeds() -> Vec<(&'static str, Vec<u8>)> {
        let udp = [0, 0];
        let tcp = [0, 1];
        let set = [0, 3];
        // To the peer's port 7, by name; then the answer, with room for control messages.
        let say = [6, 0, 1, 0, 0, 0, 0, 0, 1, 0, 5, 0, 0];
        let hear = [9, 0, 16, 64, 1, 0, 9, 0, 0, 0];
        let connect = [2, 0, 1, 0, 0, 0];
        let told = [14, 1, 4, 0];
        let watch = [13, 1, 0, 0, 0, 1];
        let option = |level, name, value: &[u8]| [&[3, 0, level, name, value.len() as u8], value, &[0]].concat();
        let asked = |level, name| vec![5, 0, level, name, 8, 0];
        let (ip, own, of_tcp) = (1, 0, 3);
        vec![
            ("udp", [&udp[..], &option(ip, 8, &[1, 0, 0, 0]), &say, &hear, &[11, 0, 0, 9, 16, 0, 0, 0]].concat()),
            ("tcp", [&tcp[..], &connect, &[6, 0, 0, 0, 0, 0, 1, 0, 5, 0, 0], &hear, &asked(of_tcp, 11)].concat()),
            ("epoll", [&udp[..], &set, &watch, &say, &told, &hear, &told, &[13, 1, 0, 3, 0, 0]].concat()),
            ("listen", [&tcp[..], &[2, 0, 0, 5, 6, 0], &[18, 0, 0, 8], &udp, &[18, 0, 1], &[19, 0, 16, 0, 0]].concat()),
            (
                "lengths",
                [&udp[..], &[2, 0, 1, 0, 0, 0xff], &[3, 0, own, 8, 4, 0, 0, 1, 0, 0xfe], &[5, 0, own, 3, 4, 0xff]]
                    .concat(),
            ),
            (
                "control",
                [
                    &udp[..],
                    &[
                        6, 0, 1, 0, 0, 0, 2, ip, 0, 12, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 3, 2, 0xfd, 9, 9, 0, 1,
                        0, 5, 0, 0,
                    ],
                ]
                .concat(),
            ),
            (
                "waits",
                [
                    &udp[..],
                    &tcp,
                    &[16, 3, 0, 0, 1, 1, 0, 4, 0xff, 0, 1, 0],
                    &[17, 1, 0, 1, 1, 2, 0, 1, 0],
                    &[12, 0, 1, 0, 5, 0, 1],
                ]
                .concat(),
            ),
        ]
    }

    /// The sets are shorter than the count says, as with `select(getdtablesize(), ...)`.
    #[test]
    fn no_more_of_a_set_is_read_than_descriptors_can_be_open() {
        let mut places = Places::new();
        // The lane's own descriptors make the kernel's table large.
        let ours = protect::keep(sys::eventfd().unwrap()).unwrap();
        let fd = super::super::socket(libc::SOCK_DGRAM | libc::SOCK_NONBLOCK);
        let mut bits = [0u8; 128];
        bits[fd as usize / 8] |= 1 << (fd % 8);
        let set = places.with(0, &bits).cast();
        let mut none = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let null = core::ptr::null_mut();
        // SAFETY: a set with all descriptors that can be open, at the end of memory.
        let told = unsafe { waiting::select(1 << 20, null, set, null, &raw mut none) };
        assert_eq!(told, 1, "it can be written to");
        super::super::close(fd);
        // Also for descriptors that are only the kernel's.
        let fd = sys::eventfd().unwrap();
        let mut bits = [0u8; 128];
        bits[fd as usize / 8] |= 1 << (fd % 8);
        let set = places.with(0, &bits).cast();
        // SAFETY: as above.
        let told = unsafe { waiting::select(1 << 20, null, set, null, &raw mut none) };
        assert_eq!((told, errno::get() * i32::from(told < 0)), (1, 0));
        super::super::close(fd);
        protect::release(ours);
    }

    #[test]
    fn the_corpus_has_the_seeds_written_by_hand() {
        tickwire_sim::corpus::keep("calls", &seeds());
    }

    #[test]
    fn whatever_a_program_calls_nothing_panics_and_no_more_is_touched_than_was_given() {
        tickwire_sim::corpus::replay("calls", calls);
        for seed in 0..200 {
            let mut rng = tickwire_sim::Rng::new(seed);
            let len = rng.next_u64() % 400;
            let data: Vec<u8> = (0..len).map(|_| rng.next_u64() as u8).collect();
            calls(&data);
        }
    }
}
