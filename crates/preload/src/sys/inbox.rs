//! Inboxes: how other processes of the lane wake one thread alone.
//!
//! An inbox is a Unix datagram socket with a name of the kernel's choice in the abstract namespace,
//! six bytes that fit a word of the region. A socket filter drops all datagrams without the lane's
//! secret before they wake the thread, so processes outside of the lane cannot wake it.

use super::{called, check};
use crate::sys::errno::{Errno, Result};
use crate::sys::real;
use core::ffi::c_int;
use core::mem::{offset_of, zeroed};
use libc::{sock_filter, sock_fprog, sockaddr_un, socklen_t};

/// Bytes of a name that the kernel chooses: a zero, and five hexadecimal digits.
const NAME: usize = 6;

/// An inbox.
pub(crate) struct Inbox {
    pub(crate) fd: c_int,
    /// Its name as a word, never 0.
    pub(crate) address: u64,
}

fn datagram_socket() -> Result<c_int> {
    let kind = libc::SOCK_DGRAM | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: plain numbers.
    check(unsafe { real::socket(libc::AF_UNIX, kind, 0) })
}

/// A socket that wakes other processes' threads.
pub(crate) fn sender() -> Result<c_int> {
    datagram_socket()
}

/// A new inbox that only datagrams with this secret reach.
pub(crate) fn open(secret: [u64; 2]) -> Result<Inbox> {
    let fd = datagram_socket()?;
    let named = filter(fd, secret).and_then(|()| name(fd));
    named.map(|address| Inbox { fd, address }).inspect_err(|_| super::close(fd))
}

/// Makes the kernel choose a name, and returns it.
fn name(fd: c_int) -> Result<u64> {
    let family = libc::AF_UNIX as libc::sa_family_t;
    // SAFETY: as many bytes as the number has.
    check(unsafe { real::bind(fd, (&raw const family).cast(), size_of_val(&family) as socklen_t) })?;
    // SAFETY: all-zero is a valid address.
    let mut address: sockaddr_un = unsafe { zeroed() };
    let mut len = size_of_val(&address) as socklen_t;
    // SAFETY: room for an address, as long as said.
    check(unsafe { libc::getsockname(fd, (&raw mut address).cast(), &raw mut len) })?;
    if len as usize != offset_of!(sockaddr_un, sun_path) + NAME {
        return Err(Errno(libc::EAFNOSUPPORT));
    }
    let mut bytes = [0u8; 8];
    bytes.iter_mut().zip(address.sun_path).take(NAME).for_each(|(byte, told)| *byte = told as u8);
    Ok(u64::from_le_bytes(bytes))
}

/// The content of the datagrams.
fn words(secret: [u64; 2]) -> [u32; 4] {
    [secret[0] as u32, (secret[0] >> 32) as u32, secret[1] as u32, (secret[1] >> 32) as u32]
}

/// Lets only datagrams with the secret pass.
fn filter(fd: c_int, secret: [u64; 2]) -> Result<()> {
    let code = |code: u32, jf, k| sock_filter { code: code as u16, jt: 0, jf, k };
    let load = |at: u32| code(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, at);
    let equal = |to_the_end: u8, word| code(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, to_the_end, word);
    let answer = |bytes| code(libc::BPF_RET | libc::BPF_K, 0, bytes);
    let [a, b, c, d] = words(secret);
    let mut program = [
        load(0),
        equal(7, a),
        load(4),
        equal(5, b),
        load(8),
        equal(3, c),
        load(12),
        equal(1, d),
        answer(u32::MAX),
        answer(0),
    ];
    let program = sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    // SAFETY: a program of ours, as long as said.
    check(unsafe {
        let len = size_of_val(&program) as socklen_t;
        libc::setsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, (&raw const program).cast(), len)
    })
    .map(drop)
}

/// Wakes the thread that has this inbox. False if there is none.
pub(crate) fn wake(sender: c_int, address: u64, secret: [u64; 2]) -> bool {
    // SAFETY: all-zero is a valid address.
    let mut to: sockaddr_un = unsafe { zeroed() };
    to.sun_family = libc::AF_UNIX as libc::sa_family_t;
    to.sun_path.iter_mut().zip(address.to_le_bytes()).take(NAME).for_each(|(place, byte)| *place = byte as _);
    let mut text = [0u8; 16];
    text.chunks_exact_mut(4).zip(words(secret)).for_each(|(place, word)| place.copy_from_slice(&word.to_be_bytes()));
    let len = offset_of!(sockaddr_un, sun_path) + NAME;
    let flags = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL;
    // SAFETY: text and address of our own, as long as said.
    let sent = called(unsafe {
        libc::syscall(libc::SYS_sendto, sender, text.as_ptr(), text.len(), flags, &raw const to, len)
    });
    // A full inbox has been signalled.
    matches!(sent, Ok(_) | Err(Errno(libc::EAGAIN)))
}

/// Empties an inbox.
pub(crate) fn drain(fd: c_int) {
    let nothing = core::ptr::null_mut::<u8>();
    loop {
        // SAFETY: no memory is passed. The kernel discards the rest of the datagram.
        let got = called(unsafe { libc::syscall(libc::SYS_recvfrom, fd, nothing, 0, libc::MSG_DONTWAIT, 0, 0) });
        if got.is_err() {
            return;
        }
    }
}
