//! Packet timestamps of the kernel and of network cards (SO_TIMESTAMPING): how they are enabled,
//! and how they are parsed. The kernel's are in ns of CLOCK_REALTIME, which
//! [`crate::cross_timestamp`] converts to counts; a card's are in ns of its own clock, for
//! [`crate::hardware`].

mod control;

pub use crate::timestamps::{RxTimestamps, TxTimestamps};
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

/// Enables software timestamps of all departures and arrivals, as late and as early as the kernel
/// can.
///
/// # Errors
/// This kernel has no timestamps.
pub fn ask(socket: &impl AsFd) -> nix::Result<()> {
    setsockopt(socket, sockopt::Timestamping, &software())
}

/// Also enables the card's timestamps. Departures are then reported twice, once by each.
///
/// # Errors
/// This kernel has no hardware timestamps; the socket is unchanged.
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

impl RxTimestamps {
    /// From the control messages of a received message, in the kernel's layout. Other bytes are
    /// ignored.
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

impl TxTimestamps {
    /// From the control messages of the error queue, in the kernel's layout. Other bytes are
    /// ignored.
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

/// The receive timestamps of a message that was received with room for the control message
/// [`Timestamps`].
#[must_use]
pub fn arrival<S>(message: &RecvMsg<'_, '_, S>) -> RxTimestamps {
    RxTimestamps::of(decoded(message))
}

/// The next report of the socket's error queue; `None` if it is empty.
#[must_use]
pub fn departure(socket: &impl AsRawFd) -> Option<TxTimestamps> {
    // The queue returns no payload (OPT_TSONLY), except for errors: that of one message, truncated.
    let mut none = [0; 64];
    let mut iov = [IoSliceMut::new(&mut none)];
    let mut control = nix::cmsg_space!(Timestamps, [u8; 128]);
    let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
    recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut iov, Some(&mut control), flags).ok()?;
    Some(TxTimestamps::read(&control))
}

/// The report in a message of the error queue.
#[must_use]
pub fn departed<S>(message: &RecvMsg<'_, '_, S>) -> TxTimestamps {
    TxTimestamps::of(decoded(message))
}

/// The same facts from messages that nix has received in a batch; it does not expose their control
/// bytes.
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

#[cfg(test)]
mod tests {
    use super::control::made::{departed, error, stamps};
    use super::*;

    #[test]
    fn kernel_and_card_report_a_departure_one_by_one_or_together() {
        for (kernel, card) in [(Some(5), None), (None, Some(7)), (Some(5), Some(7))] {
            let stamps = stamps(kernel.unwrap_or(0), card.unwrap_or(0));
            for v6 in [false, true] {
                let report = TxTimestamps::read(&[stamps.clone(), departed(v6, 4)].concat());
                assert_eq!(report, TxTimestamps { number: Some(4), stamp: kernel, card });
            }
            assert_eq!(RxTimestamps::read(&stamps), RxTimestamps { stamp: kernel, card });
        }
    }

    #[test]
    fn a_report_on_no_message_has_no_number() {
        let some = TxTimestamps { number: None, stamp: Some(5), card: Some(7) };
        assert_eq!(TxTimestamps::read(&stamps(5, 7)), some);
        // The network reports a closed port; its data field looks like a message's number, but is
        // none.
        let report = [stamps(5, 7), error(false, Errno::ECONNREFUSED, 2, 4)].concat();
        assert_eq!(TxTimestamps::read(&report), some);
        assert_eq!(TxTimestamps::read(&[]), TxTimestamps::default());
    }
}
