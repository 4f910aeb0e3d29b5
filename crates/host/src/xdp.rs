//! A device's XDP features, read through the kernel's "netdev" family of generic netlink (Linux
//! 6.3).

use crate::error::Result;
use crate::generic::{Attributes, Generic, attribute};

const WHAT: &str = "tell what a device can do with XDP";

/// `NETDEV_CMD_DEV_GET`, and the attributes of a device's index and XDP features.
const GET_DEVICE: u8 = 1;
const DEVICE_INDEX: u16 = 1;
const DEVICE_XDP: u16 = 3;

/// Features of a device, as bits of the kernel's `enum netdev_xdp_act`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct XdpFeatures(u64);

impl XdpFeatures {
    /// Whether an XDP program on it may redirect received frames to other devices.
    #[must_use]
    pub const fn redirects(self) -> bool {
        self.0 & 1 << 1 != 0
    }

    /// Whether it transmits frames that an XDP program elsewhere redirects to it. For a veth device
    /// this depends on its other end.
    #[must_use]
    pub const fn takes_redirects(self) -> bool {
        self.0 & 1 << 2 != 0
    }

    /// Whether such frames may be longer than a page (jumbo frames).
    #[must_use]
    pub const fn takes_long_redirects(self) -> bool {
        self.0 & 1 << 6 != 0
    }
}

/// A connection to the kernel's "netdev" family, in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct XdpInfo(Generic);

impl XdpInfo {
    /// Opens the connection.
    ///
    /// # Errors
    /// If the socket cannot be made, or the kernel (before 6.3) does not know the family.
    pub fn open() -> Result<Self> {
        Generic::open("netdev", WHAT).map(Self)
    }

    /// The features of a device.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn features(&mut self, index: u32) -> Result<XdpFeatures> {
        let mut device = Attributes::default();
        device.put(DEVICE_INDEX, &index.to_ne_bytes());
        let answer = self.0.ask(GET_DEVICE, &device)?;
        let bits = attribute(&answer, DEVICE_XDP).and_then(|v| v.try_into().ok()).map(u64::from_ne_bytes);
        Ok(XdpFeatures(bits.unwrap_or(0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_takes_no_redirects() {
        // Kernels before 6.3 do not have the family.
        if let Ok(mut info) = XdpInfo::open() {
            assert!(!info.features(1).unwrap().takes_redirects());
            assert!(info.features(0x7fff_0000).is_err());
        }
    }
}
