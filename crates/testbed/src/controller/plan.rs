//! The traffic plan: destination and phase of each stream.

use super::host::Hosts;
use crate::node::protocol::StreamDestination;
use crate::outcome::Timing;
use crate::pattern::{Pattern, Stream, Transport};
use crate::schedule::{CableLink, CannotFit, plan, plan_widest};
use crate::units::nanos;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tickwire_sim::Rng;

/// The pattern with a phase for each stream, at `rate` times its rate. Slots of a schedule have
/// `guard` between them, or the widest possible interval if none is given.
///
/// # Errors
/// The slots do not fit.
pub(super) fn timed(
    pattern: &Pattern,
    timing: Timing,
    rate: u32,
    seed: u64,
    link: &CableLink,
    guard: Option<Duration>,
) -> Result<Pattern, CannotFit> {
    let mut timed = pattern.clone();
    for stream in &mut timed.streams {
        stream.period /= rate.max(1);
        stream.phase = stream.phase.map(|phase| phase / rate.max(1));
    }
    match timing {
        Timing::Synchronised => timed.streams.iter_mut().for_each(|stream| stream.phase = Some(Duration::ZERO)),
        Timing::Scheduled => {
            let schedule = guard.map_or_else(|| plan_widest(&timed, link), |guard| plan(&timed, link, guard))?;
            schedule.apply(&mut timed);
        }
        Timing::Pattern | Timing::Unscheduled => {
            for stream in &mut timed.streams {
                if stream.phase.is_none() || timing == Timing::Unscheduled {
                    stream.phase = Some(random_phase(stream, seed));
                }
            }
        }
    }
    Ok(timed)
}

/// A random phase within the period, fixed for a stream and seed.
fn random_phase(stream: &Stream, seed: u64) -> Duration {
    let mut chance = Rng::new(seed ^ (u64::from(stream.id) << 32));
    Duration::from_nanos(chance.below(nanos(stream.period).max(1)))
}

/// Each stream with its destination: ports from `first_port` on, and groups of this experiment.
pub(super) fn channels(pattern: &Pattern, hosts: &Hosts, first_port: u16) -> Vec<StreamDestination> {
    let numbered = pattern.streams.iter().zip(first_port..);
    numbered
        .map(|(stream, port)| StreamDestination {
            stream: stream.clone(),
            to: destination(stream, hosts.consumer.address, port),
        })
        .collect()
}

fn destination(stream: &Stream, consumer: IpAddr, port: u16) -> SocketAddr {
    let address = match (stream.transport, consumer) {
        (Transport::UdpMulticast, IpAddr::V4(_)) => {
            // 239/8 is administratively scoped (RFC 2365); a group for each producer.
            let [high, low] = stream.producer.to_be_bytes();
            Ipv4Addr::new(239, 84, high, low).into()
        }
        (Transport::UdpMulticast, IpAddr::V6(_)) => {
            // Not permanently assigned, of link-local scope (RFC 4291, 2.7).
            Ipv6Addr::new(0xff12, 0, 0, 0, 0, 0, 0x5457, stream.producer).into()
        }
        _ => consumer,
    };
    SocketAddr::new(address, port)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link() -> CableLink {
        CableLink { rate_bps: 1_000_000_000, mtu: 1500 }
    }

    fn with(timing: Timing, rate: u32, seed: u64) -> Pattern {
        timed(&Pattern::of_2015(), timing, rate, seed, &link(), None).unwrap()
    }

    #[test]
    fn phases_are_within_the_period_and_the_same_for_the_same_seed() {
        for rate in [1, 10] {
            let one = with(Timing::Unscheduled, rate, 1);
            assert!(one.streams.iter().all(|s| s.phase.is_some_and(|phase| phase < s.period)));
            assert_eq!(one, with(Timing::Unscheduled, rate, 1));
            assert_ne!(one, with(Timing::Unscheduled, rate, 2));
        }
        // The phases are stable across versions, so that a report's command reproduces its run.
        let first = with(Timing::Unscheduled, 1, 1).streams[0].phase;
        assert_eq!(first, Some(Duration::from_nanos(28101082)));
        assert!(with(Timing::Synchronised, 1, 1).streams.iter().all(|s| s.phase == Some(Duration::ZERO)));
    }

    #[test]
    fn a_pattern_that_says_when_is_kept_to() {
        let mut pattern = Pattern::of_2015();
        pattern.streams[3].phase = Some(Duration::from_millis(7));
        let timed = timed(&pattern, Timing::Pattern, 7, 1, &link(), None).unwrap();
        assert_eq!(timed.streams[3].phase, Some(Duration::from_millis(1)));
    }
}
