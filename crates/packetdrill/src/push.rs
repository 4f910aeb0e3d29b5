//! Removes PSH from sent packets, for scripts that expect Linux's placement: on each burst that it
//! passes to the network card. RFC 9293 §3.9.1.2 leaves that to the implementation. A mismatch
//! would hide everything else that such a script checks.

/// The bit, in octet 13 of the header (RFC 9293 §3.1).
const PSH: u8 = 0x08;
const TCP: u8 = 6;

/// Clears PSH in an IP packet, and updates its checksum. Other packets than TCP are unchanged.
pub(crate) fn hide(packet: &mut [u8]) {
    let header = match (packet.first(), packet.get(9), packet.get(6)) {
        (Some(first), Some(&TCP), _) if first >> 4 == 4 => usize::from(first & 15) * 4,
        (Some(first), _, Some(&TCP)) if first >> 4 == 6 => 40,
        _ => return,
    };
    let Some(tcp) = packet.get_mut(header..).filter(|tcp| tcp.len() >= 20) else { return };
    if tcp[13] & PSH == 0 {
        return;
    }
    tcp[13] &= !PSH;
    // RFC 1624 §3: HC' = ~(~HC + ~m + m'), where m' = m - PSH, so that ~m + m' = ~PSH in ones'
    // complement.
    let sum = u32::from(!u16::from_be_bytes([tcp[16], tcp[17]])) + u32::from(!u16::from(PSH));
    let folded = (sum & 0xffff) + (sum >> 16);
    tcp[16..18].copy_from_slice(&(!(folded as u16)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sum of RFC 1071 over a TCP header without its pseudo header: it is unchanged if the
    /// checksum was updated correctly.
    fn sum(tcp: &[u8]) -> u16 {
        let sum: u32 = tcp.chunks(2).map(|w| u32::from(u16::from_be_bytes([w[0], w[1]]))).sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    #[test]
    fn only_the_bit_goes_and_the_checksum_stays_right() {
        for (header, mut packet) in [(20, vec![0x45; 60]), (40, vec![0x60; 80])] {
            packet[if header == 20 { 9 } else { 6 }] = TCP;
            for checksum in [0x0000, 0x0007, 0x0008, 0x1234, 0xfff7, 0xffff_u16] {
                packet[header + 13] = 0x18;
                packet[header + 16..][..2].copy_from_slice(&checksum.to_be_bytes());
                let before = sum(&packet[header..]);
                hide(&mut packet);
                assert_eq!(packet[header + 13], 0x10);
                // 0 and 0xffff are the same number in ones' complement.
                assert_eq!(sum(&packet[header..]) % 0xffff, before % 0xffff, "{checksum:#06x}");
                let hidden = packet.clone();
                hide(&mut packet);
                assert_eq!(packet, hidden);
            }
        }
    }

    #[test]
    fn what_is_no_tcp_stays() {
        for packet in [vec![], vec![0x45], vec![0x45; 60], vec![0x60; 41], vec![0xff; 60]] {
            let mut after = packet.clone();
            hide(&mut after);
            assert_eq!(after, packet);
        }
    }
}
