//! Reads of headers, each bounded by the frame.

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// No header that is read begins further on. A program needs far fewer extension headers.
pub(crate) const LAST_HEADER: usize = 1023;

/// The header at an offset, if it lies in the frame.
pub(crate) fn header<const N: usize>(frame: &[u8], at: usize) -> Option<[u8; N]> {
    if at > LAST_HEADER { None } else { frame.get(at..at + N)?.try_into().ok() }
}
