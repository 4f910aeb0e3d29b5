//! Requests that accept (`AcceptEx`): a connection for a socket that the program has made before.
//!
//! The program gets the connection's ends in its buffer, behind the first bytes of the stream. How
//! they lie there is the business of `AcceptEx` and `GetAcceptExSockaddrs`. This library's way: a
//! mark, the length, the address.

use super::{Attempt, Ended, Parts};
use crate::hook::boundary::WinsockError;
use crate::lane::Lane;
use crate::real::{self, Handle};
use crate::socket::table;
use crate::socket::{Socket, State};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock};
use tickwire_stack::StackError;
use tickwire_stack::addr::{Endpoint, Family};
use tickwire_stack::tcp::RecvFlags;
use tickwire_windows_abi::sockaddr;
use windows_sys::Win32::Networking::WinSock::WSA_OPERATION_ABORTED;

/// An address's place in the program's buffer has this before it. `AcceptEx` demands 16 bytes more
/// than the longest address.
const HEAD: usize = 16;

/// The socket that was to get the connection has been closed.
const ABORTED: WinsockError = WinsockError(WSA_OPERATION_ABORTED);

/// Marks what this library has written: no program's bytes, and nothing of Windows.
fn mark() -> u64 {
    static MARK: OnceLock<u64> = OnceLock::new();
    *MARK.get_or_init(|| RandomState::new().hash_one("AcceptEx"))
}

/// Where the program wants what.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AcceptPlace {
    /// Its buffer.
    pub(crate) buffer: *mut u8,
    /// Room for the first bytes of the stream; 0: the request is complete without any.
    pub(crate) receive_len: usize,
    /// Room for this host's address, behind them.
    pub(crate) local_len: usize,
    /// Room for the peer's, behind that.
    pub(crate) remote_len: usize,
}

// SAFETY: as for the program's buffers.
unsafe impl Send for AcceptPlace {}

impl AcceptPlace {
    /// # Safety
    /// The buffer has room for all three.
    unsafe fn put(&self, family: Family, (local, remote): (Endpoint, Endpoint)) {
        // SAFETY: as the caller promises; each is written only if there is room.
        unsafe {
            let at = self.buffer.add(self.receive_len);
            put_address(at, self.local_len, (family, local));
            put_address(at.add(self.local_len), self.remote_len, (family, remote));
        }
    }
}

/// # Safety
/// There is room for so many bytes.
unsafe fn put_address(at: *mut u8, room: usize, (family, endpoint): (Family, Endpoint)) {
    let (made, size) = sockaddr::for_socket(family, endpoint);
    if room < HEAD + size as usize {
        return;
    }
    // SAFETY: as the caller promises.
    unsafe {
        at.cast::<u64>().write_unaligned(mark());
        at.add(8).cast::<i32>().write_unaligned(size);
        std::ptr::copy_nonoverlapping((&raw const made).cast::<u8>(), at.add(HEAD), size as usize);
    }
}

/// The address that this library has written there, and its length; `None` if it has not.
///
/// # Safety
/// So many bytes can be read there.
pub(crate) unsafe fn written_address(at: *mut u8, room: usize) -> Option<(*mut u8, i32)> {
    // SAFETY: as the caller promises.
    unsafe {
        let is_ours = !at.is_null() && room >= HEAD && at.cast::<u64>().read_unaligned() == mark();
        is_ours.then(|| (at.add(HEAD), at.add(8).cast::<i32>().read_unaligned()))
    }
}

/// A request that accepts.
#[derive(Debug)]
pub(crate) struct Accept {
    /// The socket that gets the connection.
    pub(crate) socket: Handle,
    /// The program's buffer.
    pub(crate) place: AcceptPlace,
    /// The connection is there, and its first bytes are waited for.
    taken: Option<Arc<Socket>>,
}

impl Accept {
    /// A request that accepts.
    pub(crate) fn new(socket: Handle, place: AcceptPlace) -> Self {
        Self { socket, place, taken: None }
    }

    /// Whether the connection is there.
    pub(super) fn is_taken(&self) -> bool {
        self.taken.is_some()
    }

    /// Tries it.
    pub(super) fn attempt(&mut self, listener: &Socket, lane: &Lane) -> Option<Ended> {
        let taken = match &self.taken {
            Some(taken) => Arc::clone(taken),
            None => match self.take(listener, lane)? {
                Ok(taken) => Arc::clone(self.taken.insert(taken)),
                Err(error) => return Some(Ended::failed(error)),
            },
        };
        let result = self.first_bytes(&taken, listener, lane)?;
        if let State::Tcp { id, .. } = taken.state() {
            lane.unwatch(id.into(), listener.handle);
        }
        Some(result.map_or_else(Ended::failed, Ended::done))
    }

    /// Takes a connection of the listener: of the stack, or of the kernel.
    fn take(&self, listener: &Socket, lane: &Lane) -> Option<Result<Arc<Socket>, WinsockError>> {
        let State::Listener { id, .. } = listener.state() else { return Some(Err(WinsockError::INVALID)) };
        // The program may have closed it meanwhile, or used it for something else.
        let Some(socket) = table::get(self.socket).filter(|socket| matches!(socket.state(), State::Idle)) else {
            return Some(Err(WinsockError::INVALID));
        };
        let ends = match lane.enter(|access| access.stack.tcp_accept(id)) {
            Ok(accepted) => {
                let ends = lane.enter(|access| access.stack.tcp_endpoints(accepted)).unwrap_or_default();
                socket.take_connection(accepted, listener);
                // Closed in this moment, it had no connection yet that its end could have ended.
                if table::get(self.socket).is_none_or(|now| !Arc::ptr_eq(&now, &socket)) {
                    socket.close().into_iter().for_each(|closing| closing.go_on(None));
                    return Some(Err(ABORTED));
                }
                ends
            }
            Err(StackError::WouldBlock) => {
                match listener.ask_kernel(|| real::accept_into(listener.handle, self.socket))? {
                    Ok(ends) => {
                        lane.has_accepted(listener.handle);
                        real::signal_no_more(self.socket, socket.is_nonblocking());
                        socket.stay_on_kernel();
                        self.watch_first_bytes(listener.handle, lane);
                        ends
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
            Err(error) => return Some(Err(error.into())),
        };
        // SAFETY: the program's buffer, which is the request's until it is complete.
        unsafe { self.place.put(listener.family, ends) };
        Some(Ok(socket))
    }

    /// The kernel does not tell when the first bytes of its connection have come: they are looked
    /// for, as other unfinished work is.
    fn watch_first_bytes(&self, listener: Handle, lane: &Lane) {
        let socket = self.socket;
        if self.place.receive_len > 0 {
            lane.finish(Box::new(move |_, at_end| {
                let is_over = at_end.0 || real::is_readable(socket) || table::get(socket).is_none();
                if is_over {
                    table::get(listener).iter().for_each(|listener| listener.advance());
                }
                is_over
            }));
        }
    }

    /// Receives the first bytes, if the program wants any.
    fn first_bytes(&self, taken: &Socket, listener: &Socket, lane: &Lane) -> Attempt {
        if self.place.receive_len == 0 {
            return Some(Ok(0));
        }
        match taken.state() {
            State::Tcp { id, .. } => {
                // SAFETY: the program's buffer, which is the request's until it is complete.
                let mut first = unsafe { Parts::one(self.place.buffer, self.place.receive_len) };
                let flags = RecvFlags { peek: false };
                match lane.enter(|access| access.stack.tcp_recv(id, access.now, flags, &mut first)) {
                    Err(StackError::WouldBlock) => {
                        let _ = lane.watch(id.into(), listener.handle);
                        None
                    }
                    result => Some(result.map_err(WinsockError::from)),
                }
            }
            // SAFETY: as above.
            State::Kernel { .. } => unsafe {
                real::receive_first(taken.handle, self.place.buffer, self.place.receive_len)
            },
            // It has been closed. Its handle may be another socket's by now.
            _ => Some(Err(ABORTED)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::Address;

    #[test]
    fn addresses_are_found_where_they_were_written_and_nowhere_else() {
        let mut buffer = [0_u8; 100];
        let place = AcceptPlace { buffer: buffer.as_mut_ptr(), receive_len: 5, local_len: 32, remote_len: 32 };
        let ends = [1, 2].map(|last| Endpoint::new(Address::v4([10, 0, 0, last]), 80));
        // SAFETY: room for 69 bytes.
        unsafe {
            place.put(Family::V4, (ends[0], ends[1]));
            let (local, len) = written_address(buffer.as_mut_ptr().add(5), 32).unwrap();
            assert_eq!((local, len), (buffer.as_mut_ptr().add(5 + HEAD), 16));
            let (remote, _) = written_address(buffer.as_mut_ptr().add(37), 32).unwrap();
            assert_eq!(std::slice::from_raw_parts(remote.add(4), 4), [10, 0, 0, 2]);
            assert!(written_address(buffer.as_mut_ptr(), 32).is_none());
            assert!(written_address(std::ptr::null_mut(), 32).is_none());
        }
        let mut small = [0_u8; 40];
        let place = AcceptPlace { buffer: small.as_mut_ptr(), receive_len: 0, local_len: 20, remote_len: 20 };
        // SAFETY: room for 40 bytes.
        unsafe { place.put(Family::V4, (ends[0], ends[1])) };
        assert_eq!(small, [0; 40], "no room");
    }
}
