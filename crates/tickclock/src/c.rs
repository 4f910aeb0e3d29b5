//! The C API: `include/tickclock.h` documents each function.
//!
//! Nothing here panics: readings are saturating integers, whatever the page holds.

use crate::{Clock, OpenError, os};
use std::ffi::{CStr, c_char, c_int};
use tickwire_clockpage::{Count, Nanos, Parameters, Reading};

/// `TICKCLOCK_NO_TIME`: the value of an unknown time.
const NO_TIME: i64 = i64::MIN;

/// `struct tickclock_time`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Time {
    utc_ns: i64,
    earliest_ns: i64,
    latest_ns: i64,
    status: u32,
    tai_utc_s: i32,
    error_ns: u64,
    age_ns: i64,
    counter: u64,
    disruptions: u32,
    /// Explicit padding, so that it is written.
    reserved: u32,
}

impl Time {
    fn new(reading: &Reading, counter: Count) -> Self {
        let (earliest, latest) = reading.interval();
        Self {
            utc_ns: if reading.is_known() { reading.utc().0 } else { NO_TIME },
            earliest_ns: earliest.0,
            latest_ns: latest.0,
            status: reading.status.0,
            tai_utc_s: reading.offset,
            error_ns: reading.error,
            age_ns: reading.age,
            counter: counter.0,
            disruptions: reading.disruptions,
            reserved: 0,
        }
    }
}

/// Opens a page: null for the default one.
///
/// # Safety
/// `clock` is where a pointer can be stored; `path` is null or a string that ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickclock_open(clock: *mut *mut Clock, path: *const c_char) -> c_int {
    if clock.is_null() {
        return libc::EINVAL;
    }
    let opened = if path.is_null() {
        Clock::open_default()
    } else {
        // SAFETY: as the caller promises.
        Clock::open(os::path(unsafe { CStr::from_ptr(path) }))
    };
    let (pointer, code) = match opened {
        Ok(opened) => (Box::into_raw(Box::new(opened)), 0),
        Err(error) => (std::ptr::null_mut(), code(&error)),
    };
    // SAFETY: as the caller promises.
    unsafe { clock.write(pointer) };
    code
}

fn code(error: &OpenError) -> c_int {
    match error {
        OpenError::Missing(_) => libc::ENOENT,
        OpenError::System(_, error) => os::errno(error),
        OpenError::Fault(_, crate::PageFault::Version(_)) => libc::EPROTO,
        OpenError::Fault(..) | OpenError::Kind(_) => libc::EBADMSG,
        OpenError::Counter(..) | OpenError::Moved(..) => libc::ENOTSUP,
    }
}

/// Closes a page.
///
/// # Safety
/// `clock` is null or from [`tickclock_open`], and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickclock_close(clock: *mut Clock) {
    if !clock.is_null() {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(clock) });
    }
}

/// The time now.
///
/// # Safety
/// `clock` is from [`tickclock_open`]; `time` is where a `struct tickclock_time` can be stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickclock_now(clock: *const Clock, time: *mut Time) -> c_int {
    // SAFETY: as the caller promises.
    let (counter, reading) = unsafe { &*clock }.now_with_counter();
    // SAFETY: as the caller promises.
    unsafe { time.write(Time::new(&reading, counter)) };
    code_of(&reading)
}

/// The time now, possibly before earlier instructions are complete.
///
/// # Safety
/// As for [`tickclock_now`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickclock_now_unordered(clock: *const Clock, time: *mut Time) -> c_int {
    // SAFETY: as the caller promises.
    let (counter, reading) = unsafe { &*clock }.read(crate::counter::read_unordered);
    // SAFETY: as the caller promises.
    unsafe { time.write(Time::new(&reading, counter)) };
    code_of(&reading)
}

/// The time at a counter value.
///
/// # Safety
/// As for [`tickclock_now`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickclock_at(clock: *const Clock, counter: u64, time: *mut Time) -> c_int {
    // SAFETY: as the caller promises.
    let clock = unsafe { &*clock };
    let parameters = clock.parameters();
    let reading = clock.at_by(&parameters, Count(counter));
    // SAFETY: as the caller promises.
    unsafe { time.write(Time::new(&reading, Count(counter))) };
    code_at(&parameters, reading.is_known())
}

/// 0 if the time is known, `EAGAIN` if it is not (yet).
const fn code_of(reading: &Reading) -> c_int {
    if reading.is_known() { 0 } else { libc::EAGAIN }
}

/// The same for counter values: `ERANGE` if the clock knows the time, but not that of each value.
const fn code_at(parameters: &Parameters, all: bool) -> c_int {
    if !parameters.reading_near(parameters.at).is_known() {
        libc::EAGAIN
    } else if all {
        0
    } else {
        libc::ERANGE
    }
}

/// Unix times of many counter values, all by the same parameters.
///
/// # Safety
/// `clock` is from [`tickclock_open`]; `counters` are `count` values, and at `utc_ns` is room for
/// as many.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickclock_convert(
    clock: *const Clock,
    counters: *const u64,
    utc_ns: *mut i64,
    count: usize,
) -> c_int {
    // SAFETY: as the caller promises.
    let clock = unsafe { &*clock };
    let parameters = clock.parameters();
    let mut all = true;
    for i in 0..count {
        // SAFETY: as the caller promises.
        let reading = clock.at_by(&parameters, Count(unsafe { counters.add(i).read() }));
        all &= reading.is_known();
        // SAFETY: as the caller promises.
        unsafe { utc_ns.add(i).write(if reading.is_known() { reading.utc().0 } else { NO_TIME }) };
    }
    code_at(&parameters, all)
}

/// The counter.
///
/// # Safety
/// `clock` is from [`tickclock_open`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickclock_counter(clock: *const Clock) -> u64 {
    // SAFETY: as the caller promises.
    unsafe { &*clock }.counter().0
}

/// Nanoseconds between two counter values, by the difference clock.
///
/// # Safety
/// `clock` is from [`tickclock_open`]; at `ns` is room for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickclock_elapsed(clock: *const Clock, from: u64, to: u64, ns: *mut i64) -> c_int {
    // SAFETY: as the caller promises.
    let clock = unsafe { &*clock };
    let parameters = clock.parameters();
    let elapsed = clock.elapsed_by(&parameters, Count(from), Count(to));
    // SAFETY: as the caller promises.
    unsafe { ns.write(elapsed.unwrap_or(0)) };
    match elapsed {
        Some(_) => 0,
        None if parameters.difference.mult == 0 => libc::EAGAIN,
        None => libc::ERANGE,
    }
}

/// Waits until a Unix time.
///
/// # Safety
/// `clock` is from [`tickclock_open`]; `time` is null, or where a `struct tickclock_time` can be
/// stored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tickclock_wait_until(clock: *const Clock, utc_ns: i64, time: *mut Time) -> c_int {
    // SAFETY: as the caller promises.
    let clock = unsafe { &*clock };
    let (Ok(reading) | Err(reading)) = clock.wait_until(Nanos(utc_ns));
    if !time.is_null() {
        let counter = clock.parameters().count_at(reading.tai);
        // SAFETY: as the caller promises.
        unsafe { time.write(Time::new(&reading, counter)) };
    }
    code_of(&reading)
}
