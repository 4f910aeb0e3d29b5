//! Why a time is not known, or the clock not as good as the user wants it, according to its page
//! and its daemon.

use super::NO_CLOCK;
use super::units::span;
use std::path::Path;
use tickclock::{Count, Reading, Status};
use tickwire_timekeeper::{Report, SourceReport};

/// Of a page that is retired.
pub(super) const REPLACED: &str = "another page has taken this one's place";
/// Of a page whose daemon does not answer.
const LEFT: &str = "no daemon keeps the clock";
/// Of a page that is stale: a daemon that was just restarted leaves the page as it was until a
/// server answers.
pub(super) const STALE: &str = "no daemon keeps the clock, or it has heard no server since it was started";
/// Of a page that is disrupted.
const BROKEN: &str = "the counter has broken (suspend, migration), and no server has answered since";

/// Why the page has no time.
pub(super) fn untold(now: &Reading) -> &'static str {
    let is = |status| now.status.contains(status);
    if is(Status::RETIRED) {
        REPLACED
    } else if is(Status::STALE) || now.age == i64::MAX {
        STALE
    } else if is(Status::DISRUPTED) {
        BROKEN
    } else {
        "no server has answered yet with what can be used (`tickwire clock sources` says more)"
    }
}

/// Why the page has no time for a value of the counter, which is at `now`, although it has the time
/// now.
pub(super) fn untold_at(count: Count, reading: &Reading, now: Count) -> String {
    let (count, now) = (count.0, now.0);
    if reading.status.contains(Status::DISRUPTED) {
        format!(
            "{count} is from before the counter broke, or before it was first observed: what time that was is not known"
        )
    } else if count > now {
        format!("the counter has not come to {count} yet: it is at {now}")
    } else {
        format!("{count} is too far from the counter's value now ({now}): its time does not fit 64 bits of nanoseconds")
    }
}

/// Why a server is not used, or is polled rarely. Empty if it is used and polled normally, and no
/// answer of it was refused.
pub(super) fn silence(source: &SourceReport) -> Vec<String> {
    let mut why = Vec::new();
    if source.standing == "duplicate" {
        return why;
    }
    if let Some(left) = source.denied_s {
        why.push(format!("does not want to serve this host (DENY or RSTR): it is asked again in {}", long(left)));
    } else if let Some(nts) = source.nts.as_ref().filter(|nts| nts.cookies.is_none()) {
        let reasons: Vec<_> = nts.failed.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
        let reasons = if reasons.is_empty() { "not yet".to_owned() } else { reasons.join("; ") };
        why.push(format!("no keys agreed on (NTS): {reasons}"));
    } else if source.nts.is_some() && source.address.is_none() {
        // A firewall that passes TCP but not UDP, for one. The server's address is resolved again
        // with the next key exchange.
        why.push("gives keys (NTS), but does not answer: others are agreed on later".to_owned());
    } else if source.address.is_none() {
        why.push("its name is not known to this host, or its address cannot be reached".to_owned());
    } else if source.standing == "silent" && source.reach == 0 {
        why.push("does not answer".to_owned());
    } else if source.standing == "far" {
        why.push("has no say: it is more than 1.5 s from the reference, and others are nearer".to_owned());
    }
    if let Some(left) = source.slowed_s {
        let poll = span(source.poll_s * 1e9);
        why.push(format!("wants to be asked less often (RATE): every {poll}, and twice as often in {}", long(left)));
    }
    if !source.refused.is_empty() {
        let reasons: Vec<_> = source.refused.iter().map(|(reason, count)| format!("{reason}: {count}")).collect();
        why.push(format!("not used: {}", reasons.join("; ")));
    }
    why
}

/// A waiting time as text.
fn long(seconds: f64) -> String {
    let minutes = (seconds / 60.0).ceil();
    if minutes < 120.0 { format!("{minutes} min") } else { format!("{:.1} h", minutes / 60.0) }
}

/// Why the clock's bound is not within `within` ns: the rest of a sentence that begins with the
/// time waited.
pub(super) fn lacking(page: &Path, now: Option<&Reading>, within: u64) -> String {
    let Some(now) = now else {
        return format!("there is still no clock at {}: {NO_CLOCK}", page.display());
    };
    let what = if !now.is_known() {
        "the time is still not known".to_owned()
    } else if now.bound > within {
        let (bound, within) = (span(now.bound as f64), span(within as f64));
        format!("the bound is still {bound}, more than the {within} that were asked for")
    } else {
        format!("the bound is {}", span(now.bound as f64))
    };
    match tickwire_timekeeper::ask(page) {
        Err(_) if now.status.contains(Status::STALE) || !now.is_known() => {
            format!("{what}: {LEFT} at {}: {NO_CLOCK}", page.display())
        }
        // The daemon has just ended, or belongs to another user.
        Err(error) => format!("{what}; the daemon does not say why: {error}"),
        Ok(report) => [what].into_iter().chain(reasons(&report, within)).collect::<Vec<_>>().join("; "),
    }
}

/// The daemon's reasons why the bound is not within `within` ns.
pub fn reasons(report: &Report, within: u64) -> Vec<String> {
    let mut why = Vec::new();
    let is = |word: &str| report.status.iter().any(|fact| fact == word);
    let followed = report.sources.iter().find(|source| source.standing == "followed");
    if is("disrupted") {
        why.push(BROKEN.to_owned());
    }
    if let Some((source, least)) = followed.and_then(|source| Some((source, least(source)?))) {
        if least > within as f64 {
            why.push(format!(
                "with {} it cannot be below {}: half the round trip to it, and what it says of its own error",
                source.name,
                span(least)
            ));
        } else if is("warming up") {
            why.push("the counter's rate is not yet known well".to_owned());
        }
    }
    let disputed = report.sources.iter().filter(|source| source.standing == "disputed").count();
    if disputed > 0 {
        why.push("the servers contradict each other, and it is undecided which is right".to_owned());
    }
    for source in report.sources.iter().filter(|source| ["silent", "far"].contains(&&*source.standing)) {
        why.extend(silence(source).into_iter().map(|why| format!("{}: {why}", source.name)));
    }
    why
}

/// The least bound that a server allows, in ns. Asymmetry can hide half the sum of the round trip
/// to it and its root delay; its root dispersion is added.
fn least(source: &SourceReport) -> Option<f64> {
    let (delay, dispersion) = source.root_delay_ns.zip(source.root_dispersion_ns)?;
    Some((source.round_trip_ns? + delay as f64) / 2.0 + dispersion as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_timekeeper::NtsReport;

    #[test]
    fn a_silent_server_is_so_for_a_reason() {
        let source = SourceReport { standing: "silent".into(), asked: true, ..SourceReport::default() };
        assert!(silence(&source)[0].contains("not known"));
        let source = SourceReport { address: Some("192.0.2.1:123".into()), ..source };
        assert_eq!(silence(&source), ["does not answer"]);
        let far = SourceReport { standing: "far".into(), reach: 1, ..source.clone() };
        assert!(silence(&far)[0].contains("1.5 s"));
        let spent = NtsReport { cookies: Some(0), agreed: 1, ..NtsReport::default() };
        let spent = SourceReport { nts: Some(spent), address: None, ..source.clone() };
        assert_eq!(silence(&spent), ["gives keys (NTS), but does not answer: others are agreed on later"]);
        let refused = [("the server is not synchronised".to_owned(), 7)].into();
        let answers = SourceReport { reach: 255, refused, ..source.clone() };
        assert_eq!(silence(&answers), ["not used: the server is not synchronised: 7"]);
        let denied = |seconds| SourceReport { asked: false, denied_s: Some(seconds), ..source.clone() };
        for (seconds, span) in [(60.0, "1 min"), (3599.0, "60 min"), (86_000.0, "23.9 h")] {
            assert_eq!(
                silence(&denied(seconds)),
                [format!("does not want to serve this host (DENY or RSTR): it is asked again in {span}")]
            );
        }
        let slowed = SourceReport { standing: "agrees".into(), poll_s: 4.0, slowed_s: Some(1.0), ..source.clone() };
        assert_eq!(
            silence(&slowed),
            ["wants to be asked less often (RATE): every 4.000 s, and twice as often in 1 min"]
        );
        assert_eq!(silence(&SourceReport { standing: "agrees".into(), ..source }), [""; 0]);
    }

    #[test]
    fn a_server_far_away_allows_no_small_bound() {
        let source = SourceReport {
            root_delay_ns: Some(1_000_000),
            root_dispersion_ns: Some(200_000),
            round_trip_ns: Some(600_000.0),
            ..SourceReport::default()
        };
        assert_eq!(least(&source), Some(1_000_000.0));
        assert_eq!(least(&SourceReport::default()), None);
    }
}
