//! Several servers: exchanges in, the page's parameters out. No I/O, no clock; the same exchanges
//! give the same page, bit for bit.
//!
//! | module | stage |
//! |---|---|
//! | `choice` | which servers agree, and which of them is followed |
//! | `bridge` | one time without a step, also when another server is followed |
//! | `difference` | the long-term period, for differences of time |
//! | `leap`, `table` | leap seconds: announced or in a table, applied, and taken out of what servers say |
//! | `calendar` | days and dates, which both need |
//! | `suspicion` | what shows that a server spreads leap seconds, or that the counter has broken |

mod bridge;
pub mod calendar;
mod choice;
mod difference;
pub mod leap;
mod suspicion;
pub mod table;

pub use choice::Standing;

use crate::exchange::Exchange;
use crate::page::{Parameters, Root, Status};
use crate::scale::Scale;
use crate::sync::{self, Clock, Outcome, Refusal, Sync};
use crate::time::{Count, Nanos};
use bridge::{Bridge, compatible};
use choice::Candidate;
use difference::Difference;
use leap::{Announcement, Leaps};
use suspicion::Denial;
use table::Table;

/// What is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The counter's nominal period.
    pub nominal: Scale,
    /// How far the true period may be from it: standard deviation, relative.
    pub rate_error: f64,
    /// After this many ns without a usable exchange the clock runs on its own; of one server it can
    /// be [another](Keeper::set_patience).
    pub holdover_after: i64,
    /// Within so many ns the parameters are published anew, or else they are stale.
    pub fresh_for: i64,
    /// TAI - UTC in seconds, if it is known.
    pub tai_offset: Option<i32>,
}

/// What the user knows of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Source {
    /// How much longer requests take than answers, in ns. Half of it corrects the clock.
    pub asymmetry: f64,
    /// It spreads leap seconds over a day. It is not mixed with servers that tell UTC itself (RFC
    /// 8633 §3.7.1); where all of them spread, no leap second is applied.
    pub smeared: bool,
}

/// TAI - UTC since 2017, for hosts where nobody knows better.
const USUAL_TAI_OFFSET: i32 = 37;
/// So many servers can outvote one of them.
const SEVERAL: usize = 3;
/// Where there are several, the time is not told before most have been heard, or so many ns have
/// passed since the first was: then their bursts are over. In a network where all answer it takes
/// milliseconds.
const START: i64 = 3_000_000_000;
/// A dead server is followed for so many ns against those that live and contradict it, and for its
/// patience at least: servers that were lost together come back one after the other, some only when
/// they have found their satellites again.
const CONTESTED: i64 = 3_600_000_000_000;
/// The clock is warm when its rate is known so well, in ns/s.
const WARM: f64 = 1_000.0;

/// One server and the clock that it gives.
#[derive(Clone, Debug)]
struct Server {
    config: sync::Config,
    sync: Sync,
    difference: Difference,
    /// After this many ns without a usable exchange it tells nothing any more.
    patience: i64,
    /// The last usable exchange.
    last: Option<Count>,
    announced: Announcement,
    /// It spreads leap seconds, as the user knows, or as it shows around this one.
    smeared: bool,
    smears: bool,
    /// It is late with a leap second: so many exchanges are not used.
    late: u32,
    /// It has told, after a leap second, that there was none.
    denies: Option<Denial>,
    /// When it has told what is far from all that is known, if it did so last.
    contradicts: Option<Count>,
}

impl Server {
    fn new(config: sync::Config, smeared: bool, patience: i64) -> Self {
        Self {
            config,
            sync: Sync::new(config),
            difference: Difference::new(config.nominal),
            patience,
            last: None,
            announced: Announcement::None,
            smeared,
            smears: false,
            late: 0,
            denies: None,
            contradicts: None,
        }
    }

    /// Nothing is known of it any more but what it is.
    fn forget(&mut self) {
        *self = Self { smears: self.smears, ..Self::new(self.config, self.smeared, self.patience) };
    }

    /// How far the reference is if this server is followed; who has that server's address adds it.
    fn root(&self) -> Root {
        let Some(said) = self.sync.server() else { return Root::default() };
        let path = self.sync.round_trip().max(0.0) as u64;
        Root { stratum: said.stratum, reference: 0, delay: said.root_delay.saturating_add(path) }
    }

    /// Its root distance (RFC 5905 §11.2.1) but for what has passed since it was heard, in ns.
    fn distance(&self) -> f64 {
        let said = self.sync.server().unwrap_or_default();
        (said.root_delay as f64 + self.sync.round_trip()) / 2.0 + said.root_dispersion as f64
    }
}

/// The clock that several servers give.
#[derive(Clone, Debug)]
pub struct Keeper {
    config: Config,
    servers: Vec<Server>,
    standings: Vec<Standing>,
    chosen: Option<usize>,
    bridge: Bridge,
    leaps: Leaps,
    disruptions: u32,
    since: Count,
    breaks: u32,
    disrupted: bool,
    /// Since when the one that is followed is dead and contradicted by those that live.
    contested: Option<Count>,
    /// When a server was heard first, since the beginning or the last break.
    begun: Option<Count>,
    /// Enough servers have been heard since.
    settled: bool,
}

impl Keeper {
    /// Nothing is known yet but what the user knows of the servers.
    #[must_use]
    pub fn new(config: Config, sources: &[Source]) -> Self {
        let server = |&Source { asymmetry, smeared }| {
            let Config { nominal, rate_error, .. } = config;
            Server::new(sync::Config { nominal, rate_error, asymmetry }, smeared, config.holdover_after)
        };
        Self {
            config,
            servers: sources.iter().map(server).collect(),
            standings: vec![Standing::Silent; sources.len()],
            chosen: None,
            bridge: Bridge::default(),
            leaps: Leaps::new(config.tai_offset.unwrap_or(USUAL_TAI_OFFSET)),
            disruptions: 0,
            since: Count(0),
            breaks: 0,
            disrupted: false,
            contested: None,
            begun: None,
            settled: false,
        }
    }

    /// The same, on a page on which the counter had broken so often already, and has been whole
    /// since then.
    #[must_use]
    pub const fn after(mut self, disruptions: u32, since: Count) -> Self {
        (self.disruptions, self.since) = (disruptions, since);
        self
    }

    /// Leap seconds are in this table. Where all servers spread them nobody asks it.
    pub fn set_leap_table(&mut self, table: Table) {
        if !self.all_smeared() {
            self.leaps.set_table(table);
        }
    }

    /// A server is asked more or less often than the others: after so many ns without a usable
    /// exchange it tells nothing any more.
    pub fn set_patience(&mut self, server: usize, ns: i64) {
        self.servers[server].patience = ns;
    }

    /// Takes in an exchange with a server; its stamps are Unix time.
    ///
    /// # Errors
    /// Why it was not used; the clock is as it was.
    pub fn exchange(
        &mut self,
        server: usize,
        exchange: &Exchange,
        announced: Announcement,
    ) -> Result<Outcome, Refusal> {
        self.look_up(exchange.received, exchange.server_sent);
        let told = exchange;
        let exchange = self.in_tai(told)?;
        let before = self.bridged(exchange.received).filter(|_| self.is_settled(exchange.received));
        let now = before.map_or(exchange.server_sent, |clock| clock.time);
        if self.is_kept_out(server, now) {
            return Err(Refusal::Smeared);
        }
        if before.is_some_and(|clock| self.is_late(server, &exchange, &clock)) {
            return Err(Refusal::Leaping);
        }
        // That may have taken the leap second back.
        let exchange = self.in_tai(told)?;
        let breaks = self.breaks;
        let outcome = self.hear(server, &exchange, now, before)?;
        let this = &mut self.servers[server];
        this.last = Some(exchange.received);
        this.announced = announced;
        match outcome {
            Outcome::Used { excess } => this.difference.take(&exchange, excess, this.sync.round_trip()),
            Outcome::PathChanged(_) => {}
            Outcome::ServerStepped => this.difference = Difference::new(this.config.nominal),
        }
        self.settle(exchange.received);
        // Nothing leads over a break: the old clock means nothing at a new count.
        self.choose(exchange.received, before.filter(|_| self.breaks == breaks));
        self.disrupted &= self.clock(exchange.received).is_none();
        // The clock may have been set far.
        self.look_up(exchange.received, told.server_sent);
        if !self.all_smeared() {
            let now = self.clock(exchange.received).map_or(exchange.server_sent, |clock| clock.time);
            let agreeing = self.standings.iter().zip(&self.servers).filter(|(standing, _)| standing.agrees());
            self.leaps.announce(agreeing.map(|(_, server)| server.announced), now);
        }
        Ok(outcome)
    }

    /// An exchange whose stamps are Unix time, in TAI by what is known of leap seconds.
    fn in_tai(&self, exchange: &Exchange) -> Result<Exchange, Refusal> {
        let stamps = self.leaps.tai_of(exchange.server_received).zip(self.leaps.tai_of(exchange.server_sent));
        let (server_received, server_sent) = stamps.ok_or(Refusal::Leaping)?;
        Ok(Exchange { server_received, server_sent, ..*exchange })
    }

    /// Looks up the leap seconds about now. A server may tell any time; the clock knows better,
    /// once it does.
    fn look_up(&mut self, now: Count, told: Nanos) {
        let known = self.clock(now).map(|clock| self.utc_of(clock.time));
        self.leaps.look_up(known.unwrap_or(told));
    }

    /// The counter has broken, and is at `now`: all that is known of it is void.
    pub fn disrupt(&mut self, now: Count) {
        self.servers.iter_mut().for_each(Server::forget);
        self.standings.fill(Standing::Silent);
        self.chosen = None;
        self.bridge = Bridge::default();
        self.disruptions = self.disruptions.wrapping_add(1);
        self.since = now;
        self.breaks = self.breaks.wrapping_add(1);
        self.disrupted = true;
        (self.contested, self.begun, self.settled) = (None, None, false);
    }

    /// How often it was [told](Self::disrupt), or has found out by itself, that the counter has
    /// broken. Who hands it exchanges looks after each whether this has changed: an exchange that
    /// began before is void, and so is what waits to be completed by the next one (RFC 9769).
    #[must_use]
    pub const fn breaks(&self) -> u32 {
        self.breaks
    }

    /// Whether what the servers have said so far is worth telling: the first alone may be a liar
    /// that the others would outvote.
    fn is_settled(&self, now: Count) -> bool {
        let passed = |begun: Count| self.config.nominal.nanos(now.since(begun));
        self.settled || self.begun.is_some_and(|begun| passed(begun) >= START)
    }

    /// A server has been heard.
    fn settle(&mut self, now: Count) {
        self.begun.get_or_insert(now);
        let all = self.all_smeared();
        let asked = self.servers.iter().filter(|server| all || !server.smeared && !server.smears);
        let (several, heard) = (asked.clone().count(), asked.filter(|server| server.last.is_some()).count());
        self.settled = several < SEVERAL || heard * 2 > several || self.is_settled(now);
    }

    /// Whether a server has told nothing usable for so long that it does not count any more.
    fn is_silent(&self, server: &Server, now: Count) -> bool {
        server.last.is_none_or(|last| self.config.nominal.nanos(now.since(last)) > server.patience)
    }

    /// Chooses anew; `before` is the clock as it was [followed](Self::bridged) until `now`.
    fn choose(&mut self, now: Count, before: Option<Clock>) {
        let reserve = self.reserve(now);
        let candidate = |(server, kept_out): (&Server, &bool)| {
            let clock = server.sync.clock(now).filter(|_| !kept_out)?;
            let alive = !self.is_silent(server, now);
            let loyal = before.is_none_or(|before| compatible(&before, &clock));
            Some(Candidate { time: clock.time, bound: clock.bound, alive, distance: server.distance(), loyal })
        };
        let mut candidates: Vec<_> = self.servers.iter().zip(&reserve).map(candidate).collect();
        let (mut standings, mut chosen) = choice::choose(&candidates, self.chosen);
        if let Some(dead) = self.has_lost_its_say(now, &candidates, &standings, chosen) {
            candidates[dead] = None;
            (standings, chosen) = choice::choose(&candidates, None);
        }
        for (standing, _) in standings.iter_mut().zip(reserve).filter(|(_, kept_out)| *kept_out) {
            *standing = Standing::Smeared;
        }
        self.standings = standings;
        let changed = chosen != self.chosen;
        self.chosen = chosen;
        let new = if changed { self.followed(now) } else { self.bridged(now) };
        match before.zip(new) {
            Some((before, new)) if !compatible(&before, &new) => {
                self.bridge = Bridge::default();
                self.disruptions = self.disruptions.wrapping_add(1);
                // One server that contradicts itself: it was set, or the counter has broken and
                // nobody else is there to show that.
                if !changed {
                    self.since = now;
                }
            }
            Some((before, new)) if changed => self.bridge = Bridge::new(now, &before, &new),
            None if changed => self.bridge = Bridge::default(),
            _ => {}
        }
    }

    /// Who is followed though it is dead, if those that live have contradicted it for so long that
    /// it will not come back.
    fn has_lost_its_say(
        &mut self,
        now: Count,
        candidates: &[Option<Candidate>],
        standings: &[Standing],
        chosen: Option<usize>,
    ) -> Option<usize> {
        let dead = chosen.filter(|&chosen| candidates[chosen].is_some_and(|candidate| !candidate.alive));
        let contradicted = standings.iter().any(|standing| matches!(standing, Standing::Disputed(_)));
        let dead = dead.filter(|_| contradicted);
        self.contested = dead.map(|_| self.contested.unwrap_or(now));
        let lasts = self.contested.map_or(0, |since| self.config.nominal.nanos(now.since(since)));
        dead.filter(|&dead| lasts > CONTESTED.max(self.servers[dead].patience))
    }

    /// How each server stands.
    #[must_use]
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// The server that is followed.
    #[must_use]
    pub const fn chosen(&self) -> Option<usize> {
        self.chosen
    }

    /// The clock that one server gives alone, and what is known of its path.
    #[must_use]
    pub fn server(&self, server: usize) -> &Sync {
        &self.servers[server].sync
    }

    /// The clock of the server that is followed, without the bridge from another: its period is the
    /// counter's, as far as that is known.
    #[must_use]
    pub fn followed(&self, now: Count) -> Option<Clock> {
        self.servers[self.chosen?].sync.clock(now)
    }

    /// The same on the bridge, without what others dispute.
    fn bridged(&self, now: Count) -> Option<Clock> {
        Some(self.bridge.over(self.config.nominal, self.followed(now)?))
    }

    /// The clock at a count that is not before the last exchange, in TAI; `None` before the first,
    /// and while too few servers of several have been heard.
    #[must_use]
    pub fn clock(&self, now: Count) -> Option<Clock> {
        let clock = self.bridged(now).filter(|_| self.is_settled(now))?;
        Some(Clock { bound: clock.bound + choice::disagreement(&self.standings), ..clock })
    }

    /// What to publish at `now`, which is not before the last exchange.
    #[must_use]
    pub fn parameters(&self, now: Count) -> Parameters {
        let smeared = self.chosen.map_or_else(|| self.all_smeared(), |chosen| self.spreads(chosen));
        let known = self.clock(now).is_some_and(|clock| self.leaps.certain(self.utc_of(clock.time)));
        let status = Status::default()
            .with(Status::DISRUPTED, self.disrupted && self.clock(now).is_none())
            .with(Status::SMEARED, smeared)
            .with(Status::TAI_KNOWN, (known || self.config.tai_offset.is_some()) && !smeared);
        let (disruptions, since) = (self.disruptions, self.since);
        let base = Parameters { disruptions, since, leap: self.leaps.leap(), ..Parameters::UNKNOWN };
        let fresh_until = now.plus(self.config.nominal.counts(self.config.fresh_for));
        let Some((clock, server)) = self.clock(now).zip(self.chosen) else {
            // The nominal period tells a reader how old this is.
            return Parameters { status, at: now, local: self.config.nominal, fresh_until, ..base };
        };
        let server = &self.servers[server];
        let (error, bound, growth) = figures(&clock);
        let scale = |period| Scale::from_period(period).unwrap_or(self.config.nominal);
        let silent = self.is_silent(server, now);
        Parameters {
            status: status
                .with(Status::SYNCHRONISED, true)
                .with(Status::WARMING_UP, clock.error_rate > WARM)
                .with(Status::HOLDOVER, silent),
            at: clock.at,
            time: clock.time,
            local: scale(clock.period),
            difference: scale(server.difference.period().unwrap_or(clock.period)),
            error,
            bound,
            growth,
            fresh_until,
            root: server.root(),
            ..base
        }
    }
}

/// Error and bound in ns, and by how much both grow, as they are published: no less than they are,
/// and what is no number is more than any.
fn figures(clock: &Clock) -> (u64, u64, u32) {
    let whole = |figure: f64| if figure.is_nan() { u64::MAX } else { libm::ceil(figure) as u64 };
    let growth = whole(clock.error_rate * 1e-9 * 4_294_967_296.0);
    (whole(clock.error), whole(clock.bound), u32::try_from(growth).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_not_published_as_no_error() {
        let of = |figure: f64| {
            let (at, time) = (Count(0), Nanos(0));
            figures(&Clock { at, time, period: 1.0, error: figure, error_rate: figure, bound: figure })
        };
        for wrong in [f64::NAN, -f64::NAN, f64::INFINITY] {
            assert_eq!(of(wrong), (u64::MAX, u64::MAX, u32::MAX), "{wrong}");
        }
        assert_eq!(of(2.5), (3, 3, 11));
    }
}
