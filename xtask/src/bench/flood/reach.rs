//! Whether a flood was where it should be: figures beside one that never arrived say nothing.

use anyhow::{Result, bail};

/// Fewer forged packets than this are no flood, and do not tell where they went.
const FEWEST: u64 = 100;

/// What was sent, and what the server's lane counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    /// Forged packets.
    pub(super) sent: u64,
    /// What the connection itself sent of the kind that is counted: its questions.
    pub(super) own: u64,
    /// What the lane counts of that kind.
    pub(super) seen: u64,
}

impl Counts {
    /// The lane has seen half of the flood at least.
    pub(super) fn hit(self) -> bool {
        self.seen >= self.own + self.sent / 2
    }

    /// The lane has seen nothing of the flood. Beside its questions the connection has sent what
    /// opened it, what was sent again, and an acknowledgement by itself where a question was not
    /// there in time to bear it: hardly any, as a program that is asked waits for nothing else.
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
    fn what_is_for_nobody_has_spared_the_lane_only_if_hardly_more_is_there_than_was_asked() {
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
