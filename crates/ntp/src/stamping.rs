//! The kernel's stamps of packets, and network cards' (SO_TIMESTAMPING): asked for, and taken from
//! what the kernel tells. Its own are in ns of CLOCK_REALTIME, of which [`crate::sandwich`] makes
//! counts; a card's are in ns of its own clock, for [`crate::hardware`].

mod control;

#[cfg(test)]
pub(crate) use control::made;

use control::{Said, nanoseconds, said};
use nix::errno::Errno;
use nix::sys::socket::{
    ControlMessageOwned, MsgFlags, RecvMsg, SockaddrStorage, TimestampingFlag, Timestamps, recvmsg, setsockopt, sockopt,
};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, AsRawFd};

/// `SOF_TIMESTAMPING_RX_HARDWARE` and `SOF_TIMESTAMPING_OPT_TX_SWHW` (linux/net_tstamp.h), which
/// nix does not name.
const RX_HARDWARE: u32 = 1 << 2;
const OPT_TX_SWHW: u32 = 1 << 14;

/// What has left: the errors of a socket come the same way, and have neither.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Departure {
    /// Of the messages sent on this socket, its number, counted from 0.
    pub number: Option<u32>,
    /// When it left, by the kernel.
    pub stamp: Option<i64>,
    /// When it left, by the card.
    pub card: Option<i64>,
}

/// What has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// When it came, by the kernel.
    pub stamp: Option<i64>,
    /// When it came, by the card: when the beginning of the frame did.
    pub card: Option<i64>,
}

/// Asks for the stamps of all that leaves and comes: in software, as late and as early as the
/// kernel can.
///
/// # Errors
/// This kernel has none.
pub fn ask(socket: &impl AsFd) -> nix::Result<()> {
    setsockopt(socket, sockopt::Timestamping, &software())
}

/// Asks for the card's stamps, too. Departures are then told twice, once by each.
///
/// # Errors
/// This kernel has no such stamps; all is as it was.
pub fn ask_card(socket: &impl AsFd) -> nix::Result<()> {
    let card = TimestampingFlag::SOF_TIMESTAMPING_RAW_HARDWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_HARDWARE
        | TimestampingFlag::from_bits_retain(RX_HARDWARE | OPT_TX_SWHW);
    setsockopt(socket, sockopt::Timestamping, &(software() | card))
}

fn software() -> TimestampingFlag {
    TimestampingFlag::SOF_TIMESTAMPING_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_TX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_RX_SOFTWARE
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_ID
        | TimestampingFlag::SOF_TIMESTAMPING_OPT_TSONLY
}

impl Arrival {
    /// From the control messages beside a message that has come, as the kernel has laid them out.
    /// What is no such message tells nothing.
    #[must_use]
    pub fn read(control: &[u8]) -> Self {
        Self::of(said(control))
    }

    fn of(said: impl Iterator<Item = Said>) -> Self {
        said.fold(Self::default(), |all, one| match one {
            Said::Stamps { kernel, card } => Self { stamp: all.stamp.or(kernel), card: all.card.or(card) },
            Said::Departed(_) => all,
        })
    }
}

impl Departure {
    /// From the control messages of the error queue, as the kernel has laid them out. What is no
    /// such message tells nothing.
    #[must_use]
    pub fn read(control: &[u8]) -> Self {
        Self::of(said(control))
    }

    fn of(said: impl Iterator<Item = Said>) -> Self {
        said.fold(Self::default(), |all, one| match one {
            Said::Stamps { kernel, card } => Self { stamp: all.stamp.or(kernel), card: all.card.or(card), ..all },
            Said::Departed(number) => Self { number: Some(number), ..all },
        })
    }
}

/// When a message arrived that was received with room for the control message [`Timestamps`].
#[must_use]
pub fn arrival<S>(message: &RecvMsg<'_, '_, S>) -> Arrival {
    Arrival::of(decoded(message))
}

/// The next of the socket's error queue; `None` if it is empty.
#[must_use]
pub fn departure(socket: &impl AsRawFd) -> Option<Departure> {
    // The queue gives no bytes back (OPT_TSONLY), but for errors: those of one message, cut off.
    let mut none = [0; 64];
    let mut iov = [IoSliceMut::new(&mut none)];
    let mut control = nix::cmsg_space!(Timestamps, [u8; 128]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut iov, Some(&mut control), flags).ok()?;
    Some(Departure::read(&control))
}

/// What a message of the error queue tells.
#[must_use]
pub fn departed<S>(message: &RecvMsg<'_, '_, S>) -> Departure {
    Departure::of(decoded(message))
}

/// The same facts where another library has received, many at once, and keeps the bytes to itself.
fn decoded<S>(message: &RecvMsg<'_, '_, S>) -> impl Iterator<Item = Said> {
    message.cmsgs().ok().into_iter().flatten().filter_map(|control| match control {
        ControlMessageOwned::ScmTimestampsns(stamps) => {
            let [kernel, card] = [stamps.system, stamps.hw_raw].map(|at| nanoseconds(at.tv_sec(), at.tv_nsec()));
            Some(Said::Stamps { kernel, card })
        }
        ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _)
            if error.ee_errno == Errno::ENOMSG as u32 =>
        {
            Some(Said::Departed(error.ee_data))
        }
        _ => None,
    })
}
