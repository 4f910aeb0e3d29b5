//! The parameters that a healthy daemon publishes.

use tickclock::{Count, Leap, Nanos, Parameters, Scale, Status};

/// Parameters that map `at` to `time`, with a counter of 1 ns.
pub(crate) fn parameters(at: Count, time: Nanos) -> Parameters {
    let scale = Scale::from_period(1.0).unwrap();
    Parameters {
        status: Status::SYNCHRONISED | Status::TAI_KNOWN,
        at,
        time,
        local: scale,
        difference: scale,
        error: 20,
        bound: 500,
        growth: 0,
        fresh_until: Count(u64::MAX / 2),
        leap: Leap { offset: 37, step: 0, at: Nanos(0) },
        disruptions: 2,
        ..Parameters::UNKNOWN
    }
}
