//! How the helper thread is scheduled, as the environment asks for it.

use core::ffi::c_int;

/// Processors as bits: as many as the C library's `cpu_set_t` has.
pub(crate) type CpuMask = [u64; 16];

/// A scheduling policy (`sched(7)`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    /// `SCHED_OTHER` with this nice value.
    Other(c_int),
    /// `SCHED_BATCH`.
    Batch,
    /// `SCHED_IDLE`.
    Idle,
    /// `SCHED_FIFO` with this priority.
    Fifo(c_int),
    /// `SCHED_RR` with this priority.
    RoundRobin(c_int),
}

/// Policy and processors of the helper thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scheduling {
    /// `TICKWIRE_HELPER_POLICY`.
    pub(crate) policy: Policy,
    /// `TICKWIRE_HELPER_CPUS`; `None`: those that the process was started with.
    pub(crate) cpus: Option<CpuMask>,
}

impl Scheduling {
    /// The helper's scheduling if the environment asks for no other.
    pub(crate) const DEFAULT: Self = Self { policy: Policy::Other(0), cpus: None };
}

impl Policy {
    /// Reads `other`, `other:NICE`, `batch`, `idle`, `fifo:PRIORITY` or `rr:PRIORITY`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (name, number) = match text.split_once(':') {
            Some((name, number)) => (name, Some(number.parse::<c_int>().ok()?)),
            None => (text, None),
        };
        match (name, number) {
            ("" | "other", None) => Some(Self::Other(0)),
            ("other", Some(nice @ -20..=19)) => Some(Self::Other(nice)),
            ("batch", None) => Some(Self::Batch),
            ("idle", None) => Some(Self::Idle),
            ("fifo", Some(priority @ 1..=99)) => Some(Self::Fifo(priority)),
            ("rr", Some(priority @ 1..=99)) => Some(Self::RoundRobin(priority)),
            _ => None,
        }
    }
}

/// Reads a list of processors as `taskset -c` takes it: `0-3,8`.
pub(crate) fn parse_cpus(text: &str) -> Option<CpuMask> {
    let mut mask: CpuMask = [0; 16];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        if first > last {
            return None;
        }
        for cpu in first..=last {
            *mask.get_mut(cpu / 64)? |= 1 << (cpu % 64);
        }
    }
    Some(mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_words_with_a_number_where_the_policy_has_one() {
        assert_eq!(Policy::parse(""), Some(Policy::Other(0)));
        assert_eq!(Policy::parse("other:-5"), Some(Policy::Other(-5)));
        assert_eq!(Policy::parse("fifo:50"), Some(Policy::Fifo(50)));
        assert_eq!(Policy::parse("rr:1"), Some(Policy::RoundRobin(1)));
        assert_eq!([Policy::parse("batch"), Policy::parse("idle")], [Some(Policy::Batch), Some(Policy::Idle)]);
        for text in ["fifo", "fifo:0", "fifo:100", "rr:-1", "other:20", "idle:1", "soon", "fifo:x"] {
            assert_eq!(Policy::parse(text), None, "{text}");
        }
    }

    #[test]
    fn processors_are_numbers_and_ranges() {
        let mask = parse_cpus("0-2,64").unwrap();
        assert_eq!((mask[0], mask[1]), (0b111, 1));
        for text in ["", "3-1", "x", "0,", "1024", "-1"] {
            assert_eq!(parse_cpus(text), None, "{text}");
        }
    }
}
