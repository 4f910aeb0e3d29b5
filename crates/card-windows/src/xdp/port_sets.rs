//! Sets of ports in the service's own memory, which the driver looks at for each packet. So a port
//! is claimed by setting a bit, without a call to the driver.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use tickwire_steer::tables::Protocol;

/// Words of a set: a bit for each port (`XDP_PORT_SET_BUFFER_SIZE`, 8192 bytes).
const WORDS: usize = 1024;

/// The driver locks whole pages, so nothing else is to be in them.
#[repr(C, align(4096))]
struct PortBitmap([AtomicU64; WORDS]);

impl PortBitmap {
    fn new() -> Box<Self> {
        Box::new(Self([const { AtomicU64::new(0) }; WORDS]))
    }

    /// Word and bit of a port. The driver takes the port as it is in a packet, in network order,
    /// for a number of this processor, and looks at bit number % 8 of byte number / 8.
    fn place(port: u16) -> (usize, u64) {
        let number = u16::from_le_bytes(port.to_be_bytes());
        (usize::from(number / 64), 1 << (number % 64))
    }

    fn set(&self, port: u16, is_in: bool) {
        let (word, bit) = Self::place(port);
        if is_in {
            self.0[word].fetch_or(bit, Relaxed);
        } else {
            self.0[word].fetch_and(!bit, Relaxed);
        }
    }

    fn contains(&self, port: u16) -> bool {
        let (word, bit) = Self::place(port);
        self.0[word].load(Relaxed) & bit != 0
    }
}

/// The ports of both protocols.
pub struct PortSets {
    tcp: Box<PortBitmap>,
    udp: Box<PortBitmap>,
}

impl std::fmt::Debug for PortSets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PortSets").finish_non_exhaustive()
    }
}

impl Default for PortSets {
    fn default() -> Self {
        Self { tcp: PortBitmap::new(), udp: PortBitmap::new() }
    }
}

impl PortSets {
    fn of(&self, protocol: Protocol) -> &PortBitmap {
        match protocol {
            Protocol::Tcp => &self.tcp,
            Protocol::Udp => &self.udp,
        }
    }

    /// Puts a port in, or takes it out.
    pub fn set(&self, protocol: Protocol, port: u16, is_in: bool) {
        self.of(protocol).set(port, is_in);
    }

    /// Whether a port is in.
    #[must_use]
    pub fn contains(&self, protocol: Protocol, port: u16) -> bool {
        self.of(protocol).contains(port)
    }

    /// Where the set of a protocol begins: 8192 bytes, which do not move.
    #[must_use]
    pub fn address(&self, protocol: Protocol) -> *const u8 {
        std::ptr::from_ref(self.of(protocol)).cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_is_in_the_set_of_its_protocol_until_it_is_taken_out() {
        let sets = PortSets::default();
        for port in [0, 1, 80, 255, 256, 65_535] {
            sets.set(Protocol::Tcp, port, true);
            assert!(sets.contains(Protocol::Tcp, port) && !sets.contains(Protocol::Udp, port));
        }
        sets.set(Protocol::Tcp, 80, false);
        let left = (0..=u16::MAX).filter(|&port| sets.contains(Protocol::Tcp, port));
        assert_eq!(left.collect::<Vec<_>>(), [0, 1, 255, 256, 65_535]);
    }

    #[test]
    fn the_bit_of_a_port_is_that_of_its_number_in_network_order() {
        // Port 80 is 00 50 in a packet: the number 0x5000, which is byte 2560, bit 0.
        assert_eq!(PortBitmap::place(80), (0x5000 / 64, 1));
        assert_eq!(PortBitmap::place(0x0501), (0x0105 / 64, 1 << 5));
        let sets = PortSets::default();
        assert!(sets.address(Protocol::Udp).addr().is_multiple_of(4096));
        assert_ne!(sets.address(Protocol::Udp), sets.address(Protocol::Tcp));
    }
}
