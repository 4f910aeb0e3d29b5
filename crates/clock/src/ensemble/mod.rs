//! Several servers: exchanges in, the page's parameters out. There is no I/O and no clock here: the
//! same exchanges give the same page, bit for bit.
//!
//! | module | stage |
//! |---|---|
//! | `selection` | selection: which servers agree, and which of them is followed |
//! | `slew` | slew instead of a step when another server is followed |
//! | `difference` | the long-term period, for differences of time |
//! | `leap`, `table` | leap seconds: announced, in a table, applied, out of server timestamps |
//! | `calendar` | days and dates, for both of these |
//! | `fault_detection` | detects servers that smear leap seconds, and a broken counter |

pub mod calendar;
mod difference;
mod fault_detection;
pub mod leap;
mod selection;
mod slew;
pub mod table;

pub use selection::Standing;

use crate::exchange::Exchange;
use crate::sync::{self, ClockEstimate, ExchangeRefusal, Outcome, Sync};
use difference::Difference;
use fault_detection::Denial;
use leap::{Announcement, Leaps};
use selection::Candidate;
use slew::{Slew, compatible};
use table::Table;
use tickwire_clockpage::{Count, Nanos, Parameters, Root, Scale, Status};

/// Configuration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EnsembleConfig {
    /// The counter's nominal period.
    pub nominal: Scale,
    /// Relative standard deviation of the true period from the nominal one.
    pub rate_error: f64,
    /// After this many ns without a usable exchange the clock is in holdover. It can be
    /// [set](Ensemble::set_silence_timeout) for each server.
    pub holdover_after: i64,
    /// The parameters are stale if they are not published again within this many ns.
    pub fresh_for: i64,
    /// TAI - UTC in seconds, if it is known.
    pub tai_offset: Option<i32>,
}

/// The user's configuration of a server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SourceConfig {
    /// How much longer requests take than replies, in ns. Half of it corrects the clock.
    pub asymmetry: f64,
    /// It smears leap seconds over a day. It is not mixed with servers that do not (RFC 8633
    /// §3.7.1); if all of them smear, no leap second is applied.
    pub smeared: bool,
}

/// TAI - UTC since 2017: the default where neither the configuration nor a table gives it.
const USUAL_TAI_OFFSET: i32 = 37;
/// The number of servers from which a majority can outvote one.
const SEVERAL: usize = 3;
/// With several servers, no time is published until most have been heard, or until this many ns
/// after the first was: then their bursts are over. In a network where all of them reply it takes
/// milliseconds.
const START: i64 = 3_000_000_000;
/// A silent server is followed for this many ns against live ones that contradict it, and at least
/// for its silence timeout. Servers that were lost together come back one after the other, some
/// only after a new GNSS fix.
const CONTESTED: i64 = 3_600_000_000_000;
/// The warm-up ends when the error of the rate is below this, in ns/s.
const WARM: f64 = 1_000.0;

/// One server and its clock.
#[derive(Clone, Debug)]
struct Server {
    config: sync::SyncConfig,
    sync: Sync,
    difference: Difference,
    /// After this many ns without a usable exchange the server is silent.
    silence_timeout: i64,
    /// The last usable exchange.
    last: Option<Count>,
    announced: Announcement,
    /// It smears leap seconds: by the configuration (`smeared`), or detected around this one
    /// (`smears`).
    smeared: bool,
    smears: bool,
    /// It is late with a leap second: the number of exchanges that are still refused.
    late: u32,
    /// Set if it denies the last leap second.
    denies: Option<Denial>,
    /// Time of its last exchange, if that was an outlier.
    contradicts: Option<Count>,
}

impl Server {
    fn new(config: sync::SyncConfig, smeared: bool, silence_timeout: i64) -> Self {
        Self {
            config,
            sync: Sync::new(config),
            difference: Difference::new(config.nominal),
            silence_timeout,
            last: None,
            announced: Announcement::None,
            smeared,
            smears: false,
            late: 0,
            denies: None,
            contradicts: None,
        }
    }

    /// Resets everything but its configuration and `smears`.
    fn forget(&mut self) {
        *self = Self { smears: self.smears, ..Self::new(self.config, self.smeared, self.silence_timeout) };
    }

    /// Distance of the reference if this server is followed. The caller adds the reference ID,
    /// because it has the address.
    fn root(&self) -> Root {
        let Some(said) = self.sync.server() else { return Root::default() };
        let path = self.sync.round_trip().max(0.0) as u64;
        Root { stratum: said.stratum, reference: 0, delay: said.root_delay.saturating_add(path) }
    }

    /// Its root distance (RFC 5905 §11.2.1) in ns, without the growth since the last exchange.
    fn distance(&self) -> f64 {
        let said = self.sync.server().unwrap_or_default();
        (said.root_delay as f64 + self.sync.round_trip()) / 2.0 + said.root_dispersion as f64
    }
}

/// One clock from several servers.
#[derive(Clone, Debug)]
pub struct Ensemble {
    config: EnsembleConfig,
    servers: Vec<Server>,
    standings: Vec<Standing>,
    chosen: Option<usize>,
    bridge: Slew,
    leaps: Leaps,
    disruptions: u32,
    since: Count,
    breaks: u32,
    disrupted: bool,
    /// Since when the followed server is silent and contradicted by live ones.
    contested: Option<Count>,
    /// When the first server was heard since the start or the last break.
    begun: Option<Count>,
    /// Enough servers have been heard since `begun`, or `START` has passed.
    settled: bool,
}

impl Ensemble {
    /// A new ensemble, without any exchange.
    #[must_use]
    pub fn new(config: EnsembleConfig, sources: &[SourceConfig]) -> Self {
        let server = |&SourceConfig { asymmetry, smeared }| {
            let EnsembleConfig { nominal, rate_error, .. } = config;
            Server::new(sync::SyncConfig { nominal, rate_error, asymmetry }, smeared, config.holdover_after)
        };
        Self {
            config,
            servers: sources.iter().map(server).collect(),
            standings: vec![Standing::Silent; sources.len()],
            chosen: None,
            bridge: Slew::default(),
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

    /// Continues the count of disruptions of an existing page, whose counter has not broken after
    /// `since`.
    #[must_use]
    pub const fn after(mut self, disruptions: u32, since: Count) -> Self {
        (self.disruptions, self.since) = (disruptions, since);
        self
    }

    /// Sets the table of leap seconds. It is ignored if all servers smear them.
    pub fn set_leap_table(&mut self, table: Table) {
        if !self.all_smeared() {
            self.leaps.set_table(table);
        }
    }

    /// Sets the silence timeout of a server that is polled more or less often than the others:
    /// after this many ns without a usable exchange it is silent.
    pub fn set_silence_timeout(&mut self, server: usize, ns: i64) {
        self.servers[server].silence_timeout = ns;
    }

    /// Processes an exchange with a server, whose timestamps are Unix time.
    ///
    /// # Errors
    /// Why it was not used. The published time is as it was, unless the counter has broken or the
    /// servers are found to smear: then the estimates begin anew.
    pub fn exchange(
        &mut self,
        server: usize,
        exchange: &Exchange,
        announced: Announcement,
    ) -> Result<Outcome, ExchangeRefusal> {
        self.look_up(exchange.received, exchange.server_sent);
        let told = exchange;
        let exchange = self.in_tai(told)?;
        let before = self.bridged(exchange.received).filter(|_| self.is_settled(exchange.received));
        let now = before.map_or(exchange.server_sent, |clock| clock.time);
        if self.is_kept_out(server, now) {
            return Err(ExchangeRefusal::Smeared);
        }
        if before.is_some_and(|clock| self.is_late(server, &exchange, &clock)) {
            return Err(ExchangeRefusal::Leaping);
        }
        // `is_late` may have withdrawn the leap second.
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
        // No slew across a break: the old clock is not valid at a new count.
        self.choose(exchange.received, before.filter(|_| self.breaks == breaks));
        self.disrupted &= self.clock(exchange.received).is_none();
        // The clock may have been stepped far.
        self.look_up(exchange.received, told.server_sent);
        if !self.all_smeared() {
            let now = self.clock(exchange.received).map_or(exchange.server_sent, |clock| clock.time);
            let agreeing = self.standings.iter().zip(&self.servers).filter(|(standing, _)| standing.agrees());
            self.leaps.announce(agreeing.map(|(_, server)| server.announced), now);
        }
        Ok(outcome)
    }

    /// Converts the timestamps of an exchange from Unix time to TAI by the known leap seconds.
    fn in_tai(&self, exchange: &Exchange) -> Result<Exchange, ExchangeRefusal> {
        let stamps = self.leaps.tai_of(exchange.server_received).zip(self.leaps.tai_of(exchange.server_sent));
        let (server_received, server_sent) = stamps.ok_or(ExchangeRefusal::Leaping)?;
        Ok(Exchange { server_received, server_sent, ..*exchange })
    }

    /// Looks up the leap seconds around now: by the clock once it is known, because a server may
    /// send any time.
    fn look_up(&mut self, now: Count, told: Nanos) {
        let known = self.clock(now).map(|clock| self.utc_of(clock.time));
        self.leaps.look_up(known.unwrap_or(told));
    }

    /// Handles a broken counter, which is at `now`: discards everything that depends on it.
    pub fn disrupt(&mut self, now: Count) {
        self.servers.iter_mut().for_each(Server::forget);
        self.standings.fill(Standing::Silent);
        self.chosen = None;
        self.bridge = Slew::default();
        self.disruptions = self.disruptions.wrapping_add(1);
        self.since = now;
        self.breaks = self.breaks.wrapping_add(1);
        self.disrupted = true;
        (self.contested, self.begun, self.settled) = (None, None, false);
    }

    /// How often the counter has broken, whether [reported](Self::disrupt) or detected. The caller
    /// checks this after each exchange: if it has changed, exchanges that began before are void,
    /// and so is interleaved state that waits for the next one (RFC 9769).
    #[must_use]
    pub const fn breaks(&self) -> u32 {
        self.breaks
    }

    /// Whether enough servers have been heard to publish a time: the first alone may be a
    /// falseticker that the others would outvote.
    fn is_settled(&self, now: Count) -> bool {
        let passed = |begun: Count| self.config.nominal.nanos(now.since(begun));
        self.settled || self.begun.is_some_and(|begun| passed(begun) >= START)
    }

    /// Updates `begun` and `settled` after a server has been heard.
    fn settle(&mut self, now: Count) {
        self.begun.get_or_insert(now);
        let all = self.all_smeared();
        let asked = self.servers.iter().filter(|server| all || !server.smeared && !server.smears);
        let (several, heard) = (asked.clone().count(), asked.filter(|server| server.last.is_some()).count());
        self.settled = several < SEVERAL || heard * 2 > several || self.is_settled(now);
    }

    /// Whether a server has given no usable exchange within its silence timeout.
    fn is_silent(&self, server: &Server, now: Count) -> bool {
        server.last.is_none_or(|last| self.config.nominal.nanos(now.since(last)) > server.silence_timeout)
    }

    /// Runs the selection; `before` is the clock as it was [followed](Self::bridged) until `now`.
    fn choose(&mut self, now: Count, before: Option<ClockEstimate>) {
        let reserve = self.reserve(now);
        let candidate = |(server, kept_out): (&Server, &bool)| {
            let clock = server.sync.clock(now).filter(|_| !kept_out)?;
            let alive = !self.is_silent(server, now);
            let loyal = before.is_none_or(|before| compatible(&before, &clock));
            Some(Candidate { time: clock.time, bound: clock.bound, alive, distance: server.distance(), loyal })
        };
        let mut candidates: Vec<_> = self.servers.iter().zip(&reserve).map(candidate).collect();
        let (mut standings, mut chosen) = selection::choose(&candidates, self.chosen);
        if let Some(dead) = self.has_lost_its_say(now, &candidates, &standings, chosen) {
            candidates[dead] = None;
            (standings, chosen) = selection::choose(&candidates, None);
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
                self.bridge = Slew::default();
                self.disruptions = self.disruptions.wrapping_add(1);
                // A followed server that contradicts its own earlier time was stepped, or the
                // counter has broken, and no other server shows which.
                if !changed {
                    self.since = now;
                }
            }
            Some((before, new)) if changed => self.bridge = Slew::new(now, &before, &new),
            None if changed => self.bridge = Slew::default(),
            _ => {}
        }
    }

    /// The followed server, if it is silent and live ones have contradicted it for so long that it
    /// is not expected back.
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
        dead.filter(|&dead| lasts > CONTESTED.max(self.servers[dead].silence_timeout))
    }

    /// The standing of each server.
    #[must_use]
    pub fn standings(&self) -> &[Standing] {
        &self.standings
    }

    /// The server that is followed.
    #[must_use]
    pub const fn chosen(&self) -> Option<usize> {
        self.chosen
    }

    /// The clock of one server alone, and the state of its path.
    #[must_use]
    pub fn server(&self, server: usize) -> &Sync {
        &self.servers[server].sync
    }

    /// The clock of the followed server without the slew from another: its period is the estimated
    /// period of the counter.
    #[must_use]
    pub fn followed(&self, now: Count) -> Option<ClockEstimate> {
        self.servers[self.chosen?].sync.clock(now)
    }

    /// The same with the slew, without the bound's growth for disputed servers.
    fn bridged(&self, now: Count) -> Option<ClockEstimate> {
        Some(self.bridge.over(self.config.nominal, self.followed(now)?))
    }

    /// The clock at a count that is not before the last exchange, in TAI. `None` before the first
    /// exchange, and while too few of several servers have been heard.
    #[must_use]
    pub fn clock(&self, now: Count) -> Option<ClockEstimate> {
        let clock = self.bridged(now).filter(|_| self.is_settled(now))?;
        Some(ClockEstimate { bound: clock.bound + selection::disagreement(&self.standings), ..clock })
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
            // With the nominal period a reader can compute the age of this.
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

/// Error and bound in ns, and their growth, as published: rounded up, and NaN becomes the maximum.
fn figures(clock: &ClockEstimate) -> (u64, u64, u32) {
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
            figures(&ClockEstimate { at, time, period: 1.0, error: figure, error_rate: figure, bound: figure })
        };
        for wrong in [f64::NAN, -f64::NAN, f64::INFINITY] {
            assert_eq!(of(wrong), (u64::MAX, u64::MAX, u32::MAX), "{wrong}");
        }
        assert_eq!(of(2.5), (3, 3, 11));
    }
}
