//! What the daemon says of the clock: the status report, and the log of what has changed.

use super::{Daemon, SECOND, monotonic};
use crate::event_log::Seen;
use crate::report::{Report, SourceReport};
use crate::source::Source;
use tickclock::{Count, Parameters, Status, counter};
use tickwire_clock::ensemble::Standing;
use tickwire_clock::sync::ClockEstimate;

impl Daemon {
    /// The status of the clock.
    #[must_use]
    pub fn report(&self) -> Report {
        let count = counter::read(self.kind);
        // Report what programs read from the page, also while it is still the previous daemon's.
        let parameters = if self.inherited { self.writer.last() } else { self.ensemble.parameters(count) };
        let reading = parameters.reading(count);
        let known = reading.is_known();
        let clock = self.ensemble.clock(count);
        let followed = self.ensemble.followed(count);
        let (leap, root) = (parameters.leap, parameters.root);
        Report {
            utc_ns: known.then_some(reading.utc().0),
            status: reading.status.names().map(Into::into).collect(),
            tai_utc_s: reading.status.contains(Status::TAI_KNOWN).then_some(reading.offset),
            leap: leap.step,
            leap_at_utc_ns: (leap.step != 0).then(|| leap.at.plus(-i64::from(leap.offset) * SECOND).0),
            error_ns: known.then_some(reading.error),
            bound_ns: known.then_some(reading.bound),
            counter: self.kind.name().into(),
            nominal_period_ns: self.nominal.period(),
            period_ns: followed.map(|clock| clock.period),
            long_period_ns: known.then(|| parameters.difference.period()),
            skew_ppm: followed.map(|clock| clock.error_rate * 1e-3),
            stratum: (known && root.stratum != 0).then_some(root.stratum),
            root_delay_ns: (known && root.stratum != 0).then_some(root.delay),
            disruptions: parameters.disruptions,
            system_clock: self.system.report(),
            page: self.page.display().to_string(),
            sources: (0..self.sources.len()).map(|number| self.source_report(number, count, clock.as_ref())).collect(),
        }
    }

    fn source_report(&self, number: usize, count: Count, published: Option<&ClockEstimate>) -> SourceReport {
        let source = &self.sources[number];
        let sync = self.ensemble.server(number);
        let own = sync.clock(count);
        let server = sync.server();
        let now = monotonic();
        SourceReport {
            standing: match self.standing(number, now) {
                _ if source.is_duplicate() => "duplicate",
                Standing::Silent => "silent",
                Standing::Far => "far",
                Standing::Followed => "followed",
                Standing::Agrees => "agrees",
                Standing::Outvoted => "outvoted",
                Standing::Smeared => "smeared",
                Standing::Disputed(_) => "disputed",
            }
            .into(),
            stratum: server.map(|server| server.stratum),
            offset_ns: own.zip(published).map(|(own, published)| own.time.since(published.time) as f64),
            error_ns: own.map(|own| own.error),
            // A longer period means a faster clock: its time advances further in one count.
            frequency_ppm: own.zip(published).map(|(own, published)| (own.period / published.period - 1.0) * 1e6),
            skew_ppm: own.map(|own| own.error_rate * 1e-3),
            bound_ns: own.map(|own| own.bound),
            round_trip_ns: Some(sync.round_trip()).filter(|ns| ns.is_finite()),
            noise_ns: own.map(|_| sync.noise()),
            asymmetry_ns: sync.asymmetry(),
            root_delay_ns: server.map(|server| server.root_delay),
            root_dispersion_ns: server.map(|server| server.root_dispersion),
            ..source.report(now)
        }
    }

    /// A server's standing at the last exchange with any server, or silent if it has timed out
    /// since.
    fn standing(&self, number: usize, now: i64) -> Standing {
        if self.sources[number].is_silent(now) { Standing::Silent } else { self.ensemble.standings()[number] }
    }

    /// The same, or `None` while it is unknown and for a duplicate. A server is called silent only
    /// after its timeout, also after a break of the counter.
    pub(super) fn known_standing(&self, number: usize, now: i64) -> Option<Standing> {
        let (source, standing) = (&self.sources[number], self.standing(number, now));
        let known = !source.is_duplicate() && (standing != Standing::Silent || source.is_silent(now));
        known.then_some(standing)
    }

    /// Logs what has changed.
    pub(super) fn tell(&mut self, now: i64, parameters: &Parameters) {
        let servers = self.sources.iter().enumerate();
        let servers: Vec<_> =
            servers.map(|(number, source)| (source.name(), self.known_standing(number, now))).collect();
        let why_silent: Vec<_> = self.sources.iter().map(|source| source.why_silent(now)).collect();
        let seen = Seen {
            synchronised: parameters.status.contains(Status::SYNCHRONISED),
            holdover: parameters.status.contains(Status::HOLDOVER),
            disruptions: parameters.disruptions,
            bound: parameters.bound,
            servers: &servers,
            why_silent: &why_silent,
        };
        self.event_log.tell(now, &seen);
    }
}
