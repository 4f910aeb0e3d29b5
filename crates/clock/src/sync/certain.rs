//! What is certain: a packet takes some time, so each exchange says between which two offsets the
//! true one lies, whatever models, noise and asymmetry are thought to be.
//!
//! ```text
//! Tb - C0(Ta) + root  >=  offset  >=  Te - C0(Tf) - root        root = root dispersion + root delay / 2 of that very answer
//! ```
//!
//! The estimate is better than that, but only as true as what it assumes. So the bound is never
//! less than what these intervals leave open, and it remembers by how much the exchanges could be
//! wrong of which the estimate is made: an answer that promises more says nothing of the answers
//! before.

/// What old exchanges could be wrong by fades so many times more slowly than their share of the
/// offset: the rate, too, was made of them, and when it shows to be wrong so many exchanges are
/// taken for outliers first.
const LINGERING: f64 = super::INSISTING as f64;

/// Where the true offset lies, as seen from the estimate. All in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Certain {
    /// No less than the estimate plus this, which may be positive: then the estimate is wrong.
    least: f64,
    most: f64,
    /// What the exchanges may be wrong by of which the estimate is made: half a round trip, the
    /// asymmetry that was learnt, and the root distance.
    distance: f64,
}

impl Certain {
    /// Nothing is.
    pub(crate) const fn new() -> Self {
        Self { least: f64::NEG_INFINITY, most: f64::INFINITY, distance: 0.0 }
    }

    /// Time has passed, in which the estimate may have drifted from the truth by so much.
    pub(crate) fn drift(&mut self, by: f64) {
        self.least -= by;
        self.most += by;
    }

    /// An exchange says between which two the offset lies. If that contradicts what was certain,
    /// something has changed, and the newer is true.
    pub(crate) fn take(&mut self, [least, most]: [f64; 2]) {
        (self.least, self.most) = (self.least.max(least), self.most.min(most));
        if self.least > self.most {
            (self.least, self.most) = (least, most);
        }
    }

    /// The estimate has moved.
    pub(crate) fn moved(&mut self, by: f64) {
        self.least -= by;
        self.most -= by;
    }

    /// The estimate is made anew, of nothing that could be wrong by more; where the true offset
    /// lies is as certain as it was.
    pub(crate) const fn anew(&mut self, distance: f64) {
        self.distance = distance;
    }

    /// An exchange that may be wrong by `distance` now has this share of the estimate.
    pub(crate) fn absorb(&mut self, distance: f64, share: f64) {
        let rest = self.distance + (distance - self.distance) * share / LINGERING;
        self.distance = distance.max(rest);
    }

    /// What the exchanges may be wrong by of which the estimate is made.
    pub(crate) const fn distance(&self) -> f64 {
        self.distance
    }

    /// The most that the estimate can be wrong by.
    pub(crate) fn farthest(&self) -> f64 {
        self.most.max(-self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_directions_of_different_exchanges_make_it_narrow() {
        let mut certain = Certain::new();
        assert_eq!(certain.farthest(), f64::INFINITY);
        certain.take([-5e6, 15e3]);
        certain.drift(100.0);
        certain.take([-15e3, 8e6]);
        assert_eq!(certain.farthest(), 15_100.0);
        certain.moved(2e3);
        assert_eq!(certain.farthest(), 17e3);
        certain.take([1e6, 2e6]);
        assert_eq!(certain.farthest(), 2e6, "the newer is true");
    }

    #[test]
    fn a_distance_is_forgotten_as_what_it_came_with_is() {
        let mut certain = Certain::new();
        certain.absorb(10e6, 1.0);
        certain.absorb(1e3, 0.0);
        assert_eq!(certain.distance(), 10e6, "it tells nothing");
        let shares = (0..).take_while(|_| {
            certain.absorb(1e3, 0.2);
            certain.distance() > 1e6
        });
        assert_eq!(shares.count(), 90);
        certain.absorb(20e6, 0.01);
        assert_eq!(certain.distance(), 20e6, "a worse one counts at once");
    }
}
