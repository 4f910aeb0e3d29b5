//! A device's settings, through the kernel's "ethtool" family of generic netlink (Linux 5.6).

use crate::error::Result;
use crate::generic::{Attributes, Generic, attribute, attributes};

const WHAT: &str = "tell or change how a device is set";

/// `ETHTOOL_MSG_FEATURES_GET`, `ETHTOOL_MSG_FEATURES_SET`, and their attributes: header, wanted
/// features, active features.
const GET_FEATURES: u8 = 11;
const SET_FEATURES: u8 = 12;
/// `ETHTOOL_MSG_CHANNELS_GET`, and the numbers of transmit queues, and of queues for both
/// directions.
const GET_CHANNELS: u8 = 17;
const TRANSMIT_COUNT: u16 = 7;
const COMBINED_COUNT: u16 = 9;
const HEADER: u16 = 1;
const WANTED: u16 = 3;
const ACTIVE: u16 = 4;

/// The attribute of a header that names the device.
const DEVICE_INDEX: u16 = 1;

/// Attributes of a set of bits: all bits; of those, one bit; of that, its name, and that it is set.
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_SET: u16 = 3;

/// The tags that a device may strip from a frame before any software sees it: of 802.1Q and of
/// 802.1ad.
const STRIPPING: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// Which VLAN tags a device strips from received frames and delivers beside them: of 802.1Q, of
/// 802.1ad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TagStripping([bool; 2]);

impl TagStripping {
    /// Whether it strips any.
    #[must_use]
    pub fn any(self) -> bool {
        self != Self::default()
    }

    /// The tags that are in this set, but not in the other.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self([0, 1].map(|at| self.0[at] && !other.0[at]))
    }
}

/// A connection to the kernel's "ethtool" family, in the namespace of the thread that opened it.
#[derive(Debug)]
pub struct Ethtool(Generic);

impl Ethtool {
    /// Opens the connection.
    ///
    /// # Errors
    /// If the socket cannot be made, or the kernel (before 5.6) does not know the family.
    pub fn open() -> Result<Self> {
        Generic::open("ethtool", WHAT).map(Self)
    }

    /// Which VLAN tags a device strips.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn tag_stripping(&mut self, index: u32) -> Result<TagStripping> {
        let answer = self.0.ask(GET_FEATURES, &of_device(index))?;
        let bits = attribute(&answer, ACTIVE).and_then(|active| attribute(active, BITS)).unwrap_or_default();
        let names = attributes(bits).filter_map(|(_, bit)| attribute(bit, BIT_NAME));
        let mut found = TagStripping::default();
        for name in names {
            let name = name.strip_suffix(&[0]).unwrap_or(name);
            for (at, feature) in STRIPPING.iter().enumerate() {
                found.0[at] |= feature.as_bytes() == name;
            }
        }
        Ok(found)
    }

    /// The number of a device's transmit queues.
    ///
    /// # Errors
    /// If there is no such device, or it does not report them.
    pub fn transmit_queues(&mut self, index: u32) -> Result<u32> {
        let answer = self.0.ask(GET_CHANNELS, &of_device(index))?;
        let count = |kind| attribute(&answer, kind).and_then(|v| v.try_into().ok()).map_or(0, u32::from_ne_bytes);
        Ok(count(TRANSMIT_COUNT).saturating_add(count(COMBINED_COUNT)))
    }

    /// Makes a device strip these tags, or leave them in their frames. Not every device can: read
    /// the result back.
    ///
    /// # Errors
    /// If there is no such device, or without the privilege.
    pub fn set_tag_stripping(&mut self, index: u32, tags: TagStripping, strip: bool) -> Result<()> {
        let mut bits = Attributes::default();
        for (name, _) in STRIPPING.iter().zip(tags.0).filter(|&(_, meant)| meant) {
            let mut bit = Attributes::default();
            bit.put(BIT_NAME, &[name.as_bytes(), &[0]].concat());
            if strip {
                bit.put(BIT_SET, &[]);
            }
            bits.nest(BIT, &bit);
        }
        let mut set = Attributes::default();
        set.nest(BITS, &bits);
        let mut request = of_device(index);
        request.nest(WANTED, &set);
        self.0.ask(SET_FEATURES, &request).map(drop)
    }
}

fn of_device(index: u32) -> Attributes {
    let mut header = Attributes::default();
    header.put(DEVICE_INDEX, &index.to_ne_bytes());
    let mut attributes = Attributes::default();
    attributes.nest(HEADER, &header);
    attributes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_strips_no_tags_and_an_unknown_device_is_an_error() {
        let mut ethtool = Ethtool::open().unwrap();
        assert!(!ethtool.tag_stripping(1).unwrap().any());
        assert!(ethtool.tag_stripping(0x7fff_0000).is_err());
    }

    #[test]
    fn what_one_strips_beyond_another() {
        let both = TagStripping([true, true]);
        assert_eq!(both.without(TagStripping([true, false])), TagStripping([false, true]));
        assert!(!both.without(both).any());
    }
}
