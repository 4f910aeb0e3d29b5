//! A network card's own clock (PTP hardware clock, `/dev/ptpN`), read together with CLOCK_REALTIME.
//! Reading needs only the permission to open the device. Nothing here sets the clock.

pub use crate::hardware::Triple;
use libc::{ptp_clock_time, ptp_sys_offset, ptp_sys_offset_extended, ptp_sys_offset_precise};
use nix::errno::Errno;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, RawFd};

/// Number of readings in one call.
const SAMPLES: usize = 7;

/// How card and system are read together, in the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Method {
    /// Both at one instant, by the hardware itself (PTM, ART).
    Precise,
    /// The driver reads the system's clock just before and after the one register read.
    Extended,
    /// The kernel reads the system's clock before and after the driver's call.
    Around,
}

const METHODS: [Method; 3] = [Method::Precise, Method::Extended, Method::Around];

/// A card's clock.
#[derive(Debug)]
pub struct Phc {
    file: File,
}

impl Phc {
    /// Opens `/dev/ptpN`.
    ///
    /// # Errors
    /// There is no clock of this number, or it may not be read.
    pub fn open(number: u32) -> io::Result<Self> {
        Ok(Self { file: File::open(format!("/dev/ptp{number}"))? })
    }

    /// Reads the clock several times by the best method that works now: a cross timestamp may fail
    /// at times even if the card offers it.
    ///
    /// # Errors
    /// It cannot be read: the card is gone, or this is not a clock.
    pub fn read(&self) -> nix::Result<Vec<Triple>> {
        let fd = self.file.as_raw_fd();
        let mut error = Errno::EOPNOTSUPP;
        for method in METHODS {
            match read(fd, method) {
                Ok(triples) => return Ok(triples),
                Err(Errno::ENODEV) => return Err(Errno::ENODEV),
                Err(another) => error = another,
            }
        }
        Err(error)
    }

    /// Reads the clock's register several times, with the system's clock before and after, so that
    /// the duration of a reading shows. A cross timestamp would not show it.
    ///
    /// # Errors
    /// The clock offers cross timestamps only, or as for [`Self::read`].
    pub fn read_register(&self) -> nix::Result<Vec<Triple>> {
        let fd = self.file.as_raw_fd();
        match read(fd, Method::Extended) {
            Ok(triples) => Ok(triples),
            Err(Errno::ENODEV) => Err(Errno::ENODEV),
            Err(_) => read(fd, Method::Around),
        }
    }
}

fn read(fd: RawFd, method: Method) -> nix::Result<Vec<Triple>> {
    match method {
        Method::Precise => {
            let one = sys::precise(fd)?;
            let (system, card) = (ns(one.sys_realtime), ns(one.device));
            Ok(vec![Triple { before: system, card, after: system }])
        }
        Method::Extended => {
            let all = sys::extended(fd, SAMPLES as u32)?;
            Ok(all.ts[..SAMPLES].iter().map(|&[before, card, after]| triple(before, card, after)).collect())
        }
        Method::Around => {
            let all = sys::around(fd, SAMPLES as u32)?;
            // System, card, system, card, ..., system.
            Ok(all.ts[..=2 * SAMPLES].windows(3).step_by(2).map(|ts| triple(ts[0], ts[1], ts[2])).collect())
        }
    }
}

fn triple(before: ptp_clock_time, card: ptp_clock_time, after: ptp_clock_time) -> Triple {
    Triple { before: ns(before), card: ns(card), after: ns(after) }
}

/// Saturates, because a card's clock may report any value.
fn ns(time: ptp_clock_time) -> i64 {
    time.sec.saturating_mul(1_000_000_000).saturating_add(i64::from(time.nsec))
}

/// The kernel's calls.
mod sys {
    use super::{RawFd, ptp_sys_offset, ptp_sys_offset_extended, ptp_sys_offset_precise};
    use std::mem::zeroed;

    nix::ioctl_readwrite_bad!(ptp_sys_offset_precise_call, libc::PTP_SYS_OFFSET_PRECISE, ptp_sys_offset_precise);
    nix::ioctl_readwrite_bad!(ptp_sys_offset_extended_call, libc::PTP_SYS_OFFSET_EXTENDED, ptp_sys_offset_extended);
    // Declared as write-only in the ABI, but the kernel fills the structure in.
    nix::ioctl_readwrite_bad!(ptp_sys_offset_call, libc::PTP_SYS_OFFSET, ptp_sys_offset);

    pub(super) fn precise(fd: RawFd) -> nix::Result<ptp_sys_offset_precise> {
        // SAFETY: all of the structure's fields are integers, for which zero is a value.
        let mut all: ptp_sys_offset_precise = unsafe { zeroed() };
        // SAFETY: the structure has the kernel's layout, is initialised, and is not shared.
        unsafe { ptp_sys_offset_precise_call(fd, &raw mut all) }?;
        Ok(all)
    }

    pub(super) fn extended(fd: RawFd, samples: u32) -> nix::Result<ptp_sys_offset_extended> {
        // SAFETY: as in `precise`.
        let mut all: ptp_sys_offset_extended = unsafe { zeroed() };
        all.n_samples = samples;
        // SAFETY: as in `precise`; it has room for the most samples that the kernel gives.
        unsafe { ptp_sys_offset_extended_call(fd, &raw mut all) }?;
        Ok(all)
    }

    pub(super) fn around(fd: RawFd, samples: u32) -> nix::Result<ptp_sys_offset> {
        // SAFETY: as in `precise`.
        let mut all: ptp_sys_offset = unsafe { zeroed() };
        all.n_samples = samples;
        // SAFETY: as in `extended`.
        unsafe { ptp_sys_offset_call(fd, &raw mut all) }?;
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_card_is_an_error() {
        assert_eq!(Phc::open(u32::MAX).unwrap_err().kind(), io::ErrorKind::NotFound);
        let file = File::open("/dev/null").unwrap();
        let phc = Phc { file };
        assert_eq!((phc.read(), phc.read_register()), (Err(Errno::ENOTTY), Err(Errno::ENOTTY)));
    }

    #[test]
    fn a_clock_of_this_machine_runs_beside_the_systems() {
        // Few virtual machines have one; the test reads it if there is one and it may be read.
        for clock in (0..4).filter_map(|number| Phc::open(number).ok()) {
            for method in METHODS {
                let Ok(triples) = read(clock.file.as_raw_fd(), method) else { continue };
                assert!(triples.iter().all(|one| one.before <= one.after), "{method:?}: {triples:?}");
                assert!(triples.windows(2).all(|two| two[0].card < two[1].card), "{method:?}: {triples:?}");
            }
            assert!(!clock.read().unwrap().is_empty());
        }
    }
}
