//! The driver XDP for Windows (version 1.1 or later), which is an NDIS filter: it redirects
//! received frames to rings in memory that it shares with the service, and sends frames from such
//! rings.
//!
//! This speaks to the driver itself, by the calls that its own header has since version 1.1. The
//! library `xdpapi.dll` is not used: its authors call it deprecated, and newer packages do without
//! it. The calls and the structures of the rings are the same in 1.1 to 1.3.
//!
//! | module | purpose |
//! |---|---|
//! | [`xdp_card`] | the card: queues, programs, giving back |
//! | `redirection` | which frames are redirected |
//! | `receiver`, `transmitter` | a socket, its rings and its memory |
//! | [`driver`] | what it needs of the driver |
//! | [`ring`] | the two ends of a ring |
//! | [`xsk_ring`] | the memory of a ring |
//! | [`frame_memory`] | the memory of frames |
//! | [`port_sets`] | which ports are claimed, as the driver looks at it |
//! | [`error`] | why XDP cannot be used, and what to do |
//! | [`abi`], [`rule_record`] | the structures of the driver's calls, and its rules |
//! | `kernel_driver`, `xsk_socket`, `device` | the real driver (Windows) |
//! | `version` | which version of it is installed (Windows) |
//! | `fake_driver` | a driver in this process, for tests |
//!
//! Unsafe code is in `xsk_ring`, and in what is for Windows only.

pub mod abi;
#[cfg(windows)]
mod device;
pub mod driver;
pub mod error;
#[cfg(any(test, feature = "fake-xdp"))]
pub mod fake_driver;
pub mod frame_memory;
#[cfg(windows)]
pub mod kernel_driver;
pub mod port_sets;
mod receiver;
mod redirection;
pub mod ring;
pub mod rule_record;
mod transmitter;
#[cfg(windows)]
pub mod version;
pub mod xdp_card;
pub mod xsk_ring;
#[cfg(windows)]
mod xsk_socket;

use driver::{RingKind, XdpSocket};
use error::XdpCardEnd;

/// `XSK_ERROR_INTERFACE_DETACH`.
const INTERFACE_DETACHED: u32 = 0x8000_0000;

/// Why a driver has given up a ring.
fn ring_failure(socket: &impl XdpSocket, ring: RingKind) -> XdpCardEnd {
    match socket.ring_error(ring) {
        Ok(INTERFACE_DETACHED) => XdpCardEnd::Detached,
        Ok(error) => XdpCardEnd::RingFailed { ring, error },
        Err(code) => XdpCardEnd::Call { ring, code },
    }
}
