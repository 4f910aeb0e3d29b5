//! Statistics of the exchanges with a server, for reports.

use std::collections::BTreeMap;
use tickwire_stamping::Quality;
use tickwire_stamping::hardware::Lack;

/// Statistics of the exchanges with a server.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) used: u64,
    pub(crate) refused: BTreeMap<String, u64>,
    /// Why the last reply was not used, if it was not, and when it came.
    pub(crate) refusal: Option<(String, i64)>,
    pub(crate) last: Option<i64>,
    pub(crate) quality: Option<Quality>,
    /// Exchanges passed to the clock, by the kind of their timestamps.
    pub(crate) stamps: BTreeMap<Quality, u64>,
    /// Why no hardware timestamps are requested.
    pub(crate) no_card: Option<String>,
    /// Exchanges that a card should have timestamped but did not, by reason.
    pub(crate) lacking: BTreeMap<Lack, u64>,
    pub(crate) interleaved: Option<bool>,
}

impl Tally {
    /// Counts an exchange that is passed to the clock with timestamps of this kind.
    pub(crate) fn stamped(&mut self, quality: Quality) {
        self.quality = Some(quality);
        *self.stamps.entry(quality).or_default() += 1;
    }

    /// Counts an exchange that a card has not timestamped.
    pub(crate) fn lacks(&mut self, lack: Lack) {
        *self.lacking.entry(lack).or_default() += 1;
    }

    /// Counts a reply or exchange that was not used at `now`.
    pub(crate) fn refuse(&mut self, why: String, now: i64) {
        self.refusal = Some((why.clone(), now));
        // Reasons are this program's own texts, so they are few; but a server chooses the code of a
        // kiss.
        if self.refused.len() < 64 || self.refused.contains_key(&why) {
            *self.refused.entry(why).or_default() += 1;
        }
    }
}
