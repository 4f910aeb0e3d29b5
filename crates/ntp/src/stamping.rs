//! The kernel's stamps of packets (SO_TIMESTAMPING): asked for, and taken from what it tells. In ns of CLOCK_REALTIME; [`crate::sandwich`] makes counts of them.

use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, TimestampingFlag, Timestamps, recvmsg, setsockopt, sockopt,
};
use nix::sys::time::TimeSpec;
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd};

/// What has left: the errors of a socket come the same way, and have neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// Of the messages sent on this socket, its number, counted from 0.
    pub number: Option<u32>,
    /// When it left.
    pub stamp: Option<i64>,
}

/// Asks for the stamps of all that leaves and comes: in software, as late and as early as the kernel can.
///
/// # Errors
/// This kernel has none.
pub fn ask(socket: &impl AsFd) -> nix::Result<()> {
    let stamps = TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY;
    setsockopt(socket, sockopt::Timestamping, &stamps)
}

/// When a message arrived that was received with room for the control message [`Timestamps`].
#[must_use]
pub fn arrival<S>(message: &RecvMsg<'_, '_, S>) -> Option<i64> {
    message.cmsgs().ok().into_iter().flatten().find_map(|control| match control {
        ControlMessageOwned::ScmTimestampsns(stamps) => nanoseconds(stamps.system),
        _ => None,
    })
}

/// The next of the socket's error queue; `None` if it is empty.
#[must_use]
pub fn departure(socket: &impl AsRawFd) -> Option<Departure> {
    // The queue gives no bytes back (OPT_TSONLY), but for errors: those of one message, cut off.
    let mut none = [0; 64];
    let mut iov = [IoSliceMut::new(&mut none)];
    let mut control = nix::cmsg_space!(Timestamps, [u8; 128]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    let message = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut iov, Some(&mut control), flags).ok()?;
    Some(departed(&message))
}

/// What a message of the error queue tells.
#[must_use]
pub fn departed<S>(message: &RecvMsg<'_, '_, S>) -> Departure {
    let mut departure = Departure::default();
    for control in message.cmsgs().ok().into_iter().flatten() {
        match control {
            ControlMessageOwned::ScmTimestampsns(stamps) => departure.stamp = nanoseconds(stamps.system),
            ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)
                if error.ee_errno == Errno::ENOMSG as u32 =>
            {
                departure.number = Some(error.ee_data);
            }
            _ => {}
        }
    }
    departure
}

/// A stamp in ns; zero means that there is none.
fn nanoseconds(stamp: TimeSpec) -> Option<i64> {
    Some(stamp.tv_sec() * 1_000_000_000 + stamp.tv_nsec()).filter(|&ns| ns != 0)
}
