//! The certain interval: no delay is negative, so each exchange gives two limits of the true
//! offset, independent of models, noise and asymmetry.
//!
//! ```text
//! Tb - C0(Ta) + root  >=  offset  >=  Te - C0(Tf) - root
//! root = root dispersion + root delay / 2 of that very reply + the error of its timestamps
//! ```
//!
//! The estimate is more precise, but only as true as its assumptions. So the bound is never smaller
//! than these intervals allow. It also keeps the error distance of the exchanges behind the
//! estimate: a reply with a smaller root distance does not improve the replies before it.

/// The error distance of old exchanges fades this many times more slowly than their share of the
/// offset. The rate, too, was estimated from them, and if it proves wrong, this many exchanges are
/// first taken for outliers.
const LINGERING: f64 = super::INSISTING as f64;

/// The interval of the true offset, relative to the estimate. All in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorInterval {
    /// Lower limit, relative to the estimate. If it is positive, the estimate is wrong.
    least: f64,
    most: f64,
    /// Error distance of the exchanges behind the estimate: half a round trip, half of the learnt
    /// asymmetry, and the root distance.
    distance: f64,
}

impl ErrorInterval {
    /// The unlimited interval.
    pub(crate) const fn new() -> Self {
        Self { least: f64::NEG_INFINITY, most: f64::INFINITY, distance: 0.0 }
    }

    /// Widens the interval by a possible drift of the estimate from the truth.
    pub(crate) fn drift(&mut self, by: f64) {
        self.least -= by;
        self.most += by;
    }

    /// Intersects the interval with that of an exchange. If they are disjoint, something has
    /// changed, and the newer one replaces it.
    pub(crate) fn take(&mut self, [least, most]: [f64; 2]) {
        (self.least, self.most) = (self.least.max(least), self.most.min(most));
        if self.least > self.most {
            (self.least, self.most) = (least, most);
        }
    }

    /// Shifts the interval after the estimate has moved.
    pub(crate) fn moved(&mut self, by: f64) {
        self.least -= by;
        self.most -= by;
    }

    /// Resets the error distance when the estimate is made anew; the interval stays.
    pub(crate) const fn anew(&mut self, distance: f64) {
        self.distance = distance;
    }

    /// Accounts for an exchange with this error distance and this share of the estimate.
    pub(crate) fn absorb(&mut self, distance: f64, share: f64) {
        let rest = self.distance + (distance - self.distance) * share / LINGERING;
        self.distance = distance.max(rest);
    }

    /// The error distance of the exchanges behind the estimate.
    pub(crate) const fn distance(&self) -> f64 {
        self.distance
    }

    /// The maximum error of the estimate.
    pub(crate) fn farthest(&self) -> f64 {
        self.most.max(-self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_directions_of_different_exchanges_make_it_narrow() {
        let mut certain = ErrorInterval::new();
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
        let mut certain = ErrorInterval::new();
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
