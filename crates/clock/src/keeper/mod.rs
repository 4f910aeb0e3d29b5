//! Several servers: exchanges in, the page's parameters out. No I/O, no clock; the same exchanges give the same page, bit for bit.
//!
//! | module | stage |
//! |---|---|
//! | `choice` | which servers agree, and which of them is followed |
//! | `bridge` | one time without a step, also when another server is followed |
//! | `difference` | the long-term period, for differences of time |
//! | `leap` | leap seconds: announced, applied, and taken out of what servers say |

mod bridge;
mod choice;
mod difference;
pub mod leap;

pub use choice::Standing;

use crate::exchange::Exchange;
use crate::page::{Parameters, Root, Status};
use crate::scale::Scale;
use crate::sync::{self, Clock, Outcome, Refusal, Sync};
use crate::time::Count;
use bridge::Bridge;
use choice::Candidate;
use difference::Difference;
use leap::{Announcement, Leaps};

/// What is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Config {
    /// The counter's nominal period.
    pub nominal: Scale,
    /// How far the true period may be from it: standard deviation, relative.
    pub rate_error: f64,
    /// After this many ns without a usable exchange the clock runs on its own.
    pub holdover_after: i64,
    /// Within so many ns the parameters are published anew, or else they are stale.
    pub fresh_for: i64,
    /// TAI - UTC in seconds, if it is known.
    pub tai_offset: Option<i32>,
    /// The servers smear leap seconds, so none is applied.
    pub smeared: bool,
}

/// TAI - UTC since 2017, for hosts where nobody knows better.
const USUAL_TAI_OFFSET: i32 = 37;
/// The clock is warm when its rate is known so well, in ns/s.
const WARM: f64 = 1_000.0;

/// One server and the clock that it gives.
#[derive(Clone, Debug)]
struct Server {
    config: sync::Config,
    sync: Sync,
    difference: Difference,
    /// The last usable exchange.
    last: Option<Count>,
    announced: Announcement,
}

impl Server {
    fn new(config: sync::Config) -> Self {
        let difference = Difference::new(config.nominal);
        Self { config, sync: Sync::new(config), difference, last: None, announced: Announcement::None }
    }

    /// How far the reference is if this server is followed; who has that server's address adds it.
    fn root(&self) -> Root {
        let Some(said) = self.sync.server() else { return Root::default() };
        let path = self.sync.round_trip().max(0.0) as u64;
        Root { stratum: said.stratum, reference: 0, delay: said.root_delay.saturating_add(path) }
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
    disrupted: bool,
}

impl Keeper {
    /// Nothing is known yet. `asymmetries` tells for each server how much longer requests take than answers, in ns, as far as the user knows.
    #[must_use]
    pub fn new(config: Config, asymmetries: &[f64]) -> Self {
        let server = |&asymmetry| {
            Server::new(sync::Config { nominal: config.nominal, rate_error: config.rate_error, asymmetry })
        };
        Self {
            config,
            servers: asymmetries.iter().map(server).collect(),
            standings: vec![Standing::Silent; asymmetries.len()],
            chosen: None,
            bridge: Bridge::default(),
            leaps: Leaps::new(config.tai_offset.unwrap_or(USUAL_TAI_OFFSET)),
            disruptions: 0,
            disrupted: false,
        }
    }

    /// The same, on a page on which the counter had broken so often already.
    #[must_use]
    pub const fn after(mut self, disruptions: u32) -> Self {
        self.disruptions = disruptions;
        self
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
        let stamps = (self.leaps.tai_of(exchange.server_received)).zip(self.leaps.tai_of(exchange.server_sent));
        let (server_received, server_sent) = stamps.ok_or(Refusal::Leaping)?;
        let exchange = Exchange { server_received, server_sent, ..*exchange };
        let before = self.clock(exchange.received);
        let this = &mut self.servers[server];
        let outcome = this.sync.exchange(&exchange)?;
        this.last = Some(exchange.received);
        this.announced = announced;
        match outcome {
            Outcome::Used { excess } => this.difference.take(&exchange, excess, this.sync.round_trip()),
            Outcome::PathChanged(_) => {}
            Outcome::ServerStepped => this.difference = Difference::new(this.config.nominal),
        }
        self.choose(exchange.received, before);
        self.disrupted &= self.chosen.is_none();
        if !self.config.smeared {
            let agreeing = self.standings.iter().zip(&self.servers).filter(|(standing, _)| standing.agrees());
            self.leaps.announce(agreeing.map(|(_, server)| server.announced), server_sent);
        }
        Ok(outcome)
    }

    /// The counter has broken: all that is known of it is void.
    pub fn disrupt(&mut self) {
        for server in &mut self.servers {
            *server = Server::new(server.config);
        }
        self.standings.fill(Standing::Silent);
        self.chosen = None;
        self.bridge = Bridge::default();
        self.disruptions = self.disruptions.wrapping_add(1);
        self.disrupted = true;
    }

    /// Chooses anew; `before` is the clock as it was published until `now`.
    fn choose(&mut self, now: Count, before: Option<Clock>) {
        let candidates: Vec<_> = self
            .servers
            .iter()
            .map(|server| server.sync.clock(now).map(|clock| Candidate { time: clock.time, bound: clock.bound }))
            .collect();
        let (standings, chosen) = choice::choose(&candidates, self.chosen);
        self.standings = standings;
        if chosen != self.chosen {
            self.chosen = chosen;
            let new = chosen.and_then(|server| self.servers[server].sync.clock(now));
            self.bridge = before.zip(new).map(|(before, new)| Bridge::new(now, &before, &new)).unwrap_or_default();
        }
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

    /// The clock at a count that is not before the last exchange, in TAI; `None` before the first.
    #[must_use]
    pub fn clock(&self, now: Count) -> Option<Clock> {
        let clock = self.servers[self.chosen?].sync.clock(now)?;
        let disagreement = choice::disagreement(&self.standings);
        Some(self.bridge.over(self.config.nominal, Clock { bound: clock.bound + disagreement, ..clock }))
    }

    /// What to publish at `now`, which is not before the last exchange.
    #[must_use]
    pub fn parameters(&self, now: Count) -> Parameters {
        let status = Status::default()
            .with(Status::DISRUPTED, self.disrupted)
            .with(Status::SMEARED, self.config.smeared)
            .with(Status::TAI_KNOWN, self.config.tai_offset.is_some() && !self.config.smeared);
        let base = Parameters { disruptions: self.disruptions, leap: self.leaps.leap(), ..Parameters::UNKNOWN };
        let fresh_until = now.plus(self.config.nominal.counts(self.config.fresh_for));
        let Some((clock, server)) = self.clock(now).zip(self.chosen) else {
            return Parameters { status, at: now, fresh_until, ..base };
        };
        let server = &self.servers[server];
        let scale = |period| Scale::from_period(period).unwrap_or(self.config.nominal);
        let silent =
            server.last.is_none_or(|last| self.config.nominal.nanos(now.since(last)) > self.config.holdover_after);
        Parameters {
            status: status
                .with(Status::SYNCHRONISED, true)
                .with(Status::WARMING_UP, clock.error_rate > WARM)
                .with(Status::HOLDOVER, silent),
            at: clock.at,
            time: clock.time,
            local: scale(clock.period),
            difference: scale(server.difference.period().unwrap_or(clock.period)),
            error: libm::ceil(clock.error) as u64,
            bound: libm::ceil(clock.bound) as u64,
            growth: libm::ceil(clock.error_rate * 1e-9 * 4_294_967_296.0) as u64,
            fresh_until,
            root: server.root(),
            ..base
        }
    }
}
