//! The event loop: runs what is due, then sleeps until a socket is readable or something is due.
//!
//! | module | purpose |
//! |---|---|
//! | `start` | start-up, and its errors |

mod start;

pub use start::StartError;

use crate::cards::Cards;
use crate::event_log::{EventLog, Seen};
use crate::hardware::Look;
use crate::ntp_source::NtpSource;
use crate::record::ExchangeRecorder;
use crate::report::{Report, SourceReport};
use crate::source::{Measurement, Source};
use crate::state::{Known, State};
use crate::status_endpoints::StatusEndpoints;
use crate::system::System;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::time::ClockId;
use std::fs::File;
use std::io::{self, BufWriter};
use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::time::Instant;
use tickclock::{Count, CounterKind, Nanos, Parameters, Scale, Status, Writer, counter};
use tickwire_clock::Ensemble;
use tickwire_clock::ensemble::Standing;
use tickwire_clock::sync::ClockEstimate;
use tickwire_stamping::cross_timestamp;
use tracing::{debug, info, warn};

const SECOND: i64 = 1_000_000_000;
/// Longest interval between two publications of the page, in ns.
const PUBLISH: i64 = SECOND;
/// Interval at which the system clock is steered and NTP's shared memory fed, in ns.
const HAND: i64 = SECOND;
/// Interval at which the counter's period is saved, in ns. A period known twice as well as the
/// saved one is saved earlier, at most once a second: a daemon that is killed soon after its start
/// keeps what it has learnt.
const KEEP: i64 = 60 * SECOND;
/// 2026-01-01 00:00:00 UTC: the present is not earlier, because this program is not older.
const WRITTEN: Nanos = Nanos(1_767_225_600 * SECOND);

/// The clock daemon.
#[derive(Debug)]
pub struct Daemon {
    kind: CounterKind,
    nominal: Scale,
    ensemble: Ensemble,
    sources: Vec<NtpSource>,
    cards: Cards,
    status_endpoints: StatusEndpoints,
    system: System,
    page: PathBuf,
    state: State,
    /// The page still holds the previous daemon's parameters, which is better than nothing.
    inherited: bool,
    looked: Look,
    published: i64,
    handed: i64,
    kept: i64,
    recorder: Option<ExchangeRecorder<BufWriter<File>>>,
    event_log: EventLog,
    /// The page, and the lock that shows that this daemon is alive. It is dropped last. The next
    /// holder of the lock replaces leftover files beside the page by its own, and a daemon that
    /// still shuts down would remove those.
    writer: Writer,
}

impl Daemon {
    /// Keeps the clock until `stop` is readable. The published page stays.
    ///
    /// # Errors
    /// `poll` fails.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> nix::Result<()> {
        loop {
            let now = monotonic();
            self.look();
            self.ask(now);
            if now - self.published >= PUBLISH {
                self.publish(now);
            }
            if now - self.handed >= HAND {
                self.handed = now;
                let parameters = self.ensemble.parameters(counter::read(self.kind));
                self.system.turn(now, self.kind, self.nominal, &self.looked, &parameters);
            }
            if now - self.kept >= KEEP || now - self.kept >= SECOND && self.knows_better() {
                self.keep(now);
            }
            if self.wait(stop)? {
                self.publish(monotonic());
                self.keep(monotonic());
                self.system.end();
                info!(page = %self.page.display(), "the clock ends: what was published stays, and its bound grows");
                return Ok(());
            }
            self.receive();
            if self.status_endpoints.receive() {
                let report = self.report();
                self.status_endpoints.answer(&report);
            }
        }
    }

    /// Runs each source that is due.
    fn ask(&mut self, now: i64) {
        for number in 0..self.sources.len() {
            let (before, rest) = self.sources.split_at_mut(number);
            let Some((source, after)) = rest.split_first_mut() else { return };
            let twin = |address| {
                let other = before.iter().chain(after.iter()).find(|other| other.polls(address))?;
                Some(other.name().to_owned())
            };
            source.run(now, &mut self.cards, &twin);
        }
    }

    /// Sleeps until a socket is readable or something is due. Returns `true` when it is time to
    /// stop.
    fn wait(&self, stop: BorrowedFd<'_>) -> nix::Result<bool> {
        let now = monotonic();
        let wakeup = self.sources.iter().map(|source| source.wakeup(now)).min().unwrap_or(i64::MAX);
        let due = wakeup.min(self.published + PUBLISH).min(self.handed + HAND);
        let clients = self.status_endpoints.due().map_or(PUBLISH, |due| {
            let left = due.saturating_duration_since(Instant::now());
            i64::try_from(left.as_nanos()).unwrap_or(PUBLISH)
        });
        let left = (due - now).min(clients).clamp(0, PUBLISH);
        // Rounded up: an iteration of the loop before the due time does nothing.
        let timeout = PollTimeout::try_from((left + 999_999) / 1_000_000).unwrap_or(PollTimeout::ZERO);
        let stop = PollFd::new(stop, PollFlags::POLLIN);
        let sources = self.sources.iter().filter_map(|source| source.descriptor());
        let sockets = sources.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let mut all: Vec<_> = [stop].into_iter().chain(sockets).chain(self.status_endpoints.awaited()).collect();
        match poll(&mut all, timeout) {
            Ok(_) | Err(Errno::EINTR) => Ok(all[0].any().unwrap_or(true)),
            Err(error) => Err(error),
        }
    }

    /// Passes received replies to the clock.
    fn receive(&mut self) {
        let now = monotonic();
        let near = about(realtime());
        let mut exchanges = Vec::new();
        for (number, source) in self.sources.iter_mut().enumerate() {
            exchanges.extend(source.receive(now, near).into_iter().map(|one| (number, one)));
            if let Some(silence_timeout) = source.new_silence_timeout() {
                record(&mut self.recorder, |to| to.silence_timeout(number, silence_timeout));
                self.ensemble.set_silence_timeout(number, silence_timeout);
            }
        }
        // The counter may have broken within any of these exchanges. All are dropped, including
        // those that ended before the break: the servers are polled again.
        if exchanges.is_empty() || self.look() {
            return;
        }
        for (number, one) in exchanges {
            if !self.take(now, number, &one) {
                break;
            }
        }
        let parameters = self.publish(monotonic());
        record(&mut self.recorder, |to| to.page(&parameters));
    }

    /// Passes an exchange to the clock. Returns `false` if the clock infers from it that the
    /// counter has broken: other exchanges from before the break are void.
    fn take(&mut self, now: i64, number: usize, one: &Measurement) -> bool {
        record(&mut self.recorder, |to| to.exchange(number, &one.exchange, one.announced));
        let breaks = self.ensemble.breaks();
        let outcome = self.ensemble.exchange(number, &one.exchange, one.announced);
        let source = &mut self.sources[number];
        match &outcome {
            Ok(outcome) => debug!(server = source.name(), ?outcome, "exchange"),
            Err(refusal) => debug!(server = source.name(), %refusal, "exchange refused"),
        }
        source.processed(now, one.quality, outcome.map(drop).map_err(|refusal| refusal.to_string()));
        if self.ensemble.breaks() == breaks {
            return true;
        }
        warn!(what = "the servers contradict the clock", "the counter has broken");
        self.disrupted();
        false
    }

    /// Handles a break of the counter that the keeper knows of: discards everything that depends on
    /// earlier counts, and polls the servers anew.
    fn disrupted(&mut self) {
        let now = monotonic();
        self.sources.iter_mut().for_each(|source| source.disrupt(now));
        self.system.disrupt();
        self.inherited = false;
    }

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

    /// Publishes the clock; returns the keeper's parameters.
    fn publish(&mut self, now: i64) -> Parameters {
        let parameters = self.ensemble.parameters(counter::read(self.kind));
        self.inherited &= !parameters.status.contains(Status::SYNCHRONISED);
        if !self.inherited {
            let mut shown = parameters;
            shown.root.reference = self.ensemble.chosen().map_or(0, |chosen| self.sources[chosen].reference());
            self.writer.publish(&shown);
        }
        self.published = now;
        self.tell(now, &parameters);
        parameters
    }

    /// A server's standing at the last exchange with any server, or silent if it has timed out
    /// since.
    fn standing(&self, number: usize, now: i64) -> Standing {
        if self.sources[number].is_silent(now) { Standing::Silent } else { self.ensemble.standings()[number] }
    }

    /// The same, or `None` while it is unknown and for a duplicate. A server is called silent only
    /// after its timeout, also after a break of the counter.
    fn known_standing(&self, number: usize, now: i64) -> Option<Standing> {
        let (source, standing) = (&self.sources[number], self.standing(number, now));
        let known = !source.is_duplicate() && (standing != Standing::Silent || source.is_silent(now));
        known.then_some(standing)
    }

    /// Logs what has changed.
    fn tell(&mut self, now: i64, parameters: &Parameters) {
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

    /// The current estimate of the counter's period.
    fn known(&self) -> Option<Known> {
        // Not from the published clock: while that slews from one server to another, its period is
        // not the counter's.
        let clock = self.ensemble.followed(self.looked.count)?;
        Some(Known { period: Scale::from_period(clock.period)?, rate_error: clock.error_rate * 1e-9 })
    }

    /// Whether the estimate is enough better than the saved one to be saved.
    fn knows_better(&self) -> bool {
        self.known().is_some_and(|known| self.state.is_outdone_by(&known))
    }

    /// Saves the estimate of the counter's period for the next start.
    fn keep(&mut self, now: i64) {
        self.kept = now;
        self.look();
        if let Some(known) = self.known() {
            self.state.write(self.kind, &self.looked, known);
        }
    }

    /// Checks whether the counter has broken since the last look.
    fn look(&mut self) -> bool {
        let look = Look::take(self.kind);
        let broken = look.broken_since(&self.looked, self.nominal);
        self.looked = look;
        let Some(what) = broken else { return false };
        warn!(what, "the counter has broken");
        self.ensemble.disrupt(look.count);
        record(&mut self.recorder, |to| to.disruption(look.count));
        self.disrupted();
        self.publish(monotonic());
        true
    }
}

/// Records until a write fails; from then on the clock runs without a record.
fn record(
    recorder: &mut Option<ExchangeRecorder<BufWriter<File>>>,
    what: impl FnOnce(&mut ExchangeRecorder<BufWriter<File>>) -> io::Result<()>,
) {
    if let Some(Err(error)) = recorder.as_mut().map(what) {
        warn!(%error, "the record ends here: it cannot be written");
        *recorder = None;
    }
}

fn monotonic() -> i64 {
    cross_timestamp::now(ClockId::CLOCK_MONOTONIC)
}

/// The system clock.
fn realtime() -> Nanos {
    Nanos(cross_timestamp::now(ClockId::CLOCK_REALTIME))
}

/// The approximate time, which determines the era of a server's timestamp if it is right to within
/// 68 years (RFC 5905 §6). A host without a battery-backed clock starts in 1970, but the time is
/// never before [`WRITTEN`].
fn about(clock: Nanos) -> Nanos {
    clock.max(WRITTEN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{PolledServer, TimekeeperConfig};
    use tickclock::Clock;

    /// A daemon whose server answers nothing, and a reader of its page.
    fn daemon() -> (tempfile::TempDir, Daemon, Clock) {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("clock");
        let servers = vec![PolledServer::named("127.0.0.1:9").unwrap()];
        let daemon =
            Daemon::start(&TimekeeperConfig { servers, page: page.clone(), ..TimekeeperConfig::default() }).unwrap();
        let clock = Clock::open(page).unwrap();
        (directory, daemon, clock)
    }

    /// The daemon checks the counter in each iteration of its loop, at least once a second: so
    /// within one poll, of whatever length.
    #[test]
    fn a_suspend_and_a_jump_of_the_counter_are_published_at_the_next_look() {
        let (_directory, mut daemon, clock) = daemon();
        daemon.look();
        assert_eq!(clock.parameters().disruptions, 0, "nothing has happened");
        let minute = 60 * SECOND;
        let suspended = |look: &mut Look| look.slept -= minute;
        // A migrated virtual machine: the counter is ahead, or behind.
        let ahead = |look: &mut Look| look.raw += minute;
        let behind = |look: &mut Look| look.raw -= minute;
        let tricks: [&dyn Fn(&mut Look); 3] = [&suspended, &ahead, &behind];
        for (times, trick) in (1..).zip(tricks) {
            trick(&mut daemon.looked);
            let before = clock.counter();
            daemon.look();
            let (now, parameters) = (clock.now(), clock.parameters());
            assert!(now.status.contains(Status::DISRUPTED) && !now.is_known(), "{now:?}");
            assert_eq!((now.disruptions, parameters.disruptions), (times, times));
            assert!(before < parameters.since && parameters.since < clock.counter(), "{parameters:?}");
            daemon.look();
            assert_eq!(clock.parameters().disruptions, times, "and once only");
        }
    }

    /// The directory's inotify events show the order: a page with content stays, and is closed when
    /// its lock is released.
    #[test]
    fn the_socket_of_a_daemon_that_ends_goes_before_its_lock() {
        use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
        let (directory, daemon, _clock) = daemon();
        daemon.writer.publish(&Parameters { at: Count(1), ..Parameters::UNKNOWN });
        let seen = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK).unwrap();
        seen.add_watch(directory.path(), AddWatchFlags::IN_DELETE | AddWatchFlags::IN_CLOSE_WRITE).unwrap();
        drop(daemon);
        let names: Vec<_> = seen.read_events().unwrap().into_iter().filter_map(|event| event.name).collect();
        assert_eq!(names, ["clock.sock", "clock"]);
    }

    /// A daemon and the server that it has just polled, which has not answered yet.
    fn asking() -> (tempfile::TempDir, Daemon, std::net::UdpSocket) {
        let server = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        server.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let directory = tempfile::tempdir().unwrap();
        let servers = vec![PolledServer::named(&server.local_addr().unwrap().to_string()).unwrap()];
        let page = directory.path().join("clock");
        let mut daemon = Daemon::start(&TimekeeperConfig { servers, page, ..TimekeeperConfig::default() }).unwrap();
        // Lookup, open, request.
        for _ in 0..3 {
            daemon.ask(monotonic());
        }
        (directory, daemon, server)
    }

    /// One server that two sources are configured for: by its address, and by a name that also has
    /// other addresses.
    #[test]
    fn a_name_that_leads_to_anothers_server_has_its_other_addresses_tried() {
        let server = || std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        let (shared, dead, alone) = (server(), server(), server());
        let address = |server: &std::net::UdpSocket| server.local_addr().unwrap().to_string();
        let directory = tempfile::tempdir().unwrap();
        let servers = [&address(&shared), "time.example"].map(|name| PolledServer::named(name).unwrap()).to_vec();
        let page = directory.path().join("clock");
        let mut daemon = Daemon::start(&TimekeeperConfig { servers, page, ..TimekeeperConfig::default() }).unwrap();
        let mut now = monotonic();
        for _ in 0..2 {
            daemon.sources[0].run(now, &mut daemon.cards, &|_| None);
        }
        // The first address is silent and the second is shared, so the third is polled.
        daemon.sources[1].tell(&[&dead, &shared, &alone]);
        daemon.ask(now);
        let polled = |daemon: &Daemon| daemon.sources[1].report(0).address;
        assert_eq!(polled(&daemon), Some(address(&dead)));
        let begin = now;
        while polled(&daemon) == Some(address(&dead)) && now < begin + 60 * SECOND {
            now += SECOND / 5;
            daemon.ask(now);
        }
        assert_eq!((polled(&daemon), daemon.sources[1].is_duplicate()), (Some(address(&alone)), false));
        // Without a third address the source is set aside. The dead address, which has had one
        // turn, gets further turns as rarely as if it were the only one.
        for lookup_interval in [128, 256, 512] {
            daemon.sources[1].tell(&[&dead, &shared]);
            let found = now;
            while daemon.sources[1].next_due().is_none_or(|due| now >= due || !daemon.sources[1].is_duplicate()) {
                daemon.ask(now);
                now += SECOND / 5;
            }
            let due = daemon.sources[1].next_due().unwrap();
            assert_eq!((polled(&daemon), (due - found) / SECOND), (None, lookup_interval));
            now = due;
        }
    }

    /// The server answers the request, and the reply is in the socket.
    fn answer(daemon: &Daemon, server: &std::net::UdpSocket) {
        answer_by(daemon, server, 1, 1);
    }

    /// The same with this stratum and reference.
    fn answer_by(daemon: &Daemon, server: &std::net::UdpSocket, stratum: u8, reference_id: u32) {
        use tickwire_ntp::{Mode, NtpPacket, Stamp};
        let mut bytes = [0; 48];
        let (_, client) = server.recv_from(&mut bytes).unwrap();
        let (request, _) = NtpPacket::parse(&bytes).unwrap();
        let now = Stamp::from_unix(realtime());
        let answer = NtpPacket {
            mode: Mode::Server,
            stratum,
            reference_id,
            origin_timestamp: request.transmit_timestamp,
            receive_timestamp: now,
            transmit_timestamp: now,
            ..request
        };
        server.send_to(&answer.to_bytes(), client).unwrap();
        daemon.sources[0].await_reply();
    }

    /// The statistics of the daemon's server.
    fn statistics(daemon: &Daemon) -> SourceReport {
        daemon.sources[0].report(monotonic())
    }

    #[test]
    fn an_exchange_that_began_before_the_counter_broke_is_not_believed() {
        let (_directory, mut daemon, server) = asking();
        answer(&daemon, &server);
        daemon.receive();
        assert_eq!((statistics(&daemon).used, daemon.ensemble.breaks()), (1, 0), "one that did not");
        // The kernel's clocks reveal the break: at the daemon's check, or only when the reply is
        // received.
        for look in [true, false] {
            let (_directory, mut daemon, server) = asking();
            daemon.looked.slept -= 60 * SECOND;
            if look {
                daemon.look();
            }
            answer(&daemon, &server);
            daemon.receive();
            assert_eq!((statistics(&daemon).used, daemon.ensemble.breaks()), (0, 1), "{look}");
            assert!(daemon.ensemble.clock(counter::read(daemon.kind)).is_none());
        }
    }

    #[test]
    fn a_server_that_follows_this_host_has_no_say() {
        let localhost = 0x7f00_0001;
        for (stratum, reference, loops) in [(3, localhost, 1), (3, localhost + 1, 0), (1, localhost, 0)] {
            let (_directory, mut daemon, server) = asking();
            answer_by(&daemon, &server, stratum, reference);
            daemon.receive();
            let statistics = statistics(&daemon);
            let counted = statistics.refused.get("the server follows this host (loop)").copied().unwrap_or(0);
            assert_eq!((statistics.used, counted), (1 - loops, loops), "stratum {stratum}, {reference:#x}");
        }
    }

    #[test]
    fn a_server_that_answered_until_the_counter_broke_is_not_called_silent_at_once() {
        let (_directory, mut daemon, server) = asking();
        assert_eq!(daemon.known_standing(0, monotonic()), None, "it has not had its time yet");
        answer(&daemon, &server);
        daemon.receive();
        assert_eq!(daemon.known_standing(0, monotonic()), Some(Standing::Followed));
        daemon.looked.slept -= 60 * SECOND;
        daemon.look();
        assert_eq!(daemon.known_standing(0, monotonic()), None);
        assert_eq!(daemon.known_standing(0, monotonic() + 11 * SECOND), Some(Standing::Silent));
    }

    #[test]
    fn a_break_that_only_the_servers_show_is_one_for_the_exchanges_under_way_too() {
        let (_directory, mut daemon, server) = asking();
        // Counts from the past, as if of another counter.
        for ago in [10 * SECOND, 20 * SECOND] {
            let count = |ns: i64| Count(counter::read(daemon.kind).0 - daemon.nominal.counts(ago - ns) as u64);
            let now = realtime();
            let exchange = tickwire_clock::Exchange {
                sent: count(0),
                server_received: now.plus(50_000),
                server_sent: now.plus(60_000),
                received: count(1_000_000),
                server: tickwire_clock::ServerState { synchronised: true, stratum: 1, ..Default::default() },
                stamp_error: 0,
            };
            let announced = tickwire_clock::ensemble::leap::Announcement::None;
            let one = Measurement { exchange, announced, quality: tickwire_stamping::Quality::Program };
            assert_eq!(daemon.take(monotonic(), 0, &one), ago == 10 * SECOND);
        }
        assert_eq!(daemon.ensemble.breaks(), 1);
        answer(&daemon, &server);
        daemon.receive();
        let refused = statistics(&daemon).refused;
        assert_eq!(refused.get("answers nothing that was asked"), Some(&1), "{refused:?}");
    }

    #[test]
    fn a_servers_stamp_is_of_the_right_era_whatever_the_systems_clock_shows() {
        use tickwire_ntp::Stamp;
        let year = |year: i64| Nanos((year - 1970) * 31_556_952 * SECOND);
        let told = |time: Nanos, clock: Nanos| Stamp::from_unix(time).to_unix(about(clock));
        for time in [2026, 2036, 2037, 2039, 2060, 2093].map(year) {
            for clock in [Nanos(0), year(2000), year(2027), time] {
                assert_eq!(told(time, clock), time, "with a clock at {clock:?}");
            }
        }
        // The turn of the era itself, with a system clock that is right, or a little off.
        let turn = Nanos(2_085_978_496 * SECOND);
        for (off, clock) in
            [(-SECOND, 1), (0, -1), (SECOND, -1), (SECOND, 1)].map(|(off, sign)| (off, turn.plus(sign * 3600 * SECOND)))
        {
            assert_eq!(told(turn.plus(off), clock), turn.plus(off));
        }
        assert_eq!(told(year(2150), year(2149)), year(2150), "later than 68 years from now the clock is needed");
    }

    #[test]
    fn what_was_inherited_is_void_when_the_counter_breaks() {
        let (_directory, mut daemon, clock) = daemon();
        daemon.inherited = true;
        daemon.writer.publish(&Parameters {
            status: Status::SYNCHRONISED,
            bound: 5,
            ..daemon.ensemble.parameters(Count(0))
        });
        assert!(clock.now().is_known() && daemon.report().bound_ns.is_some(), "told as it is read");
        daemon.looked.slept -= 60 * SECOND;
        daemon.look();
        assert!(!clock.now().is_known() && daemon.report().bound_ns.is_none());
    }
}
