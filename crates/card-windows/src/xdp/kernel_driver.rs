//! XDP's driver, as cards need it.

use super::abi::{ObjectType, program_parameters};
use super::device::DriverObject;
use super::driver::{DriverCode, XdpDriver, XdpRule};
use super::error::{NEEDED, XdpError};
use super::port_sets::PortSets;
use super::rule_record::RuleRecord;
use super::version;
use super::xsk_socket::{WaitStart, XskSocket};
use crate::card::CardWaker;
use crate::event::Event;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use windows_sys::Win32::System::Threading::{INFINITE, WaitForMultipleObjects};

/// For so long is slept while the driver refuses to say when something is received.
const POLL: Duration = Duration::from_millis(1);

/// The driver.
#[derive(Debug)]
pub struct KernelDriver {
    waker: Arc<Event>,
    /// It is set when one of the sockets has received something.
    received: Event,
}

/// A program, and the ports at which it looks.
#[derive(Debug)]
pub struct KernelProgram {
    // It is closed before the ports are freed.
    _object: DriverObject,
    _ports: Arc<PortSets>,
}

impl KernelDriver {
    /// Finds out whether the driver is there and new enough.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub fn check() -> Result<(), XdpError> {
        if let Some((major, minor)) = version::installed().map(|[major, minor, ..]| (major, minor))
            && (major, minor) < NEEDED
        {
            return Err(XdpError::Version { major, minor });
        }
        XskSocket::open().map(drop).map_err(XdpError::of_open)
    }

    /// The driver.
    ///
    /// # Errors
    /// If the process has too many handles.
    pub fn new() -> io::Result<Self> {
        Ok(Self { waker: Arc::new(Event::new(false)?), received: Event::new(false)? })
    }
}

impl XdpDriver for KernelDriver {
    type Socket = XskSocket;
    type Program = KernelProgram;

    fn open_socket(&mut self) -> Result<XskSocket, DriverCode> {
        XskSocket::open()
    }

    fn open_program(
        &mut self,
        interface: u32,
        queue: u32,
        rules: &[XdpRule],
        ports: &Arc<PortSets>,
        target: &XskSocket,
    ) -> Result<KernelProgram, DriverCode> {
        let handle = target.handle().addr() as u64;
        let rules: Vec<_> = rules.iter().map(|&rule| RuleRecord::new(rule, ports, handle)).collect();
        // The driver copies the rules, and locks the ports, in this call.
        let object = DriverObject::open(ObjectType::Program, &program_parameters(interface, queue, &rules))?;
        Ok(KernelProgram { _object: object, _ports: Arc::clone(ports) })
    }

    fn wait(&mut self, sockets: &mut dyn Iterator<Item = &mut XskSocket>, time: Duration) {
        // Beginning a call resets the event, which another socket may have set: so all are looked
        // at after that.
        let (mut waiting, mut time) = (Vec::new(), time);
        for socket in sockets {
            match socket.begin_wait(self.received.handle()) {
                WaitStart::Received => return,
                WaitStart::Waiting => waiting.push(socket),
                // It is polled. If the driver is gone, the ring says so.
                WaitStart::Refused => time = time.min(POLL),
            }
        }
        if waiting.into_iter().any(|socket| socket.has_ended()) {
            return;
        }
        let events = [self.waker.handle(), self.received.handle()];
        // Rounded up: a thread that wakes up early would sleep again.
        let time_ms = time.as_nanos().div_ceil(1_000_000).min(u128::from(INFINITE - 1)) as u32;
        // SAFETY: so many handles of events, which live as long as `self`. (If one cannot be waited
        // for, the caller finds out why when it receives.)
        unsafe { WaitForMultipleObjects(events.len() as u32, events.as_ptr(), 0, time_ms) };
    }

    fn waker(&self) -> Arc<dyn CardWaker> {
        Arc::clone(&self.waker) as Arc<dyn CardWaker>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_driver_that_is_not_there_is_missing() {
        // (The tests run where XDP is not installed.)
        assert_eq!(KernelDriver::check(), Err(XdpError::Missing));
        assert_eq!(
            KernelDriver::new().unwrap().open_socket().map(drop).map_err(XdpError::of_open),
            KernelDriver::check()
        );
    }

    #[test]
    fn without_sockets_a_card_sleeps_until_it_is_woken() {
        let mut driver = KernelDriver::new().unwrap();
        let waker = driver.waker();
        waker.wake();
        driver.wait(&mut std::iter::empty(), Duration::from_secs(600));
    }
}
