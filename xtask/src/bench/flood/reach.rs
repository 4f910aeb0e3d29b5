//! Whether a flood reached the lane it should: otherwise the figures mean nothing.

use anyhow::{Result, bail};

/// Fewer forged packets than this are no flood, and do not show where they went.
const FEWEST: u64 = 100;

/// The packets sent, and those that the server's lane has counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Forged packets.
    pub(super) sent: u64,
    /// The connection's own packets of the counted kind: its requests.
    pub(super) own: u64,
    /// The lane's counter for that kind.
    pub(super) seen: u64,
}

impl Counts {
    /// The lane has seen at least half of the flood.
    pub(super) fn hit(self) -> bool {
        self.seen >= self.own + self.sent / 2
    }

    /// The lane has seen nothing of the flood. Besides its requests the connection has sent its
    /// handshake, retransmissions, and pure acknowledgements where no request was there in time to
    /// carry them. Those are few, because the next request follows each answer at once.
    pub(super) fn spared(self) -> bool {
        self.seen <= self.own + self.own / 10 + FEWEST
    }
}

/// Fails if so few packets were sent that they show nothing.
pub(super) fn enough(sent: u64) -> Result<()> {
    if sent < FEWEST {
        bail!("only {sent} forged packets were sent, too few to tell: more --trips or a higher --rate");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_has_hit_if_most_of_it_is_there_beside_what_the_connection_sent() {
        let told = |seen| Counts { sent: 4_000, own: 20_000, seen }.hit();
        assert!(!told(20_003) && !told(21_999) && told(22_000) && told(24_003));
    }

    #[test]
    fn packets_to_an_absent_host_have_spared_the_lane_only_if_hardly_more_is_there_than_was_asked() {
        let told = |own, seen| Counts { sent: 20_000, own, seen }.spared();
        assert!(told(20_000, 20_003) && told(20_000, 21_500), "acknowledgements and repetitions");
        assert!(!told(20_000, 24_000), "not half of the flood, but a fifth");
        assert!(told(100, 110) && !told(100, 400));
    }

    #[test]
    fn too_few_packets_tell_nothing() {
        let refused = enough(99).unwrap_err().to_string();
        assert!(refused.starts_with("only 99 forged packets") && refused.ends_with("a higher --rate"), "{refused}");
        enough(100).unwrap();
    }
}
