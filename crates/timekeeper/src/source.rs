//! What the daemon's loop needs of a source of time, whatever its protocol.
//!
//! A source is one clock, with one vote in the selection. An NTP server is the first kind
//! ([`crate::ntp_source`]). The loop uses a source by this trait only, which can be made into an
//! object: the second kind makes the daemon's list one of `Box<dyn Source>`.

use crate::cards::Cards;
use crate::os::BorrowedSocket;
use crate::report::SourceReport;
use std::net::SocketAddr;
use tickclock::Nanos;
use tickwire_clock::Exchange;
use tickwire_clock::ensemble::leap::Announcement;
use tickwire_stamping::Quality;

/// A source is silent after so many poll intervals, plus `BESIDE` ns, without a usable measurement.
/// The clock is in holdover when the followed source is silent.
const INTERVALS: i64 = 8;
const BESIDE: i64 = 2_000_000_000;

/// The silence timeout of a source that is polled at this interval, all in ns.
pub(crate) const fn silence_timeout(interval: i64) -> i64 {
    interval.saturating_mul(INTERVALS).saturating_add(BESIDE)
}

/// One measurement of a source's clock.
pub(crate) struct Measurement {
    /// The counter and the source's clock, at both ends of an exchange.
    pub(crate) exchange: Exchange,
    /// The leap second that the source announces.
    pub(crate) announced: Announcement,
    /// Where the timestamps of this host were taken.
    pub(crate) quality: Quality,
}

/// A source of time. `now` is a clock that is not set, and as all times it is in ns.
pub(crate) trait Source {
    /// Its name in logs and reports.
    fn name(&self) -> &str;

    /// Does what is due at `now`, such as a lookup or a request. `twin` names the other source that
    /// polls an address, if there is one: one server has one vote.
    fn run(&mut self, now: i64, cards: &mut Cards, twin: &dyn Fn(SocketAddr) -> Option<String>);

    /// Whether it polls this address. A source without a vote polls none.
    fn polls(&self, address: SocketAddr) -> bool;

    /// Whether it has no vote because another source polls the same server.
    fn is_duplicate(&self) -> bool;

    /// The socket to wait for, if there is one to wait for now.
    fn socket(&self) -> Option<BorrowedSocket<'_>>;

    /// Whether a reply will come in a moment, for which the loop must not sleep.
    fn is_imminent(&self) -> bool;

    /// Whether there is something to be received now.
    fn is_readable(&self) -> bool;

    /// When the loop must come back, even if the socket does not become readable.
    fn wakeup(&self, now: i64) -> i64;

    /// What it has measured since the last call; `near` is the approximate time. The source itself
    /// logs and counts what it has received but cannot use.
    fn receive(&mut self, now: i64, near: Nanos) -> Vec<Measurement>;

    /// The clock has used a measurement with timestamps of this quality, or refused it for this
    /// reason.
    fn processed(&mut self, now: i64, quality: Quality, outcome: Result<(), String>);

    /// The counter has broken: drops everything that depends on earlier counts.
    fn disrupt(&mut self, now: i64);

    /// The silence timeout, if it has changed: it follows the poll interval.
    fn new_silence_timeout(&mut self) -> Option<i64>;

    /// Whether its silence timeout has expired.
    fn is_silent(&self, now: i64) -> bool;

    /// Why there is no usable measurement, if there is none.
    fn why_silent(&self, now: i64) -> &str;

    /// Its reference ID in the replies of a server that follows it (RFC 5905 §7.3); 0 if it has
    /// none yet.
    fn reference(&self) -> u32;

    /// What it knows of itself. The rest of the report is what the clock knows of it.
    fn report(&self, now: i64) -> SourceReport;
}
