//! What happens at a socket while no thread waits for it.

use super::{Socket, WinsockError};
use crate::lane::{Happened, lane_if_begun};
use crate::socket::{poll, table};
use std::sync::atomic::Ordering::Relaxed;

/// Goes on with what waits for the socket.
pub(crate) fn happened(what: Happened) {
    match what {
        Happened::InStack(handle) => table::get(handle).iter().for_each(|socket| socket.look_again()),
        Happened::InKernel(handle) => {
            if let Some(socket) = table::get(handle) {
                socket.kernel_told.fetch_add(1, Relaxed);
                if let Some(lane) = lane_if_begun() {
                    lane.wake_all();
                }
                socket.look_again();
            }
        }
        Happened::ClaimLost(claim, reason) => {
            table::all().iter().for_each(|socket| socket.lose(claim, reason));
        }
        Happened::Alarm => lane_if_begun().into_iter().for_each(poll::on_alarm),
        Happened::Loss => table::all().iter().for_each(|socket| socket.look_again()),
    }
}

impl Socket {
    /// Goes on with what waits for the socket.
    pub(super) fn look_again(&self) {
        self.advance();
        self.look_for_notices();
        poll::look(self);
    }

    /// Whether the kernel may have something for its half of the socket.
    pub(crate) fn kernel_may_have(&self) -> bool {
        self.has_kernel_half() && self.kernel_told.load(Relaxed) != self.kernel_heard.load(Relaxed)
    }

    /// How often the kernel has told.
    pub(super) fn kernel_told(&self) -> u32 {
        self.kernel_told.load(Relaxed)
    }

    /// The kernel, having told so often, has nothing.
    pub(super) fn kernel_has_nothing(&self, told: u32) {
        self.kernel_heard.store(told, Relaxed);
    }

    /// Asks the kernel for what it has for its half of the socket. `None` if it has nothing; then
    /// it is not asked again until it tells.
    pub(crate) fn ask_kernel<T>(
        &self,
        ask: impl FnOnce() -> Result<T, WinsockError>,
    ) -> Option<Result<T, WinsockError>> {
        if !self.kernel_may_have() {
            return None;
        }
        // Before it is asked: what it tells meanwhile counts.
        let told = self.kernel_told();
        match ask() {
            Err(WinsockError::WOULD_BLOCK) => {
                self.kernel_has_nothing(told);
                None
            }
            result => Some(result),
        }
    }
}
