//! The kinds of entries that a local port has in the maps: bits of an entry of
//! [`super::map::PORT_KINDS`].

/// In [`super::map::FLOWS`].
pub const FLOWS: u8 = 1;
/// In [`super::map::PORTS`] with an address.
pub const BOUND: u8 = 2;
/// In [`super::map::PORTS`] with any address.
pub const ANY: u8 = 4;
/// In [`super::map::OWNED`] with an address.
pub const OWNED: u8 = 8;
/// In [`super::map::OWNED`] with any address.
pub const OWNED_ANY: u8 = 16;
/// All of them.
pub const ALL: [u8; 5] = [FLOWS, BOUND, ANY, OWNED, OWNED_ANY];

/// The word of [`super::map::PORT_KINDS`] that has a port's bits, and by how much they are shifted
/// in it.
#[must_use]
pub const fn port_kinds(protocol: u8, port: u16) -> (u32, u32) {
    const UDP: u8 = 17;
    let base = if protocol == UDP { 8192 } else { 0 };
    (base + (port >> 3) as u32, (port & 7) as u32 * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_of_both_protocols_has_a_place_of_its_own() {
        let mut seen = std::collections::HashSet::new();
        for protocol in [6, 17] {
            for port in 0..=u16::MAX {
                let (word, shift) = port_kinds(protocol, port);
                assert!(word < 16384 && shift <= 56 && shift % 8 == 0);
                assert!(seen.insert((word, shift)));
            }
        }
    }
}
