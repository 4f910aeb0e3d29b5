//! Detects servers that smear leap seconds, and a broken counter.
//!
//! A packet does not show a smear. Around a known leap second, a server is taken to smear it if its
//! time steps from its own clock, or if its rate changes by more than that of any oscillator in a
//! day. It is excluded until the leap second is over, as are servers that are configured as
//! smeared: RFC 8633 §3.7.1 asks not to mix them.
//!
//! A server can also apply a leap second late. The part that it has not applied yet is not an error
//! of the clock.
//!
//! A counter that has broken (migration of a virtual machine) may leave no trace on the host,
//! because the kernel reads the same counter. But then most servers contradict the clock at once,
//! or the counts of an exchange lie far before the last ones.

use super::{Ensemble, ExchangeRefusal, Outcome, Server};
use crate::exchange::Exchange;
use crate::sync::ClockEstimate;
use tickwire_clockpage::{Count, Leap, Nanos};

const SECOND: i64 = 1_000_000_000;
/// Limit for the change of a rate, relative: a smear of a second in a day is 11.6 ppm, and
/// oscillators stay below this.
const SMEAR: f64 = 3e-6;
/// The rate of a server's clock counts as known when its error is below this, in ns/s.
const SURE: f64 = 1_000.0;
/// Servers that do not smear count as present for this long after their last exchange, in ns.
const THERE: i64 = 3600 * SECOND;
/// A server may apply a leap second this long after it, in ns. Kernels apply it at once, but a
/// server that gets it from its own servers steps later, or slews.
const LATE: i64 = 86_400 * SECOND;
/// A server that lacks the whole second this many times in a row denies it. A server that lacks
/// nothing any more is used again after as many exchanges, because the end of a slew is too small
/// to detect.
const INSISTING: u32 = 8;
/// The denial must also last this long, in ns. A server that gets the leap second from others
/// learns of it minutes later, and ntpd waits five more before it steps.
const FOR_LONG: i64 = 600 * SECOND;
/// An exchange whose counts lie this far before the server's last one, in ns, shows a broken
/// counter.
const BACK: i64 = SECOND;

/// How much of a leap second a server has not applied.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lacks {
    Part,
    All,
}

/// A server denies a leap second: its time lacks the whole second.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denial {
    /// How often in a row.
    times: u32,
    first: Count,
    last: Count,
}

impl Ensemble {
    /// Unix time of a TAI time, by the TAI - UTC offset before the next leap second.
    pub(super) fn utc_of(&self, tai: Nanos) -> Nanos {
        tai.plus(-i64::from(self.leaps.leap().offset) * SECOND)
    }

    /// Whether a server smears leap seconds.
    pub(super) fn spreads(&self, server: usize) -> bool {
        self.servers[server].smeared || self.servers[server].smears
    }

    /// Whether all servers are configured as smeared.
    pub(super) fn all_smeared(&self) -> bool {
        self.servers.iter().all(|server| server.smeared)
    }

    /// Which servers are excluded: those that smear leap seconds while others are present that do
    /// not.
    pub(super) fn reserve(&self, now: Count) -> Vec<bool> {
        let there = |last: Count| self.config.nominal.nanos(now.since(last)) < THERE;
        let plain =
            self.servers.iter().any(|server| !server.smeared && !server.smears && server.last.is_some_and(there));
        (0..self.servers.len()).map(|server| plain && self.spreads(server)).collect()
    }

    /// Whether a server is refused now: it may be smearing a leap second, and not all servers are
    /// configured to smear.
    pub(super) fn is_kept_out(&mut self, server: usize, now: Nanos) -> bool {
        if !self.leaps.spread(now) {
            self.servers[server].smears = false;
        }
        self.leaps.spread(now) && self.spreads(server) && !self.all_smeared()
    }

    /// Whether a server has not fully applied a recent leap second, so that the exchange cannot be
    /// used. If most servers deny the leap second and it is not from the table, it is withdrawn.
    /// `clock` is the followed clock at the end of the exchange.
    pub(super) fn is_late(&mut self, server: usize, exchange: &Exchange, clock: &ClockEstimate) -> bool {
        let lacks = self.lacks(exchange, clock);
        let this = &mut self.servers[server];
        let last = exchange.received;
        let denial = this.denies.map_or((1, last), |denial| (denial.times.saturating_add(1), denial.first));
        let all = lacks == Some(Lacks::All);
        this.denies = all.then_some(Denial { times: denial.0, first: denial.1, last });
        if !self.leaps.is_tabled() && self.most_deny(exchange.received) {
            self.leaps.withdraw();
            // No server can be late with a leap second that did not happen.
            self.servers.iter_mut().for_each(|server| (server.denies, server.late) = (None, 0));
            self.disruptions = self.disruptions.wrapping_add(1);
            return false;
        }
        let this = &mut self.servers[server];
        this.late = if lacks.is_some() { INSISTING } else { this.late.saturating_sub(1) };
        this.late > 0
    }

    /// How much of a recent leap second a server has not applied, if that exceeds the other errors.
    fn lacks(&self, exchange: &Exchange, clock: &ClockEstimate) -> Option<Lacks> {
        let Leap { step, at, .. } = self.leaps.leap();
        if step == 0 || self.all_smeared() || !(0..LATE).contains(&clock.time.since(at)) {
            return None;
        }
        let half = self.config.nominal.nanos(exchange.round_trip()) as f64 / 2.0;
        let ahead = exchange.server_sent.since(clock.time) as f64 + half - exchange.at_server() as f64 / 2.0;
        let either = half + clock.bound + exchange.server.distance();
        let lacks = ahead * f64::from(step.signum());
        let whole = SECOND as f64;
        let what = if lacks < whole - either { Lacks::Part } else { Lacks::All };
        (either..=whole + either).contains(&lacks).then_some(what)
    }

    /// Whether most of the servers that are not silent persistently deny the leap second.
    fn most_deny(&self, now: Count) -> bool {
        let ago = |then: Count| self.config.nominal.nanos(now.since(then));
        let there = |server: &&Server| {
            let told = |then: Count| ago(then) <= server.silence_timeout;
            server.last.is_some_and(told) || server.denies.is_some_and(|denial| told(denial.last))
        };
        let insists = |denial: Denial| denial.times >= INSISTING && ago(denial.first) >= FOR_LONG;
        let there = self.servers.iter().filter(there);
        let deny = there.clone().filter(|server| server.denies.is_some_and(insists));
        deny.count() * 2 > there.count()
    }

    /// Passes an exchange to the server's clock and checks the result for a smear or a broken
    /// counter. `before` is the followed clock until then.
    pub(super) fn hear(
        &mut self,
        server: usize,
        exchange: &Exchange,
        now: Nanos,
        before: Option<ClockEstimate>,
    ) -> Result<Outcome, ExchangeRefusal> {
        let spread = self.leaps.spread(now) && !self.all_smeared();
        let nominal = self.config.nominal;
        let this = &mut self.servers[server];
        let result = this.sync.exchange(exchange);
        // Other refusals say nothing about the offset.
        if matches!(result, Ok(_) | Err(ExchangeRefusal::Outlier)) {
            this.contradicts = result.is_err().then_some(exchange.received);
        }
        let back = |last: Count| nominal.nanos(exchange.received.since(last)) < -BACK;
        if matches!(result, Err(ExchangeRefusal::Old)) && this.last.is_some_and(back)
            || !spread && self.all_contradict(exchange.received)
        {
            self.disrupt(exchange.received);
            // Restart with this exchange; if it is refused, with the next one.
            return self.servers[server].sync.exchange(exchange).map_err(|_| ExchangeRefusal::CounterBroke);
        }
        if spread && (matches!(result, Ok(Outcome::ServerStepped)) || self.runs_off(server, exchange.received)) {
            self.servers[server].smears = true;
            self.servers[server].forget();
            self.choose(exchange.received, before);
            return Err(ExchangeRefusal::Smeared);
        }
        result
    }

    /// Whether the local rate of a server's clock differs from its long-term rate by more than an
    /// oscillator's.
    fn runs_off(&self, server: usize, now: Count) -> bool {
        let server = &self.servers[server];
        let known = server.sync.clock(now).filter(|clock| clock.error_rate < SURE).zip(server.difference.period());
        known.is_some_and(|(clock, period)| (clock.period / period - 1.0).abs() > SMEAR)
    }

    /// Whether most servers, and at least two, have just sent an outlier.
    fn all_contradict(&self, now: Count) -> bool {
        // Two polls, because the silence timeout is a little over eight. After a break counts can
        // be far off in either direction.
        let just = |server: &&Server| {
            let ago = |then: Count| self.config.nominal.nanos(now.since(then)).saturating_abs();
            server.contradicts.is_some_and(|then| ago(then) <= server.silence_timeout / 4)
        };
        let heard = self.servers.iter().filter(|server| server.last.is_some());
        let contradict = heard.clone().filter(just).count();
        contradict >= 2 && contradict * 2 > heard.count()
    }
}
