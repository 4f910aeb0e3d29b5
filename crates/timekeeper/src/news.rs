//! What becomes of the clock and of its servers, for the log: each change once.
//!
//! Servers are strangers, and one that is now right and now wrong must not fill the log: each has a ration of lines. What was not said when it came is said
//! when there is a line for it again, if it is still so.

use crate::ration::Ration;
use tickwire_clock::keeper::Standing;
use tracing::{info, warn};

/// How the clock is at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen<'a> {
    /// The time is known.
    pub(crate) synchronised: bool,
    /// No server has told anything for several polls.
    pub(crate) holdover: bool,
    /// How often the counter has broken.
    pub(crate) disruptions: u32,
    /// In ns; `u64::MAX`: not known.
    pub(crate) bound: u64,
    /// How each server stands, by its name; `None`: it has not been asked for long enough to tell.
    pub(crate) servers: &'a [(&'a str, Option<Standing>)],
    /// Why the last answer of each could not be used, if it could not.
    pub(crate) refusals: &'a [Option<&'a str>],
}

impl Seen<'_> {
    fn phase(&self) -> Phase {
        match (self.synchronised, self.holdover) {
            (false, _) => Phase::Unknown,
            (true, false) => Phase::Synchronised,
            (true, true) => Phase::Holdover,
        }
    }

    fn followed(&self) -> Option<usize> {
        self.servers.iter().position(|(_, standing)| *standing == Some(Standing::Followed))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unknown,
    Synchronised,
    Holdover,
}

/// How a server is, as far as the log is concerned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Nothing was said of it yet.
    New,
    Good,
    Silent,
    Outvoted,
    Disputed,
    Smeared,
}

impl From<Standing> for Health {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Followed | Standing::Agrees => Self::Good,
            Standing::Silent => Self::Silent,
            Standing::Outvoted => Self::Outvoted,
            Standing::Disputed(_) => Self::Disputed,
            Standing::Smeared => Self::Smeared,
        }
    }
}

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// The counter has broken, or the time is not known any more for another reason.
    Anew,
    Synchronised(usize),
    Holdover,
    /// The second one instead of the first.
    Followed(usize, usize),
    Server(usize, Health, Health),
}

/// What was said last.
#[derive(Debug)]
pub(crate) struct News {
    phase: Phase,
    followed: Option<usize>,
    disruptions: u32,
    of_clock: Ration,
    servers: Vec<(Health, Ration)>,
}

impl News {
    /// Nothing was said yet of so many servers, nor of a counter that had broken so often.
    pub(crate) fn new(servers: usize, disruptions: u32) -> Self {
        let servers = (0..servers).map(|_| (Health::New, Ration::default())).collect();
        Self { phase: Phase::Unknown, followed: None, disruptions, of_clock: Ration::default(), servers }
    }

    /// Logs what is new at `now`, in ns of a clock that only runs forward.
    pub(crate) fn tell(&mut self, now: i64, seen: &Seen<'_>) {
        for line in self.lines(now, seen) {
            say(line, seen);
        }
    }

    fn lines(&mut self, now: i64, seen: &Seen<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        for (number, ((told, ration), (_, standing))) in self.servers.iter_mut().zip(seen.servers).enumerate() {
            let Some(health) = standing.map(Health::from) else { continue };
            // That a server is good from the beginning is told by whom the clock follows.
            if *told == Health::New && health == Health::Good {
                *told = health;
            } else if *told != health && ration.take(now) {
                lines.push(Line::Server(number, *told, health));
                *told = health;
            }
        }
        if seen.disruptions != self.disruptions && self.of_clock.take(now) {
            self.disruptions = seen.disruptions;
            (self.phase, self.followed) = (Phase::Unknown, None);
            lines.push(Line::Anew);
        }
        let (phase, followed) = (seen.phase(), seen.followed());
        if phase != self.phase {
            let line = match (phase, followed) {
                (Phase::Synchronised, Some(server)) => Some(Line::Synchronised(server)),
                (Phase::Holdover, _) => Some(Line::Holdover),
                // That the counter has broken was said.
                _ => None,
            };
            if let Some(line) = line.filter(|_| self.of_clock.take(now)) {
                lines.push(line);
                self.phase = phase;
                self.followed = followed.or(self.followed);
            }
        } else if let Some((before, server)) = self.followed.zip(followed)
            && before != server
            && self.of_clock.take(now)
        {
            lines.push(Line::Followed(before, server));
            self.followed = followed;
        }
        lines
    }
}

fn say(line: Line, seen: &Seen<'_>) {
    let name = |number: usize| seen.servers[number].0;
    let bound_us = seen.bound as f64 / 1e3;
    match line {
        Line::Anew => warn!("the clock begins anew: times from before and after cannot be compared"),
        Line::Synchronised(server) => info!(server = name(server), bound_us, "synchronised"),
        Line::Holdover => warn!(bound_us, "holdover: no server tells the time, the clock runs on its own"),
        Line::Followed(before, server) => {
            info!(server = name(server), before = name(before), "another server is followed")
        }
        Line::Server(server, before, health) => {
            let why = seen.refusals.get(server).copied().flatten().unwrap_or("no answer comes");
            let server = name(server);
            match (health, before) {
                (Health::Good | Health::New, Health::Silent) => info!(server, "the server is back"),
                (Health::Good | Health::New, _) => info!(server, "the server agrees with most again"),
                (Health::Silent, Health::New) => {
                    warn!(server, why, "the server is silent: it has told nothing that can be used")
                }
                (Health::Silent, _) => {
                    warn!(server, why, "the server is silent: it tells nothing any more that can be used")
                }
                (Health::Outvoted, _) => warn!(server, "the server is outvoted: most others say that it is wrong"),
                (Health::Disputed, _) => {
                    warn!(server, "the server contradicts another one, and nobody can tell who is right");
                }
                (Health::Smeared, _) => info!(server, "the server spreads leap seconds, and is kept apart"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn seen<'a>(servers: &'a [(&'a str, Option<Standing>)]) -> Seen<'a> {
        let heard = |standing: &Standing| standing.agrees() || matches!(standing, Standing::Disputed(_));
        let told = servers.iter().any(|(_, standing)| standing.as_ref().is_some_and(heard));
        Seen { synchronised: true, holdover: !told, disruptions: 0, bound: 1000, servers, refusals: &[] }
    }

    #[test]
    fn each_change_is_told_once() {
        use Standing::{Agrees, Followed, Outvoted, Silent};
        let mut news = News::new(2, 0);
        let mut at = 0;
        let mut told = |a: Option<Standing>, b: Option<Standing>| {
            at += SECOND;
            let servers = [("a", a), ("b", b)];
            let lines = news.lines(at, &seen(&servers));
            assert_eq!(news.lines(at, &seen(&servers)), [], "only once");
            lines
        };
        assert_eq!(told(Some(Followed), None), [Line::Synchronised(0)]);
        assert_eq!(told(Some(Followed), Some(Silent)), [Line::Server(1, Health::New, Health::Silent)]);
        assert_eq!(told(Some(Followed), Some(Agrees)), [Line::Server(1, Health::Silent, Health::Good)]);
        assert_eq!(told(Some(Agrees), Some(Followed)), [Line::Followed(0, 1)]);
        assert_eq!(told(Some(Outvoted), Some(Followed)), [Line::Server(0, Health::Good, Health::Outvoted)]);
        assert_eq!(
            told(Some(Silent), Some(Silent)),
            [
                Line::Server(0, Health::Outvoted, Health::Silent),
                Line::Server(1, Health::Good, Health::Silent),
                Line::Holdover
            ]
        );
        assert_eq!(
            told(Some(Silent), Some(Followed)),
            [Line::Server(1, Health::Silent, Health::Good), Line::Synchronised(1)]
        );
    }

    #[test]
    fn a_clock_that_begins_anew_is_synchronised_anew() {
        let servers = [("a", Some(Standing::Followed))];
        let mut news = News::new(1, 3);
        let before = Seen { disruptions: 3, ..seen(&servers) };
        assert_eq!(news.lines(SECOND, &before), [Line::Synchronised(0)]);
        let broken = Seen { disruptions: 4, synchronised: false, servers: &[("a", None)], ..before };
        assert_eq!(news.lines(2 * SECOND, &broken), [Line::Anew]);
        assert_eq!(news.lines(3 * SECOND, &Seen { disruptions: 4, ..before }), [Line::Synchronised(0)]);
    }

    #[test]
    fn a_server_that_changes_all_the_time_does_not_fill_the_log() {
        let mut news = News::new(2, 0);
        let mut lines = 0;
        let mut last = None;
        for second in 0..3600 {
            let standing = if second % 2 == 0 { Standing::Outvoted } else { Standing::Agrees };
            let servers = [("good", Some(Standing::Followed)), ("hostile", Some(standing))];
            let new = news.lines(second * SECOND, &seen(&servers));
            lines += new.len();
            last = new.last().copied().or(last);
        }
        assert!((60..75).contains(&lines), "{lines} lines in an hour");
        // What it is in the end is told as soon as there is a line for it.
        let settled = [("good", Some(Standing::Followed)), ("hostile", Some(Standing::Outvoted))];
        let end = news.lines(3700 * SECOND, &seen(&settled)).last().copied().or(last);
        assert!(matches!(end, Some(Line::Server(1, _, Health::Outvoted))), "{end:?}");
    }
}
