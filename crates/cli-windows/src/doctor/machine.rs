//! Windows and the processor.

use crate::sys;
use tickwire_host_windows::is_wine;
use tickwire_show::finding::Finding;

/// Which Windows this is.
pub(super) fn windows() -> Finding {
    let [major, minor, build] = sys::windows_version();
    let version = format!("{major}.{minor}, build {build}");
    match major {
        _ if is_wine() => Finding::improve(
            "Windows",
            format!("Wine, which presents itself as {version}"),
            "Wine is for tests of Tickwire: its sockets and timing are not those of Windows",
        ),
        10.. => Finding::good("Windows", version),
        _ => Finding::missing("Windows", version, "Tickwire is for Windows 10, Server 2016 and later"),
    }
}

/// The counter by which time is read without a system call.
pub(super) fn counter() -> Finding {
    match sys::is_counter_invariant() {
        Some(true) => Finding::good("TSC", "runs evenly (invariant)"),
        Some(false) => Finding::improve(
            "TSC",
            "the processor, or its virtual machine, does not promise that it runs evenly",
            "time is read by the performance counter: matters, some microseconds a packet where that is a system call",
        ),
        None => Finding::unknown("TSC", "not known for this kind of processor"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_show::finding::Verdict;

    #[test]
    fn the_machine_of_the_tests_lacks_nothing() {
        for finding in [windows(), counter()] {
            assert_ne!(finding.verdict, Verdict::Missing, "{finding}");
        }
    }
}
