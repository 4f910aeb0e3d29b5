//! What shows that a server spreads leap seconds, or that the counter has broken.
//!
//! A smear cannot be told from a packet. Around a leap that is known, a server that has left its
//! own clock, or whose rate is off by more than any oscillator's changes in a day, spreads it. It
//! is left out until the leap is over, as are servers of which the user says so: RFC 8633 §3.7.1
//! asks not to mix.
//!
//! A server can also be late with a leap second: what it has not made yet of it is no error of the
//! clock's.
//!
//! A counter that has broken (a virtual machine was moved) may leave no trace on the host, for the
//! kernel reads the same counter. But then all servers contradict the clock at once, or one tells
//! of counts that are long over.

use super::{Keeper, Outcome, Refusal, Server};
use crate::exchange::Exchange;
use crate::page::Leap;
use crate::sync::Clock;
use crate::time::{Count, Nanos};

const SECOND: i64 = 1_000_000_000;
/// A smear of a second in a day is 11.6 ppm; oscillators stay within this, relative.
const SMEAR: f64 = 3e-6;
/// The rate of a server's clock is known when its error is below this, in ns/s.
const SURE: f64 = 1_000.0;
/// Servers that tell UTC itself count as there for so long after they were heard, in ns.
const THERE: i64 = 3600 * SECOND;
/// A server may make a leap second so long after it was, in ns: kernels do it at once, but who has
/// it from others makes it when they tell him, or slews.
const LATE: i64 = 86_400 * SECOND;
/// Who lacks all of it so often in a row denies it. Who lacks nothing any more is heard again after
/// as many: the last of a slew is too little to be seen.
const INSISTING: u32 = 8;
/// And for so long, in ns: a server that has the leap second from others learns of it minutes
/// later, and ntpd waits five more before it steps.
const FOR_LONG: i64 = 600 * SECOND;
/// Counts of one server that lie so far before its last one, in ns, are of another counter.
const BACK: i64 = SECOND;

/// What a server has not made of a leap second.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lacks {
    Part,
    All,
}

/// A server has told, after a leap second, that there was none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Denial {
    /// So often in a row.
    times: u32,
    first: Count,
    last: Count,
}

impl Keeper {
    /// Unix time of a TAI time, by what is known of leap seconds before the next one.
    pub(super) fn utc_of(&self, tai: Nanos) -> Nanos {
        tai.plus(-i64::from(self.leaps.leap().offset) * SECOND)
    }

    /// Whether a server spreads leap seconds.
    pub(super) fn spreads(&self, server: usize) -> bool {
        self.servers[server].smeared || self.servers[server].smears
    }

    /// Whether the user has named none that tells UTC itself.
    pub(super) fn all_smeared(&self) -> bool {
        self.servers.iter().all(|server| server.smeared)
    }

    /// Which servers spread leap seconds while others are there that do not.
    pub(super) fn reserve(&self, now: Count) -> Vec<bool> {
        let there = |last: Count| self.config.nominal.nanos(now.since(last)) < THERE;
        let plain =
            self.servers.iter().any(|server| !server.smeared && !server.smears && server.last.is_some_and(there));
        (0..self.servers.len()).map(|server| plain && self.spreads(server)).collect()
    }

    /// Whether a server is not heard now: it may be spreading a leap second, and was not meant to
    /// be the only kind.
    pub(super) fn is_kept_out(&mut self, server: usize, now: Nanos) -> bool {
        if !self.leaps.spread(now) {
            self.servers[server].smears = false;
        }
        self.leaps.spread(now) && self.spreads(server) && !self.all_smeared()
    }

    /// Whether a server has not made a leap second that is just over, or not all of it: what it
    /// tells cannot be used. Where most insist that there was none, and no table says that there
    /// was, there was none. `clock` is what is followed, at the exchange's end.
    pub(super) fn is_late(&mut self, server: usize, exchange: &Exchange, clock: &Clock) -> bool {
        let lacks = self.lacks(exchange, clock);
        let this = &mut self.servers[server];
        let last = exchange.received;
        let denial = this.denies.map_or((1, last), |denial| (denial.times.saturating_add(1), denial.first));
        let all = lacks == Some(Lacks::All);
        this.denies = all.then_some(Denial { times: denial.0, first: denial.1, last });
        if !self.leaps.is_tabled() && self.most_deny(exchange.received) {
            self.leaps.withdraw();
            // Nobody is late with what never was.
            self.servers.iter_mut().for_each(|server| (server.denies, server.late) = (None, 0));
            self.disruptions = self.disruptions.wrapping_add(1);
            return false;
        }
        let this = &mut self.servers[server];
        this.late = if lacks.is_some() { INSISTING } else { this.late.saturating_sub(1) };
        this.late > 0
    }

    /// What a server has not made yet of a leap second that is just over, if it lacks more than
    /// could be another error.
    fn lacks(&self, exchange: &Exchange, clock: &Clock) -> Option<Lacks> {
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

    /// Whether most of those that are there have insisted that there was no leap second.
    fn most_deny(&self, now: Count) -> bool {
        let ago = |then: Count| self.config.nominal.nanos(now.since(then));
        let there = |server: &&Server| {
            let told = |then: Count| ago(then) <= server.patience;
            server.last.is_some_and(told) || server.denies.is_some_and(|denial| told(denial.last))
        };
        let insists = |denial: Denial| denial.times >= INSISTING && ago(denial.first) >= FOR_LONG;
        let there = self.servers.iter().filter(there);
        let deny = there.clone().filter(|server| server.denies.is_some_and(insists));
        deny.count() * 2 > there.count()
    }

    /// Hands an exchange to the server's clock, and looks at what that shows; `before` is the clock
    /// as it was followed until then.
    pub(super) fn hear(
        &mut self,
        server: usize,
        exchange: &Exchange,
        now: Nanos,
        before: Option<Clock>,
    ) -> Result<Outcome, Refusal> {
        let spread = self.leaps.spread(now) && !self.all_smeared();
        let nominal = self.config.nominal;
        let this = &mut self.servers[server];
        let result = this.sync.exchange(exchange);
        // What else is refused says nothing of the time.
        if matches!(result, Ok(_) | Err(Refusal::Outlier)) {
            this.contradicts = result.is_err().then_some(exchange.received);
        }
        let back = |last: Count| nominal.nanos(exchange.received.since(last)) < -BACK;
        if matches!(result, Err(Refusal::Old)) && this.last.is_some_and(back)
            || !spread && self.all_contradict(exchange.received)
        {
            self.disrupt(exchange.received);
            // It is as good a beginning as any; if it is not good, the next one will do.
            return self.servers[server].sync.exchange(exchange).map_err(|_| Refusal::CounterBroke);
        }
        if spread && (matches!(result, Ok(Outcome::ServerStepped)) || self.runs_off(server, exchange.received)) {
            self.servers[server].smears = true;
            self.servers[server].forget();
            self.choose(exchange.received, before);
            return Err(Refusal::Smeared);
        }
        result
    }

    /// Whether the rate of a server's clock has left that of the days before.
    fn runs_off(&self, server: usize, now: Count) -> bool {
        let server = &self.servers[server];
        let known = server.sync.clock(now).filter(|clock| clock.error_rate < SURE).zip(server.difference.period());
        known.is_some_and(|(clock, period)| (clock.period / period - 1.0).abs() > SMEAR)
    }

    /// Whether most of several servers that are there have just told what nobody expected.
    fn all_contradict(&self, now: Count) -> bool {
        // Two polls: patience is eight and a little. Counts of another counter are far away in
        // either direction.
        let just = |server: &&Server| {
            let ago = |then: Count| self.config.nominal.nanos(now.since(then)).saturating_abs();
            server.contradicts.is_some_and(|then| ago(then) <= server.patience / 4)
        };
        let heard = self.servers.iter().filter(|server| server.last.is_some());
        let contradict = heard.clone().filter(just).count();
        contradict >= 2 && contradict * 2 > heard.count()
    }
}
