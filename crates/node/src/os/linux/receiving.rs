//! One receive call, with the driver's timestamp of the packet.

use crate::os::Taken;
use nix::sys::socket::sockopt::ReceiveTimestampns;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, recvmsg, setsockopt};
use nix::sys::time::TimeSpec;
use std::io::{self, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Has packets of a socket stamped; connections that a listener accepts inherit it. Without
/// timestamps, messages are still received.
pub(crate) fn stamp_arrivals(socket: &impl AsFd) {
    let _ = setsockopt(socket, ReceiveTimestampns, &true);
}

/// One receive call, without parsing.
pub(crate) fn receive<T>(
    socket: &impl AsFd,
    buffer: &mut [u8],
    read_clock: impl FnOnce() -> T,
) -> io::Result<Taken<T>> {
    let mut control = nix::cmsg_space!(TimeSpec);
    let mut place = [IoSliceMut::new(buffer)];
    let descriptor = socket.as_fd().as_raw_fd();
    let message = recvmsg::<()>(descriptor, &mut place, Some(&mut control), MsgFlags::empty())?;
    let (now, wall) = (read_clock(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
    let stamp = message.cmsgs()?.find_map(|message| match message {
        ControlMessageOwned::ScmTimestampns(stamp) => Some(Duration::from(stamp)),
        _ => None,
    });
    let waited_ns = stamp.map(|stamp| u64::try_from(wall.saturating_sub(stamp).as_nanos()).unwrap_or(u64::MAX));
    Ok(Taken { length: message.bytes, now, waited_ns })
}
