//! Changes of the filter. Opening and closing a handle takes the driver milliseconds, so another
//! thread does that while packets are moved. What it has opened becomes the card's when the ports
//! are claimed.

use super::super::driver::{DivertDriver, DivertHandle};
use super::super::error::WinDivertError;
use super::super::filter::DivertedPorts;
use super::DivertedCard;
use crate::card::SlowWork;
use std::any::Any;
use std::io;
use std::time::{Duration, Instant};
use tickwire_steer::tables::Protocol;

/// For so long a port that is not claimed any more stays in the filter.
pub(super) const SETTLE: Duration = Duration::from_secs(1);

/// A handle that was opened on another thread.
#[derive(Debug)]
pub(super) struct PreparedFilter<H> {
    handle: H,
    /// The ports of its filter.
    ports: DivertedPorts,
    /// It is to leave out ports that are not claimed any more.
    is_for_less: bool,
}

impl<D: DivertDriver> DivertedCard<D> {
    /// What is to be done before these ports are claimed.
    pub(super) fn work_for(&mut self, ports: &[(Protocol, u16)]) -> Option<SlowWork> {
        if ports.iter().all(|&(protocol, port)| self.filtered.contains(protocol, port)) {
            return None;
        }
        let mut wanted = self.claimed.clone();
        for &(protocol, port) in ports {
            match self.block.as_ref().filter(|block| block.contains(port)) {
                Some(block) => wanted.set_block(protocol, block.ports(), true),
                None => _ = wanted.set(protocol, port, true),
            }
        }
        self.work(wanted, false)
    }

    /// What is to be done so that ports are left to the kernel which are not claimed any more, and
    /// handles that are not needed are closed.
    pub(super) fn work_for_less(&mut self) -> Option<SlowWork> {
        let now = Instant::now();
        // What it was opened for has not come.
        if let Some(prepared) = self.prepared.take() {
            self.dismiss(prepared.handle);
        }
        if let Some(block) = &mut self.block {
            for protocol in block.end_idle(now) {
                self.claimed.set_block(protocol, block.ports(), false);
            }
        }
        // If it fails, the filter takes more packets than it need, until the next time.
        if self.filtered != self.claimed && now.saturating_duration_since(self.changed) >= SETTLE {
            self.changed = now;
            return self.work(self.claimed.clone(), true);
        }
        if self.retired.is_empty() {
            return None;
        }
        let retired = std::mem::take(&mut self.retired);
        Some(Box::new(move || {
            drop(retired);
            Ok(Box::new(()) as Box<dyn Any + Send>)
        }))
    }

    /// Opens a handle for these ports, and closes those that are not needed.
    fn work(&mut self, ports: DivertedPorts, is_for_less: bool) -> Option<SlowWork> {
        // One that is too long is refused when the port is claimed.
        let filter = ports.filter(self.nic.index).ok()?;
        let (opener, retired) = (self.driver.opener(), std::mem::take(&mut self.retired));
        Some(Box::new(move || {
            drop(retired);
            let handle = opener(&filter).map_err(io::Error::other)?;
            Ok(Box::new(PreparedFilter { handle, ports, is_for_less }) as Box<dyn Any + Send>)
        }))
    }

    /// Takes the result of such work.
    pub(super) fn take_filter(&mut self, done: Box<dyn Any + Send>) {
        let Ok(prepared) = done.downcast::<PreparedFilter<D::Handle>>() else { return };
        match *prepared {
            // A port may have been claimed meanwhile.
            prepared if prepared.is_for_less && !self.claimed.is_within(&prepared.ports) => {
                self.dismiss(prepared.handle);
            }
            prepared if prepared.is_for_less => self.use_handle(prepared.handle, prepared.ports),
            prepared => {
                if let Some(before) = self.prepared.replace(prepared) {
                    self.dismiss(before.handle);
                }
            }
        }
    }

    /// A handle is not needed after all. It has taken packets since it was opened, before the
    /// others see them. So it is told to stop, and what it has taken is received.
    fn dismiss(&mut self, mut handle: D::Handle) {
        handle.stop();
        self.handles.insert(self.handles.len().saturating_sub(1), handle);
        self.collect();
    }

    /// Has the driver take the packets of the claimed ports.
    pub(super) fn change_filter(&mut self) -> Result<(), WinDivertError> {
        if let Some(PreparedFilter { handle, ports, .. }) = self.prepared.take() {
            if self.claimed.is_within(&ports) {
                self.use_handle(handle, ports);
                return Ok(());
            }
            self.dismiss(handle);
        }
        let handle = self.driver.open(&self.claimed.filter(self.nic.index)?)?;
        self.use_handle(handle, self.claimed.clone());
        self.retired.clear();
        Ok(())
    }

    /// From now on this handle takes packets.
    fn use_handle(&mut self, handle: D::Handle, ports: DivertedPorts) {
        if let Some(before) = self.handles.last_mut() {
            before.stop();
        }
        self.handles.push(handle);
        self.filtered = ports;
        self.changed = Instant::now();
        self.collect();
    }

    /// Marks a port as claimed, or not; one of the block stands for all of it.
    pub(super) fn mark(&mut self, protocol: Protocol, port: u16, is_claimed: bool) {
        let Self { block, claimed, .. } = self;
        match block.as_mut().filter(|block| block.contains(port)) {
            None => _ = claimed.set(protocol, port, is_claimed),
            Some(block) if !is_claimed => block.release(protocol, Instant::now()),
            Some(block) => {
                if block.claim(protocol) {
                    claimed.set_block(protocol, block.ports(), true);
                }
            }
        }
    }

    /// The driver has not taken the packets of a port that was to be claimed.
    pub(super) fn unmark(&mut self, protocol: Protocol, port: u16) {
        let Self { block, claimed, .. } = self;
        match block.as_mut().filter(|block| block.contains(port)) {
            None => _ = claimed.set(protocol, port, false),
            Some(block) => {
                block.refuse(protocol);
                claimed.set_block(protocol, block.ports(), false);
            }
        }
    }
}
