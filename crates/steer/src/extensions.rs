//! The extension headers of IPv6 (RFC 8200 section 4): where they end, and whether one of them says
//! that the packet is a fragment.

use crate::fragments::Part;
use crate::header::{LAST_HEADER, header};

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
const DESTINATION: u8 = 60;

/// So many are followed. A packet with more is of the protocol that the next one has: none that can
/// be claimed.
const MOST: usize = 4;

/// What a walk over the headers has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Walked {
    /// The protocol of what follows.
    pub(crate) next: u8,
    /// Where that is.
    pub(crate) at: usize,
    pub(crate) part: Part,
    /// The identification of a fragment.
    pub(crate) id: u32,
    /// Another extension header follows a fragment header.
    pub(crate) is_behind: bool,
}

/// Walks over the headers from an offset on; `None` if the frame ends before they do, or if they
/// are too long.
///
/// It ends at a Routing header with segments left: the packet is for the hosts that this header
/// lists (RFC 8200 section 4.4), not for the one in its destination address. So it is of the
/// protocol that this header has: none that can be claimed.
pub(crate) fn walk(frame: &[u8], at: usize, next: u8) -> Option<Walked> {
    let mut walked = Walked { next, at, part: Part::Whole, id: 0, is_behind: false };
    let mut is_fragment = false;
    for step in 0..=MOST {
        let is_extension = matches!(walked.next, HOP_BY_HOP | ROUTING | FRAGMENT | DESTINATION);
        if !is_extension || step == MOST {
            break;
        }
        let [next, length, o0, o1, i0, i1, i2, i3] = header(frame, walked.at)?;
        walked.is_behind = is_fragment;
        // `o1` is then the number of segments left.
        if walked.next == ROUTING && o1 != 0 {
            break;
        }
        if walked.next == FRAGMENT {
            is_fragment = true;
            let offset_more = u16::from_be_bytes([o0, o1]);
            walked.id = u32::from_be_bytes([i0, i1, i2, i3]);
            walked.at += 8;
            walked.next = next;
            if offset_more & 0xfff8 != 0 {
                // What follows belongs to the middle of the datagram.
                walked.part = Part::Later;
                break;
            }
            // A fragment header without an offset, and without more to come, is of a whole datagram
            // (RFC 6946).
            if offset_more & 1 != 0 {
                walked.part = Part::First;
            }
        } else {
            // In eights, the first not counted.
            walked.at += (usize::from(length) + 1) * 8;
            walked.next = next;
        }
    }
    // Without an extension header there is nothing to be too long.
    let is_short = walked.at == at || walked.at <= LAST_HEADER;
    is_short.then_some(walked)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    const UDP: u8 = 17;

    fn walked(headers: &[[u8; 8]], next: u8) -> Option<Walked> {
        walk(&headers.concat(), 0, next)
    }

    #[test]
    fn headers_are_followed_so_far_and_no_further() {
        let options = |n: usize| -> Vec<[u8; 8]> {
            (1..=n).map(|i| [if i < n { DESTINATION } else { UDP }, 0, 1, 4, 0, 0, 0, 0]).collect()
        };
        for n in 1..=4 {
            let end = walked(&options(n), DESTINATION).unwrap();
            assert_eq!((end.next, end.at), (UDP, 8 * n));
        }
        assert_eq!(walked(&options(5), DESTINATION).map(|end| end.next), Some(DESTINATION));
        assert_eq!(walked(&[], DESTINATION), None, "the frame ends before it");
        assert_eq!(walked(&[[UDP, 127, 0, 0, 0, 0, 0, 0]], ROUTING), None, "too long");
    }

    #[test]
    fn a_routing_header_with_segments_left_ends_the_walk() {
        let routing = |left| [UDP, 0, 4, left, 0, 0, 0, 0];
        let fragment = |next, offset_more| [next, 0, 0, offset_more, 0, 0, 1, 2];
        assert_eq!(walked(&[routing(0)], ROUTING).map(|end| (end.next, end.at)), Some((UDP, 8)));
        for left in [1, 4, 255] {
            assert_eq!(walked(&[routing(left)], ROUTING).map(|end| (end.next, end.at)), Some((ROUTING, 0)));
        }
        let mut options = [ROUTING, 0, 1, 4, 0, 0, 0, 0];
        assert_eq!(walked(&[options, routing(1)], DESTINATION).map(|end| (end.next, end.at)), Some((ROUTING, 8)));
        options[0] = UDP;
        assert_eq!(walked(&[options], DESTINATION).map(|end| end.next), Some(UDP), "options are no segments");
        let behind = walked(&[fragment(ROUTING, 1), routing(1)], FRAGMENT).unwrap();
        assert_eq!((behind.next, behind.part, behind.is_behind), (ROUTING, Part::First, true));
        let ahead = walked(&[routing(1), fragment(UDP, 8)], ROUTING).unwrap();
        assert_eq!((ahead.next, ahead.part), (ROUTING, Part::Whole), "the fragment header is not reached");
    }

    #[test]
    fn fragment_headers_name_part_and_identification() {
        let fragment = |next, offset_more: u16| {
            let [high, low] = offset_more.to_be_bytes();
            [next, 0, high, low, 0, 0, 1, 2]
        };
        for (field, part) in [(0, Part::Whole), (1, Part::First), (8, Part::Later), (9, Part::Later)] {
            let end = walked(&[fragment(UDP, field)], FRAGMENT).unwrap();
            assert_eq!((end.part, end.id, end.next, end.is_behind), (part, 0x102, UDP, false));
        }
        let behind = walked(&[fragment(DESTINATION, 1), [UDP, 0, 1, 4, 0, 0, 0, 0]], FRAGMENT).unwrap();
        assert_eq!((behind.part, behind.is_behind), (Part::First, true));
        let nested = walked(&[fragment(FRAGMENT, 1), fragment(UDP, 0)], FRAGMENT).unwrap();
        assert_eq!((nested.part, nested.is_behind), (Part::First, true));
    }
}
