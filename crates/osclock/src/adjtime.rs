//! adjtimex(2): reads and sets the state of CLOCK_REALTIME in the kernel. Reading needs no
//! privileges, setting needs CAP_SYS_TIME.

use libc::{c_int, c_long, c_uint, timex};
use nix::errno::Errno;

/// The kernel's frequency units in a ppm: they are 2^-16 ppm.
pub const UNITS_PER_PPM: f64 = 65_536.0;
/// Maximum frequency adjustment of the kernel's clock in either direction, in ppm.
pub const MOST_PPM: f64 = 500.0;

/// A leap second at the end of this UTC day, which the kernel applies itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KernelLeap {
    /// None.
    #[default]
    None,
    /// A second is inserted.
    Insert,
    /// A second is deleted.
    Delete,
}

/// The state of the kernel's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelClockState {
    /// Frequency adjustment in 2^-16 ppm; positive is faster.
    pub frequency: i64,
    /// Microseconds in a tick: usually 10000, but a program may change it.
    pub tick: i64,
    /// The remaining offset of the kernel's PLL.
    pub offset: i64,
    /// Whether the PLL, the FLL or the PPS discipline is on; ntpd and systemd-timesyncd use the
    /// PLL.
    pub looped: bool,
    /// Whether the clock counts as unsynchronised (`STA_UNSYNC`): no program has set its maximum
    /// error for long.
    pub unsynchronised: bool,
    /// Maximum error in microseconds: the last value that was set plus 500 ppm since then.
    pub most_error: i64,
}

/// The clock's quality, as the kernel reports it to programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelStatus {
    /// Whether it is synchronised.
    pub synchronised: bool,
    /// Estimated error, in microseconds.
    pub error: i64,
    /// Maximum error, in microseconds.
    pub most_error: i64,
    /// The leap second at the end of the day.
    pub leap: KernelLeap,
}

const LOOPS: c_int = libc::STA_PLL | libc::STA_FLL | libc::STA_PPSFREQ | libc::STA_PPSTIME;

/// Calls adjtimex, setting the fields that `modes` names.
fn adjust(modes: c_uint, fill: impl FnOnce(&mut timex)) -> nix::Result<timex> {
    // SAFETY: all of the structure's fields are integers, for which zero is a value.
    let mut timex: timex = unsafe { std::mem::zeroed() };
    timex.modes = modes;
    fill(&mut timex);
    // SAFETY: the structure has the kernel's layout, is initialised, and is not shared.
    Errno::result(unsafe { libc::adjtimex(&raw mut timex) })?;
    Ok(timex)
}

/// Reads the state of the clock.
///
/// # Errors
/// A system call filter forbids the call.
pub fn look() -> nix::Result<KernelClockState> {
    let timex = adjust(0, |_| ())?;
    Ok(KernelClockState {
        frequency: timex.freq,
        tick: timex.tick,
        offset: timex.offset,
        looped: timex.status & LOOPS != 0,
        unsynchronised: timex.status & libc::STA_UNSYNC != 0,
        most_error: timex.maxerror,
    })
}

/// Checks that this process may steer the clock, by setting a value to itself.
///
/// # Errors
/// `EPERM`: it may not.
pub fn may_steer() -> nix::Result<()> {
    // ADJ_ESTERROR is the only mode that does not affect the clock.
    let now = adjust(0, |_| ())?;
    adjust(libc::ADJ_ESTERROR, |timex| timex.esterror = now.esterror).map(drop)
}

/// Ends adjustments by other programs: a slew by adjtime(3), the kernel's PLL, and another tick
/// length. The frequency stays.
///
/// # Errors
/// As [`may_steer`].
pub fn take_over(tick: i64) -> nix::Result<()> {
    adjust(libc::ADJ_OFFSET_SINGLESHOT, |timex| timex.offset = 0)?;
    // The PLL's remaining offset can be cleared only while the PLL is on.
    adjust(libc::ADJ_OFFSET | libc::ADJ_STATUS, |timex| timex.status = libc::STA_PLL)?;
    adjust(libc::ADJ_STATUS | libc::ADJ_TICK, |timex| {
        timex.status = libc::STA_UNSYNC;
        timex.tick = tick as c_long;
    })
    .map(drop)
}

/// Sets the frequency adjustment in 2^-16 ppm; positive is faster.
///
/// # Errors
/// As [`may_steer`].
pub fn set_frequency(units: i64) -> nix::Result<()> {
    adjust(libc::ADJ_FREQUENCY, |timex| timex.freq = units as c_long).map(drop)
}

/// Steps the clock forward by `ns`.
///
/// # Errors
/// As [`may_steer`]; `EINVAL` if the time would be before 1970.
pub fn step(ns: i64) -> nix::Result<()> {
    const SECOND: i64 = 1_000_000_000;
    adjust(libc::ADJ_SETOFFSET | libc::ADJ_NANO, |timex| {
        timex.time.tv_sec = ns.div_euclid(SECOND);
        // With ADJ_NANO this field is in ns, despite its name.
        timex.time.tv_usec = ns.rem_euclid(SECOND);
    })
    .map(drop)
}

/// Sets the clock's quality, which programs can query (ntp_gettime(3), timedatectl(1)).
///
/// # Errors
/// As [`may_steer`].
pub fn tell(told: KernelStatus) -> nix::Result<()> {
    let leap = match told.leap {
        KernelLeap::None => 0,
        KernelLeap::Insert => libc::STA_INS,
        KernelLeap::Delete => libc::STA_DEL,
    };
    adjust(libc::ADJ_STATUS | libc::ADJ_ESTERROR | libc::ADJ_MAXERROR, |timex| {
        timex.status = leap | if told.synchronised { 0 } else { libc::STA_UNSYNC };
        timex.esterror = told.error as c_long;
        timex.maxerror = told.most_error as c_long;
    })
    .map(drop)
}

/// The nominal tick length in microseconds.
///
/// # Errors
/// The system does not report it.
pub fn usual_tick() -> nix::Result<i64> {
    let hz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.filter(|&hz| hz > 0);
    hz.map(|hz| 1_000_000 / hz).ok_or(Errno::ENOSYS)
}

/// Sets the kernel's TAI - UTC in seconds.
///
/// # Errors
/// As [`may_steer`].
pub fn set_tai(offset: i32) -> nix::Result<()> {
    adjust(libc::ADJ_TAI, |timex| timex.constant = c_long::from(offset)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_needs_no_rights_and_finds_what_is_possible() {
        let state = look().unwrap();
        assert!(state.frequency.unsigned_abs() as f64 <= MOST_PPM * UNITS_PER_PPM, "{state:?}");
        let usual = usual_tick().unwrap();
        assert!((usual - usual / 10..=usual + usual / 10).contains(&state.tick), "{state:?}");
    }
}
