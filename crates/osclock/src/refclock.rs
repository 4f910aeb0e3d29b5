//! The segment from which ntpd and chronyd read a reference clock: System V shared memory, one
//! segment for each unit, keyed "NTP0" + unit.
//!
//! The layout and the protocol are ntpd's (`refclock_shm.c`, mode 1): the writer increments the
//! count, writes the sample, increments the count again and sets `valid`. A reader that sees the
//! same count before and after has a consistent sample, and clears `valid`.

use nix::errno::Errno;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering, fence};
use thiserror::Error;

/// "NTP0".
const KEY: i32 = 0x4e54_5030;
/// The units that only their owner may write, by ntpd's convention.
const PRIVATE_UNITS: u8 = 2;

/// `struct shmTime`.
#[derive(Debug, Default)]
#[repr(C)]
struct ShmTime {
    mode: AtomicI32,
    count: AtomicI32,
    clock_s: AtomicI64,
    clock_us: AtomicI32,
    receive_s: AtomicI64,
    receive_us: AtomicI32,
    leap: AtomicI32,
    precision: AtomicI32,
    samples: AtomicI32,
    valid: AtomicI32,
    clock_ns: AtomicU32,
    receive_ns: AtomicU32,
    dummy: [AtomicI32; 8],
}

const SIZE: usize = size_of::<ShmTime>();
// The layout in C with a time_t of 64 bits.
const _: () = assert!(SIZE == 96 && std::mem::offset_of!(ShmTime, receive_s) == 24);

/// The leap indicator for the end of the day (RFC 5905 §7.3).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(i32)]
pub enum ShmLeap {
    /// No leap second.
    #[default]
    None = 0,
    /// A second is inserted.
    Insert = 1,
    /// A second is deleted.
    Delete = 2,
}

/// The readings of both clocks at one instant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sample {
    /// The reference clock: Unix time in ns.
    pub clock: i64,
    /// The system clock: Unix time in ns.
    pub system: i64,
    /// The leap second at the end of the day.
    pub leap: ShmLeap,
    /// Precision of the reference clock, log2 of seconds.
    pub precision: i8,
}

/// Why a unit cannot be used.
#[derive(Debug, Error)]
pub enum ShmError {
    /// The system refused.
    #[error("cannot {what} the NTP shared memory of unit {unit}: {errno}{}", advice(*.errno))]
    System {
        /// What was tried.
        what: &'static str,
        /// Of which unit.
        unit: u8,
        /// Why not.
        errno: Errno,
    },
    /// Another user owns the segment and could write any time to it.
    #[error(
        "the NTP shared memory of unit {unit} belongs to user {owner} and could carry a false time: remove it (ipcrm -M {key:#x}) or use another unit",
        key = key(*.unit)
    )]
    Foreign {
        /// Which.
        unit: u8,
        /// Whose it is.
        owner: u32,
    },
}

const fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::EACCES => {
            " (its owner does not share it: start this daemon first, or let chronyd make it with `refclock SHM UNIT:perm=0666`)"
        }
        Errno::EINVAL => " (there is another one of that key; see `ipcs -m`)",
        _ => "",
    }
}

const fn key(unit: u8) -> i32 {
    KEY + unit as i32
}

/// The permissions of a unit's segment.
const fn mode(unit: u8) -> i32 {
    if unit < PRIVATE_UNITS { 0o600 } else { 0o666 }
}

/// A unit's segment, attached.
#[derive(Debug)]
pub struct Segment(NonNull<ShmTime>);

// SAFETY: the memory holds atomics, which any thread may use; only the owner detaches it.
unsafe impl Send for Segment {}

impl Segment {
    /// Attaches the segment of a unit and creates it if it is missing. As for ntpd, units 0 and 1
    /// are for this user only, the others for all users.
    ///
    /// # Errors
    /// It belongs to another user, or the system refuses.
    pub fn attach(unit: u8) -> Result<Self, ShmError> {
        let system = |what| move |errno| ShmError::System { what, unit, errno };
        // SAFETY: creates or finds a segment; touches no memory.
        let id = Errno::result(unsafe { libc::shmget(key(unit), SIZE, libc::IPC_CREAT | mode(unit)) })
            .map_err(system("make"))?;
        // SAFETY: the structure's fields are integers, for which zero is a value.
        let mut about: libc::shmid_ds = unsafe { std::mem::zeroed() };
        // SAFETY: the structure has the kernel's layout, is initialised, and is not shared.
        Errno::result(unsafe { libc::shmctl(id, libc::IPC_STAT, &raw mut about) }).map_err(system("look at"))?;
        let owner = [about.shm_perm.uid, about.shm_perm.cuid];
        let trusted = [0, nix::unistd::geteuid().as_raw()];
        if let Some(&owner) = owner.iter().find(|owner| !trusted.contains(owner)) {
            return Err(ShmError::Foreign { unit, owner });
        }
        // SAFETY: attaches the segment wherever there is room; nothing else is there.
        let start = unsafe { libc::shmat(id, std::ptr::null(), 0) };
        // shmat(2): -1 is the error.
        if start.addr() == usize::MAX {
            return Err(system("attach")(Errno::last()));
        }
        NonNull::new(start.cast()).map(Self).ok_or_else(|| system("attach")(Errno::EFAULT))
    }

    fn time(&self) -> &ShmTime {
        // SAFETY: the segment has at least SIZE bytes (else shmget fails), begins at a page, and
        // stays attached as long as `self`. Other processes may share it, so it is accessed by
        // atomic operations only.
        unsafe { self.0.as_ref() }
    }

    /// Writes a sample for the readers of the unit.
    pub fn feed(&self, sample: &Sample) {
        const SECOND: i64 = 1_000_000_000;
        let time = self.time();
        let order = Ordering::Relaxed;
        time.valid.store(0, order);
        time.mode.store(1, order);
        time.count.store(time.count.load(order).wrapping_add(1), order);
        fence(Ordering::SeqCst);
        for (ns, s, us, rest) in [
            (sample.clock, &time.clock_s, &time.clock_us, &time.clock_ns),
            (sample.system, &time.receive_s, &time.receive_us, &time.receive_ns),
        ] {
            let below = ns.rem_euclid(SECOND);
            s.store(ns.div_euclid(SECOND), order);
            us.store((below / 1000) as i32, order);
            rest.store(below as u32, order);
        }
        time.leap.store(sample.leap as i32, order);
        time.precision.store(sample.precision.into(), order);
        fence(Ordering::SeqCst);
        time.count.store(time.count.load(order).wrapping_add(1), order);
        fence(Ordering::SeqCst);
        time.valid.store(1, order);
    }

    /// Takes the current sample, as ntpd does. A sample that is being written meanwhile, even with
    /// an unchanged count, is not taken.
    #[must_use]
    pub fn take(&self) -> Option<Sample> {
        const SECOND: i64 = 1_000_000_000;
        let time = self.time();
        let order = Ordering::Relaxed;
        if time.valid.load(order) == 0 || time.mode.load(order) != 1 {
            return None;
        }
        let count = time.count.load(order);
        fence(Ordering::SeqCst);
        let at = |s: &AtomicI64, ns: &AtomicU32| {
            Some(s.load(order).checked_mul(SECOND)?.saturating_add(ns.load(order).into()))
        };
        let clock = at(&time.clock_s, &time.clock_ns);
        let system = at(&time.receive_s, &time.receive_ns);
        let (leap, precision) = (time.leap.load(order), time.precision.load(order));
        fence(Ordering::SeqCst);
        if time.count.load(order) != count || time.valid.load(order) == 0 {
            return None;
        }
        time.valid.store(0, order);
        let leap = match leap {
            0 => ShmLeap::None,
            1 => ShmLeap::Insert,
            2 => ShmLeap::Delete,
            _ => return None,
        };
        Some(Sample { clock: clock?, system: system?, leap, precision: i8::try_from(precision).ok()? })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: attached by `attach`, and nothing borrows from it any more. The segment itself
        // remains for its readers.
        unsafe { libc::shmdt(self.0.as_ptr().cast()) };
    }
}

/// Removes a unit's segment; the kernel frees it once no process is attached to it.
///
/// # Errors
/// There is none, or it is another user's.
pub fn remove(unit: u8) -> nix::Result<()> {
    // SAFETY: finds a segment; touches no memory.
    let id = Errno::result(unsafe { libc::shmget(key(unit), 0, 0) })?;
    // SAFETY: removes the key only; attached processes keep the segment.
    Errno::result(unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) }).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_units_are_their_owners_alone() {
        assert_eq!([0, 1, 2, 255].map(mode), [0o600, 0o600, 0o666, 0o666]);
        assert_eq!([0, 2].map(key), [0x4e54_5030, 0x4e54_5032]);
    }
}
