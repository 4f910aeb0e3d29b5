//! The event log of the clock and its servers: each change once.
//!
//! Servers are not trusted, and one that is alternately right and wrong must not flood the log:
//! each has a rate limit. A suppressed change is logged as soon as a line is available, if it still
//! holds.

use crate::log_rate_limit::LogRateLimit;
use tickwire_clock::ensemble::Standing;
use tracing::{info, warn};

/// The state of the clock at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Seen<'a> {
    /// The time is known.
    pub(crate) synchronised: bool,
    /// The followed server has been silent for several polls, and no other is followed instead.
    pub(crate) holdover: bool,
    /// How often the counter has broken, or the time was set.
    pub(crate) disruptions: u32,
    /// In ns; `u64::MAX`: not known.
    pub(crate) bound: u64,
    /// Each server's name and standing; `None`: it has not been polled for long enough to tell.
    pub(crate) servers: &'a [(&'a str, Option<Standing>)],
    /// Why each server gives no usable reply, if it does not.
    pub(crate) why_silent: &'a [&'a str],
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

    /// A server's health, if it is known.
    fn health(&self, server: usize) -> Option<Health> {
        let disputed = |(_, standing): &(&str, Option<Standing>)| matches!(standing, Some(Standing::Disputed(_)));
        let standing = self.servers[server].1?;
        Some(match standing {
            // In a dispute there is no majority, so the server that is followed all the same does
            // not agree with one.
            Standing::Followed if self.servers.iter().any(disputed) => Health::Disputed,
            Standing::Followed | Standing::Agrees => Health::Good,
            Standing::Silent => Health::Silent,
            Standing::Far => Health::Far,
            Standing::Outvoted => Health::Outvoted,
            Standing::Disputed(_) => Health::Disputed,
            Standing::Smeared => Health::Smeared,
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Unknown,
    Synchronised,
    Holdover,
}

/// A server's health, as far as the log distinguishes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Health {
    /// Nothing was logged about it yet.
    New,
    Good,
    Silent,
    Far,
    Outvoted,
    Disputed,
    Smeared,
}

/// A line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    /// The counter has broken, or the time is not known any more for another reason.
    Anew,
    Synchronised(usize),
    Holdover,
    /// The second server is followed instead of the first.
    Followed(usize, usize),
    Server(usize, Health, Health),
}

/// What was logged last.
#[derive(Debug)]
pub(crate) struct EventLog {
    phase: Phase,
    followed: Option<usize>,
    disruptions: u32,
    of_clock: LogRateLimit,
    servers: Vec<(Health, LogRateLimit)>,
}

impl EventLog {
    /// Nothing was logged yet about so many servers, nor about the breaks of the counter so far.
    pub(crate) fn new(servers: usize, disruptions: u32) -> Self {
        let servers = (0..servers).map(|_| (Health::New, LogRateLimit::default())).collect();
        Self { phase: Phase::Unknown, followed: None, disruptions, of_clock: LogRateLimit::default(), servers }
    }

    /// Logs what has changed at `now`, in ns of a monotonic clock.
    pub(crate) fn tell(&mut self, now: i64, seen: &Seen<'_>) {
        for line in self.lines(now, seen) {
            say(line, seen);
        }
    }

    fn lines(&mut self, now: i64, seen: &Seen<'_>) -> Vec<Line> {
        let mut lines = Vec::new();
        for (number, (told, log_limit)) in self.servers.iter_mut().enumerate() {
            let Some(health) = seen.health(number) else { continue };
            // A server that is good from the beginning has no line of its own: the log names the
            // server that is followed.
            if *told == Health::New && health == Health::Good {
                *told = health;
            } else if *told != health && log_limit.take(now) {
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
                // The break of the counter was logged already.
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
        Line::Holdover => {
            warn!(bound_us, "holdover: the server that was followed tells nothing any more, the clock runs on its own");
        }
        Line::Followed(before, server) => {
            info!(server = name(server), before = name(before), "another server is followed")
        }
        Line::Server(server, before, health) => {
            let why = seen.why_silent.get(server).copied().unwrap_or_default();
            let (server, said) = (name(server), sentence(before, health));
            match health {
                Health::Silent => warn!(server, why, "{said}"),
                Health::Outvoted | Health::Disputed | Health::Far => warn!(server, "{said}"),
                Health::New | Health::Good | Health::Smeared => info!(server, "{said}"),
            }
        }
    }
}

/// The message about a server whose health has changed.
const fn sentence(before: Health, health: Health) -> &'static str {
    match (health, before) {
        (Health::Good | Health::New, Health::Silent) => "the server is back",
        (Health::Good | Health::New, Health::Far) => {
            "the server has a say again: it is near enough to the reference, or none is nearer"
        }
        (Health::Good | Health::New, Health::Smeared) => {
            "the server is not kept apart any more: it spreads no leap second now, or no server is left that does not"
        }
        (Health::Good | Health::New, _) => "the server agrees again with most of those that have a say",
        (Health::Silent, Health::New) => "the server has told nothing yet that can be used",
        (Health::Silent, _) => "the server tells nothing any more that can be used",
        (Health::Far, _) => "the server has no say: it is more than 1.5 s from the reference, and others are nearer",
        (Health::Outvoted, _) => "the server is outvoted: most others say that it is wrong",
        (Health::Disputed, _) => "servers contradict each other, and it is undecided whether this one is right",
        (Health::Smeared, _) => "the server spreads leap seconds, and is kept apart",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    fn seen<'a>(servers: &'a [(&'a str, Option<Standing>)]) -> Seen<'a> {
        let heard = |standing: &Standing| standing.agrees() || matches!(standing, Standing::Disputed(_));
        let told = servers.iter().any(|(_, standing)| standing.as_ref().is_some_and(heard));
        Seen { synchronised: true, holdover: !told, disruptions: 0, bound: 1000, servers, why_silent: &[] }
    }

    #[test]
    fn each_change_is_told_once() {
        use Standing::{Agrees, Followed, Outvoted, Silent};
        let mut event_log = EventLog::new(2, 0);
        let mut at = 0;
        let mut told = |a: Option<Standing>, b: Option<Standing>| {
            at += SECOND;
            let servers = [("a", a), ("b", b)];
            let lines = event_log.lines(at, &seen(&servers));
            assert_eq!(event_log.lines(at, &seen(&servers)), [], "only once");
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
    fn a_server_that_answers_from_too_far_away_is_not_called_silent() {
        let mut event_log = EventLog::new(2, 0);
        let lines = event_log.lines(SECOND, &seen(&[("a", Some(Standing::Followed)), ("b", Some(Standing::Far))]));
        assert_eq!(lines, [Line::Server(1, Health::New, Health::Far), Line::Synchronised(0)]);
        assert!(sentence(Health::New, Health::Far).contains("1.5 s"));
        let lines =
            event_log.lines(2 * SECOND, &seen(&[("a", Some(Standing::Silent)), ("b", Some(Standing::Followed))]));
        let back = Line::Server(1, Health::Far, Health::Good);
        assert_eq!(lines, [Line::Server(0, Health::Good, Health::Silent), back, Line::Followed(0, 1)]);
        assert!(!sentence(Health::Far, Health::Good).contains("back"));
    }

    #[test]
    fn the_server_followed_in_a_dispute_is_not_said_to_agree_with_most() {
        let mut event_log = EventLog::new(3, 0);
        let (followed, disputed, outvoted) = (Standing::Followed, Standing::Disputed(7.0), Standing::Outvoted);
        let mut told = |at: i64, standings: [Standing; 3]| {
            let [a, b, c] = standings.map(Some);
            event_log.lines(at * SECOND, &seen(&[("a", a), ("b", b), ("c", c)]))
        };
        told(1, [outvoted, followed, Standing::Agrees]);
        let all = [(0, Health::Outvoted), (1, Health::Good), (2, Health::Good)];
        let lines = all.map(|(number, before)| Line::Server(number, before, Health::Disputed));
        assert_eq!(told(2, [followed, disputed, disputed]), [&lines[..], &[Line::Followed(1, 0)]].concat());
        let lines = [0, 1, 2].map(|number| Line::Server(number, Health::Disputed, Health::Good));
        assert_eq!(told(3, [followed, Standing::Agrees, Standing::Agrees]), lines);
    }

    #[test]
    fn a_clock_that_begins_anew_is_synchronised_anew() {
        let servers = [("a", Some(Standing::Followed))];
        let mut event_log = EventLog::new(1, 3);
        let before = Seen { disruptions: 3, ..seen(&servers) };
        assert_eq!(event_log.lines(SECOND, &before), [Line::Synchronised(0)]);
        let broken = Seen { disruptions: 4, synchronised: false, servers: &[("a", None)], ..before };
        assert_eq!(event_log.lines(2 * SECOND, &broken), [Line::Anew]);
        assert_eq!(event_log.lines(3 * SECOND, &Seen { disruptions: 4, ..before }), [Line::Synchronised(0)]);
    }

    #[test]
    fn a_server_that_changes_all_the_time_does_not_fill_the_log() {
        let mut event_log = EventLog::new(2, 0);
        let mut lines = 0;
        let mut last = None;
        for second in 0..3600 {
            let standing = if second % 2 == 0 { Standing::Outvoted } else { Standing::Agrees };
            let servers = [("good", Some(Standing::Followed)), ("hostile", Some(standing))];
            let new = event_log.lines(second * SECOND, &seen(&servers));
            lines += new.len();
            last = new.last().copied().or(last);
        }
        assert!((60..75).contains(&lines), "{lines} lines in an hour");
        // Its final state is logged as soon as a line is available.
        let settled = [("good", Some(Standing::Followed)), ("hostile", Some(Standing::Outvoted))];
        let end = event_log.lines(3700 * SECOND, &seen(&settled)).last().copied().or(last);
        assert!(matches!(end, Some(Line::Server(1, _, Health::Outvoted))), "{end:?}");
    }
}
