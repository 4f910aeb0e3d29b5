//! packetdrill as the stack's cable and clock.

use super::done;
use super::memory::{given, put};
use crate::errno::Errno;
use crate::machine::Machine;
use core::ffi::{c_int, c_long, c_longlong, c_uint, c_void};
use libc::timeval;
use tickwire_stack::time::Span;

pub(super) unsafe extern "C" fn netdev_send(machine: *const Machine, packet: *const c_void, len: usize) -> c_int {
    done(machine, |m| {
        // SAFETY: packetdrill's packet has that length.
        let packet = unsafe { given(packet, len) }?;
        if m.call(|state| state.wire.receive(packet)) { Ok(()) } else { Err(Errno(libc::EINVAL)) }
    })
}

pub(super) unsafe extern "C" fn netdev_receive(
    machine: *const Machine,
    to: *mut c_void,
    len: *mut usize,
    time: *mut c_longlong,
) -> c_int {
    done(machine, |m| {
        if len.is_null() || time.is_null() {
            return Err(Errno(libc::EFAULT));
        }
        let sent = m.next_sent();
        let packet = sent.as_ref().map_or(&[][..], |sent| &sent.packet);
        // SAFETY: packetdrill's buffer is as long as it says, and both numbers are its own.
        unsafe {
            let room = *len;
            put(packet, to, room);
            *len = packet.len().min(room);
            if let Some(sent) = &sent {
                *time = (sent.at.as_nanos() / 1000) as c_longlong;
            }
        }
        Ok(())
    })
}

pub(super) unsafe extern "C" fn usleep(machine: *const Machine, micros: c_uint) -> c_int {
    done(machine, |m| {
        m.sleep(Span::from_micros(micros.into()));
        Ok(())
    })
}

pub(super) unsafe extern "C" fn gettimeofday(machine: *const Machine, time: *mut timeval, _zone: *mut c_void) -> c_int {
    done(machine, |m| {
        let micros = m.time().as_nanos() / 1000;
        let value = timeval { tv_sec: (micros / 1_000_000) as _, tv_usec: (micros % 1_000_000) as c_long };
        // SAFETY: packetdrill's own variable.
        unsafe { time.as_mut() }.map(|time| *time = value).ok_or(Errno(libc::EFAULT))
    })
}
