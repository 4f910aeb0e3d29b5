//! adjtimex(2): how the kernel runs CLOCK_REALTIME, and how it is told to run it otherwise. Looking
//! needs no rights, telling needs CAP_SYS_TIME.

use libc::{c_int, c_long, c_uint, timex};
use nix::errno::Errno;

/// What the kernel takes for a million: a frequency is in units of 2^-16 ppm.
pub const UNITS_PER_PPM: f64 = 65_536.0;
/// The most that the kernel's clock can be sped up or slowed down, in ppm.
pub const MOST_PPM: f64 = 500.0;

/// A leap second at the end of this UTC day, which the kernel applies by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leap {
    /// None.
    #[default]
    None,
    /// A second more.
    Insert,
    /// A second less.
    Delete,
}

/// How the kernel runs its clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// Faster than it would be by itself by so many 2^-16 ppm.
    pub frequency: i64,
    /// Microseconds in a tick: 10000 unless somebody makes them longer or shorter.
    pub tick: i64,
    /// What the kernel's own control loop has still to make good.
    pub offset: i64,
    /// Whether that loop is on, as ntpd and systemd-timesyncd use it.
    pub looped: bool,
    /// Whether nobody has said for long how far off the clock is.
    pub unsynchronised: bool,
    /// What somebody said that it may be off at most, and 500 ppm since, in microseconds.
    pub most_error: i64,
}

/// What programs are told of the clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Told {
    /// Whether it is synchronised.
    pub synchronised: bool,
    /// Estimated error, in microseconds.
    pub error: i64,
    /// The most that it can be off, in microseconds.
    pub most_error: i64,
    /// What is to come at the end of the day.
    pub leap: Leap,
}

const LOOPS: c_int = libc::STA_PLL | libc::STA_FLL | libc::STA_PPSFREQ | libc::STA_PPSTIME;

/// Asks the kernel, and tells it what `modes` names.
fn adjust(modes: c_uint, fill: impl FnOnce(&mut timex)) -> nix::Result<timex> {
    // SAFETY: all of the structure's fields are integers, for which zero is a value.
    let mut timex: timex = unsafe { std::mem::zeroed() };
    timex.modes = modes;
    fill(&mut timex);
    // SAFETY: the structure is the kernel's own, whole, and ours alone.
    Errno::result(unsafe { libc::adjtimex(&raw mut timex) })?;
    Ok(timex)
}

/// How the clock is run now.
///
/// # Errors
/// A system call filter forbids to ask.
pub fn look() -> nix::Result<State> {
    let timex = adjust(0, |_| ())?;
    Ok(State {
        frequency: timex.freq,
        tick: timex.tick,
        offset: timex.offset,
        looped: timex.status & LOOPS != 0,
        unsynchronised: timex.status & libc::STA_UNSYNC != 0,
        most_error: timex.maxerror,
    })
}

/// Whether this process may steer at all: tells the kernel what it says itself.
///
/// # Errors
/// `EPERM`: it may not.
pub fn may_steer() -> nix::Result<()> {
    // ADJ_ESTERROR: of all that can be told the one that moves nothing.
    let now = adjust(0, |_| ())?;
    adjust(libc::ADJ_ESTERROR, |timex| timex.esterror = now.esterror).map(drop)
}

/// Ends whatever others have begun: a slew by adjtime(3), the kernel's own loop, ticks of another
/// length. The frequency stays.
///
/// # Errors
/// As [`may_steer`].
pub fn take_over(tick: i64) -> nix::Result<()> {
    adjust(libc::ADJ_OFFSET_SINGLESHOT, |timex| timex.offset = 0)?;
    // What the loop has still to make good can be taken from it only while it is on.
    adjust(libc::ADJ_OFFSET | libc::ADJ_STATUS, |timex| timex.status = libc::STA_PLL)?;
    adjust(libc::ADJ_STATUS | libc::ADJ_TICK, |timex| {
        timex.status = libc::STA_UNSYNC;
        timex.tick = tick as c_long;
    })
    .map(drop)
}

/// Runs the clock faster than it would be by itself, by so many 2^-16 ppm.
///
/// # Errors
/// As [`may_steer`].
pub fn set_frequency(units: i64) -> nix::Result<()> {
    adjust(libc::ADJ_FREQUENCY, |timex| timex.freq = units as c_long).map(drop)
}

/// Sets the clock forward by so many ns.
///
/// # Errors
/// As [`may_steer`]; `EINVAL` if the time would be before 1970.
pub fn step(ns: i64) -> nix::Result<()> {
    const SECOND: i64 = 1_000_000_000;
    adjust(libc::ADJ_SETOFFSET | libc::ADJ_NANO, |timex| {
        timex.time.tv_sec = ns.div_euclid(SECOND);
        // ADJ_NANO: the field's name is of older times.
        timex.time.tv_usec = ns.rem_euclid(SECOND);
    })
    .map(drop)
}

/// Tells programs that ask (ntp_gettime(3), timedatectl(1)) how good the clock is.
///
/// # Errors
/// As [`may_steer`].
pub fn tell(told: Told) -> nix::Result<()> {
    let leap = match told.leap {
        Leap::None => 0,
        Leap::Insert => libc::STA_INS,
        Leap::Delete => libc::STA_DEL,
    };
    adjust(libc::ADJ_STATUS | libc::ADJ_ESTERROR | libc::ADJ_MAXERROR, |timex| {
        timex.status = leap | if told.synchronised { 0 } else { libc::STA_UNSYNC };
        timex.esterror = told.error as c_long;
        timex.maxerror = told.most_error as c_long;
    })
    .map(drop)
}

/// How long a tick is by nature, in microseconds.
///
/// # Errors
/// The system does not say.
pub fn usual_tick() -> nix::Result<i64> {
    let hz = nix::unistd::sysconf(nix::unistd::SysconfVar::CLK_TCK)?.filter(|&hz| hz > 0);
    hz.map(|hz| 1_000_000 / hz).ok_or(Errno::ENOSYS)
}

/// Tells the kernel TAI - UTC in seconds.
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
