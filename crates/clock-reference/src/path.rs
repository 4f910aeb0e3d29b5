//! The emulated path to the server. The server adds delays to its own timestamps and holds the
//! reply back for as long, so the one-way delays are exact, in addition to those of the real path.

use serde::{Deserialize, Serialize};
use tickwire_sim::Rng;

/// The path over time; all times are in s from the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PathModel {
    /// Mean of the random delay in each direction (exponentially distributed), in us.
    pub jitter_us: f64,
    /// Lost requests per million.
    pub loss_ppm: u32,
    /// Seed of the random numbers.
    pub seed: u64,
    /// When the server does not reply.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outages: Vec<Outage>,
    /// When packets are delayed in a host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub held: Vec<DelayPeriod>,
    /// Constant delays of the directions, each entry from its time on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub levels: Vec<Level>,
}

/// A time span in which the server does not reply.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Outage {
    /// From here.
    pub from_s: f64,
    /// To here.
    pub to_s: f64,
}

/// A time span in which each packet is delayed independently in each direction, exponentially
/// distributed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelayPeriod {
    /// From here.
    pub from_s: f64,
    /// To here.
    pub to_s: f64,
    /// The mean, in us.
    pub mean_us: f64,
}

/// Constant delays of the directions from a time on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Level {
    /// From here.
    pub from_s: f64,
    /// Delay of requests, in us.
    pub forth_us: f64,
    /// Delay of replies, in us.
    pub back_us: f64,
}

/// The delays of one exchange, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delays {
    /// Delay of the request.
    pub forth: i64,
    /// Delay of the reply.
    pub back: i64,
}

impl PathModel {
    /// Draws the delays of an exchange whose request arrives at `t`; `None` if it is lost.
    pub fn draw(&self, t: f64, rng: &mut Rng) -> Option<Delays> {
        let out = self.outages.iter().any(|outage| (outage.from_s..outage.to_s).contains(&t));
        if out || rng.chance(self.loss_ppm) {
            return None;
        }
        let level = self.levels.iter().rev().find(|level| t >= level.from_s);
        let (forth, back) = level.map_or((0.0, 0.0), |level| (level.forth_us, level.back_us));
        let held: f64 =
            self.held.iter().filter(|held| (held.from_s..held.to_s).contains(&t)).map(|held| held.mean_us).sum();
        let mut ns = |us: f64| ((us + (self.jitter_us + held) * rng.exponential()) * 1e3) as i64;
        Some(Delays { forth: ns(forth), back: ns(back) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_and_outages_follow_the_schedule() {
        let level = |from_s, forth_us| Level { from_s, forth_us, back_us: 1.0 };
        let path = PathModel {
            outages: vec![Outage { from_s: 5.0, to_s: 6.0 }],
            levels: vec![level(2.0, 50.0), level(8.0, 0.0)],
            ..PathModel::default()
        };
        let mut rng = Rng::new(1);
        let mut at = |t| path.draw(t, &mut rng).map(|delays| (delays.forth, delays.back));
        assert_eq!([at(1.0), at(3.0), at(5.5), at(9.0)], [Some((0, 0)), Some((50_000, 1_000)), None, Some((0, 1_000))]);
    }

    #[test]
    fn packets_are_held_back_while_the_schedule_says_so() {
        let held = vec![DelayPeriod { from_s: 10.0, to_s: 20.0, mean_us: 200.0 }];
        let path = PathModel { held, ..PathModel::default() };
        let mut rng = Rng::new(2);
        let mut mean = |t| (0..2_000).map(|_| path.draw(t, &mut rng).unwrap().back).sum::<i64>() / 2_000;
        assert_eq!((mean(9.0), mean(20.0)), (0, 0));
        let during = mean(15.0);
        assert!((180_000..220_000).contains(&during), "{during}");
    }

    #[test]
    fn chance_is_as_likely_as_it_says() {
        let path = PathModel { loss_ppm: 100_000, jitter_us: 20.0, ..PathModel::default() };
        let mut rng = Rng::new(3);
        let all: Vec<Delays> = (0..10_000).filter_map(|_| path.draw(0.0, &mut rng)).collect();
        assert!((8_800..9_200).contains(&all.len()), "{}", all.len());
        let mean = all.iter().map(|delays| delays.forth).sum::<i64>() / all.len() as i64;
        assert!((19_000..21_000).contains(&mean), "{mean}");
    }
}
