//! What the environment asks of the library.

use crate::sys;
use crate::sys::scheduling::{Policy, Scheduling, parse_cpus};
use std::ops::RangeInclusive;
use std::sync::OnceLock;
pub(crate) use tickwire_lane::spin::Spin;
use tickwire_stack::time::Span;

static SETTINGS: OnceLock<Settings> = OnceLock::new();

/// The settings of this process.
pub(crate) fn settings() -> &'static Settings {
    SETTINGS.get_or_init(|| {
        let (settings, complaint) = Settings::read(|name| std::env::var(name).ok());
        if let Some(complaint) = complaint {
            sys::say(&complaint);
        }
        settings
    })
}

/// The smallest retransmission timeouts that can be set, in milliseconds; the upper is that of RFC
/// 6298 §2.4.
const MIN_RTO: RangeInclusive<u64> = 1..=1000;

/// The settings of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// `TICKWIRE_SPIN`.
    pub(crate) spin: Spin,
    /// `TICKWIRE_MIN_RTO`: the smallest retransmission timeout over the round trip, if it is not
    /// the stack's own.
    pub(crate) min_rto: Option<Span>,
    /// `TICKWIRE_HELPER_POLICY` and `TICKWIRE_HELPER_CPUS`: how the helper thread is scheduled.
    pub(crate) helper: Scheduling,
    /// `TICKWIRE_REALTIME`: whether threads take up a real-time priority that the service grants.
    pub(crate) realtime: bool,
    /// `TICKWIRE_REQUIRE`: refuse to run without acceleration.
    pub(crate) require: bool,
    /// `TICKWIRE_LOG`: say more on standard error.
    pub(crate) verbose: bool,
    /// `TICKWIRE_NOTED`: `tickwire run` has said already that no service answers.
    pub(crate) noted: bool,
}

impl Settings {
    /// Reads the settings from a lookup of environment variables. Also returns a message about
    /// values that are not valid.
    pub(crate) fn read(get: impl Fn(&str) -> Option<String>) -> (Self, Option<String>) {
        let on = |name: &str| get(name).is_some_and(|v| !v.is_empty() && v != "0");
        let mut complaints = Vec::new();
        let text = get("TICKWIRE_SPIN").unwrap_or_default();
        let spin = Spin::parse(&text).unwrap_or_else(|| {
            complaints.push(format!(
                "TICKWIRE_SPIN is '{text}', but must be 'adaptive', 'never', 'always' or a number of microseconds; using adaptive"
            ));
            Spin::Adaptive
        });
        let text = get("TICKWIRE_MIN_RTO").unwrap_or_default();
        let min_rto = text.parse().ok().filter(|ms| MIN_RTO.contains(ms)).map(Span::from_millis);
        if min_rto.is_none() && !text.is_empty() {
            let (least, most) = (MIN_RTO.start(), MIN_RTO.end());
            complaints.push(format!(
                "TICKWIRE_MIN_RTO is '{text}', but must be a number of milliseconds from {least} to {most}; using the stack's own"
            ));
        }
        let text = get("TICKWIRE_HELPER_POLICY").unwrap_or_default();
        let policy = Policy::parse(&text).unwrap_or_else(|| {
            complaints.push(format!(
                "TICKWIRE_HELPER_POLICY is '{text}', but must be 'other', 'other:NICE', 'batch', 'idle', 'fifo:PRIORITY' or 'rr:PRIORITY'; using other"
            ));
            Scheduling::DEFAULT.policy
        });
        let text = get("TICKWIRE_HELPER_CPUS").unwrap_or_default();
        let cpus = parse_cpus(&text);
        if cpus.is_none() && !text.is_empty() {
            complaints.push(format!(
                "TICKWIRE_HELPER_CPUS is '{text}', but must be a list of processors like '0-3,8'; using those of the process"
            ));
        }
        let helper = Scheduling { policy, cpus };
        let text = get("TICKWIRE_REALTIME").unwrap_or_default();
        let realtime = text != "never";
        if !["", "never", "granted"].contains(&&*text) {
            complaints.push(format!("TICKWIRE_REALTIME is '{text}', but must be 'granted' or 'never'; using granted"));
        }
        let complaint = (!complaints.is_empty()).then(|| complaints.join("; "));
        let (require, verbose, noted) = (on("TICKWIRE_REQUIRE"), on("TICKWIRE_LOG"), on("TICKWIRE_NOTED"));
        (Self { spin, min_rto, helper, realtime, require, verbose, noted }, complaint)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_that_is_not_understood_is_named_and_the_default_used() {
        let (settings, complaint) = Settings::read(|name| (name == "TICKWIRE_SPIN").then(|| "soon".into()));
        assert_eq!(settings.spin, Spin::Adaptive);
        assert!(complaint.is_some_and(|c| c.contains("'soon'")));
        for (text, understood) in
            [("20", true), ("1", true), ("1000", true), ("0", false), ("1001", false), ("5 ms", false)]
        {
            let (settings, complaint) = Settings::read(|name| (name == "TICKWIRE_MIN_RTO").then(|| text.into()));
            assert_eq!(
                (settings.min_rto.is_some(), complaint.is_none()),
                (understood, understood),
                "{text}: {complaint:?}"
            );
        }
        let (settings, complaint) = Settings::read(|name| (name == "TICKWIRE_MIN_RTO").then(|| "20".into()));
        assert_eq!((settings.min_rto, complaint), (Some(Span::from_millis(20)), None));
        for (name, text) in
            [("TICKWIRE_HELPER_POLICY", "fast"), ("TICKWIRE_HELPER_CPUS", "all"), ("TICKWIRE_REALTIME", "50")]
        {
            let (settings, complaint) = Settings::read(|asked| (asked == name).then(|| text.into()));
            assert_eq!((settings.helper, settings.realtime), (Scheduling::DEFAULT, true));
            assert!(complaint.is_some_and(|c| c.contains(name)));
        }
        let (settings, complaint) = Settings::read(|name| (name == "TICKWIRE_HELPER_POLICY").then(|| "fifo:50".into()));
        assert_eq!((settings.helper.policy, complaint), (Policy::Fifo(50), None));
        let (settings, complaint) = Settings::read(|name| (name == "TICKWIRE_REQUIRE").then(|| "1".into()));
        assert!(settings.require && !settings.verbose && complaint.is_none());
    }
}
