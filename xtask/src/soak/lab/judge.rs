//! The results that the programs print of their exchanges, and whether an event explains each
//! failure.

use super::plan::Side;

/// The family of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    V4,
    V6,
}

/// An event, as programs may notice it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    /// The service of a host was down: its lanes' connections were reset, and their listeners
    /// belong to the kernel now.
    Service(Side),
    /// The server of a host was killed.
    Server(Side),
    /// A host lacked one of its addresses of a family: a lane's connections from that address are
    /// ended.
    Address(Side, Family),
    /// The link was down, or an address was missing: connecting and sending datagrams may fail.
    Way,
}

/// An event with its times, by the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Happening {
    pub(super) what: What,
    pub(super) from: f64,
    /// When it ended; infinite until then.
    pub(super) until: f64,
}

/// How long an event may still have an effect, in seconds: neighbours are resolved again, dead
/// peers are detected.
const AFTERWARDS: f64 = 4.0;

/// A line that a program prints.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Said {
    /// A stream ended.
    Stream { outcome: String, family: Family, bytes: u64, begin: f64, end: f64 },
    /// A datagram socket was closed.
    Datagrams { outcome: String, sent: u64, back: u64, twice: u64, begin: f64, end: f64 },
    /// The received data differs from what was sent.
    Wrong(String),
}

impl Said {
    /// Parses the output of a program. Other lines are skipped, and so is a last line cut short by
    /// a kill.
    pub(super) fn all(printed: &str) -> Vec<Self> {
        printed.split_inclusive('\n').filter(|line| line.ends_with('\n')).filter_map(Self::read).collect()
    }

    fn read(line: &str) -> Option<Self> {
        let (kind, rest) = line.trim_end().split_once(' ')?;
        let words: Vec<&str> = rest.split(' ').collect();
        match (kind, &words[..]) {
            ("wrong", _) => Some(Self::Wrong(rest.to_owned())),
            ("stream", [outcome, family, bytes, begin, end]) => Some(Self::Stream {
                outcome: (*outcome).to_owned(),
                family: if *family == "v6" { Family::V6 } else { Family::V4 },
                bytes: bytes.parse().ok()?,
                begin: begin.parse().ok()?,
                end: end.parse().ok()?,
            }),
            ("datagrams", [outcome, sent, back, twice, begin, end]) => Some(Self::Datagrams {
                outcome: (*outcome).to_owned(),
                sent: sent.parse().ok()?,
                back: back.parse().ok()?,
                twice: twice.parse().ok()?,
                begin: begin.parse().ok()?,
                end: end.parse().ok()?,
            }),
            _ => None,
        }
    }

    /// The defect in this line, if it was printed on host `on` and these events happened.
    pub(super) fn defect(&self, on: Side, happened: &[Happening]) -> Option<String> {
        let (family, outcome, begin, end) = match self {
            Self::Wrong(what) => return Some(format!("wrong {what}")),
            Self::Datagrams { twice: 1.., .. } => return Some(format!("datagrams came twice: {self:?}")),
            Self::Stream { outcome, family, begin, end, .. } => (Some(*family), outcome, *begin, *end),
            Self::Datagrams { outcome, begin, end, .. } => (None, outcome, *begin, *end),
        };
        let felt = |wanted: &dyn Fn(What) -> bool| {
            happened.iter().any(|h| wanted(h.what) && h.from <= end && h.until + AFTERWARDS >= begin)
        };
        let killed = What::Server(on.other());
        let explained = match outcome.strip_prefix("connecting:").unwrap_or(outcome) {
            "ok" => true,
            // The kernel closes the streams of a killed program.
            "short" => felt(&|what| what == killed),
            // `shutdown` on a connection that has been reset meanwhile fails with ENOTCONN.
            "ECONNRESET" | "ECONNREFUSED" | "EPIPE" | "ENOTCONN" => felt(&|what| match what {
                What::Service(_) => true,
                What::Address(_, of) => Some(of) == family,
                what => what == killed,
            }),
            "ECONNABORTED" => felt(&|what| matches!(what, What::Address(side, of) if side == on && Some(of) == family)),
            "ENETUNREACH" | "EHOSTUNREACH" | "EADDRNOTAVAIL" | "ENETDOWN" => {
                (family.is_none() || outcome.starts_with("connecting:")) && felt(&|what| what == What::Way)
            }
            _ => false,
        };
        (!explained).then(|| format!("nothing explains the end of {self:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(outcome: &str) -> Said {
        Said::Stream { outcome: outcome.into(), family: Family::V4, bytes: 5, begin: 10.0, end: 12.0 }
    }

    #[test]
    fn what_programs_say_is_read_and_the_rest_left_out() {
        let said =
            Said::all("ready\nstream ok v4 5 10.0 12.0\nwrong end of it\ndatagrams ok 9 8 0 1.5 2\nstream ok v4 1 2");
        assert_eq!(said.len(), 3);
        assert_eq!(said[0], stream("ok"));
        assert_eq!(said[1], Said::Wrong("end of it".into()));
    }

    #[test]
    fn only_what_happened_meanwhile_on_the_way_explains_a_broken_stream() {
        let happened = |what, from, until| [Happening { what, from, until }];
        let defect = |outcome: &str, happened: &[Happening]| stream(outcome).defect(Side::A, happened).is_some();
        assert!(!defect("ok", &[]) && defect("ECONNRESET", &[]));
        assert!(!defect("ECONNRESET", &happened(What::Service(Side::A), 11.0, f64::INFINITY)));
        assert!(!defect("short", &happened(What::Server(Side::B), 9.0, 9.0)));
        assert!(defect("short", &happened(What::Server(Side::A), 11.0, 11.0)), "no talker uses its own server");
        assert!(defect("ECONNRESET", &happened(What::Service(Side::A), 13.0, 14.0)), "later");
        assert!(defect("ECONNRESET", &happened(What::Service(Side::A), 1.0, 2.0)), "long before");
        assert!(defect("ECONNRESET", &happened(What::Way, 11.0, 11.5)), "a cable that is out breaks nothing");
        assert!(!defect("connecting:ENETUNREACH", &happened(What::Way, 11.0, 11.5)));
        assert!(defect("ENETUNREACH", &happened(What::Way, 11.0, 11.5)));
        let away = |side, family| happened(What::Address(side, family), 11.0, 11.5);
        assert!(
            !defect("ECONNABORTED", &away(Side::A, Family::V4)) && !defect("ECONNRESET", &away(Side::B, Family::V4))
        );
        assert!(defect("ECONNABORTED", &away(Side::B, Family::V4)) && defect("ECONNRESET", &away(Side::B, Family::V6)));
        assert!(defect("silence", &happened(What::Service(Side::A), 11.0, 11.5)), "nothing lasts as long");
    }

    #[test]
    fn data_that_is_wrong_or_comes_twice_is_a_defect_whatever_happened() {
        let happened = [Happening { what: What::Service(Side::A), from: 0.0, until: f64::INFINITY }];
        assert!(Said::Wrong("bytes".into()).defect(Side::B, &happened).is_some());
        let twice = Said::Datagrams { outcome: "ok".into(), sent: 3, back: 3, twice: 1, begin: 1.0, end: 2.0 };
        assert!(twice.defect(Side::B, &happened).is_some());
    }
}
