//! Tagged frames (IEEE 802.1Q). A frame of a VLAN is for another device, which the kernel knows.
//!
//! A tag lies in the frame, or the network card has taken it out and passes it beside the frame. A
//! tag in the frame is never ours: where tags stay in, the kernel takes the outermost one out and
//! divert gets the frame again, with the tag beside it.

use crate::header::{ETHERNET, header};

/// Two of them may be stacked (802.1ad); the outer one has the second type.
const ETHERTYPES: [u16; 2] = [0x8100, 0x88a8];

/// The bits of a tag that number the VLAN.
const NUMBER: u16 = 0xfff;

/// Whether a tag follows an Ethernet header of this type.
pub(crate) fn is_tag(ethertype: u16) -> bool {
    ETHERTYPES.contains(&ethertype)
}

/// Whether the first tag in a frame that has one carries a priority alone.
pub(crate) fn carries_a_priority_alone(frame: &[u8]) -> bool {
    // The tag, and the type of what follows.
    let tag = header(frame, ETHERNET).map(|[high, low, _, _]| u16::from_be_bytes([high, low]));
    tag.is_some_and(|tag| tag & NUMBER == 0)
}

/// Whether a tag beside a frame names another VLAN. One with the number 0 carries a priority alone:
/// such a frame is untagged (IEEE 802.1Q section 6.9.1).
pub(crate) fn is_of_other_vlan(tag: Option<u16>) -> bool {
    tag.is_some_and(|tag| tag & NUMBER != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_that_numbers_no_vlan_carries_a_priority_alone() {
        assert!(is_of_other_vlan(Some(0x0005)) && is_of_other_vlan(Some(0xefff)));
        assert!(!is_of_other_vlan(Some(0xe000)) && !is_of_other_vlan(None));
        assert!(is_tag(0x8100) && is_tag(0x88a8) && !is_tag(0x0800));
    }
}
