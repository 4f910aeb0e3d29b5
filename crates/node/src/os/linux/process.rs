//! The process and its host.

use crate::os::ProcessorTime;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use nix::sys::time::TimeVal;
use std::time::Duration;

/// The host's name; empty if it has none.
pub(crate) fn host_name() -> String {
    nix::unistd::gethostname().unwrap_or_default().to_string_lossy().into_owned()
}

/// Raises the descriptor limit to its hard limit: a consumer needs two for each TCP stream, and
/// many systems start with 1024.
pub(crate) fn take_descriptors() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // On failure, streams without a descriptor report an error.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

/// Has the calling thread woken when its time has come: the default timer slack coalesces timers
/// within 50 us. A thread that may not change it is late by up to that.
pub(crate) fn set_exact_timers() {
    let _ = nix::sys::prctl::set_timerslack(1);
}

/// The processor time of this process so far, if the system says so.
pub(crate) fn processor_time() -> Option<ProcessorTime> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    Some(ProcessorTime { user: duration(usage.user_time()), system: duration(usage.system_time()), ready: ready() })
}

/// How long the calling thread has waited for a processor so far.
fn ready() -> Option<Duration> {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    told.split_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
}

fn duration(time: TimeVal) -> Duration {
    Duration::from_micros(u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_has_all_the_descriptors_that_it_may_have() {
        let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
        setrlimit(Resource::RLIMIT_NOFILE, hard - 1, hard).unwrap();
        take_descriptors();
        assert_eq!(getrlimit(Resource::RLIMIT_NOFILE).unwrap(), (hard, hard));
    }
}
