//! Distributes the time to programs that do not read the page: steers the system clock, feeds NTP's
//! shared memory. Both only if configured.
//!
//! | module | purpose |
//! |---|---|
//! | `steering` | when the system clock is steered, stepped, or left to another program |
//! | `law` | the control law |
//! | `kernel` | the operations on it |
//! | `competing_daemons` | other programs that are known to steer it |
//! | `gauge` | the rate that it should have |
//! | `refclock` | samples for ntpd and chronyd |

mod competing_daemons;
mod gauge;
mod kernel;
mod law;
mod refclock;
mod steering;

use crate::config::TimekeeperConfig;
use crate::hardware::Look;
use crate::report::SystemClockReport;
use gauge::Gauge;
use kernel::Real;
use nix::errno::Errno;
use refclock::Refclock;
use steering::{Now, Steering};
use thiserror::Error;
use tickclock::{CounterKind, Parameters, Scale};
use tickwire_stamping::cross_timestamp::CrossTimestamp;

/// A reading of the system clock that took so many times as long as the quickest was interrupted:
/// its error may be as large.
const SLOW: i64 = 4;
/// A time with a bound of so much or more, in ns, is not distributed. Two servers may disagree by
/// any time, and setting a clock cannot be undone. (The distance beyond which a server is not used:
/// RFC 5905 §11.1, MAXDIST, is 1.5 s.)
const USELESS: u64 = 1_000_000_000;
/// The quickest reading is forgotten after about so many turns: by then the kernel may read its
/// clock in another way.
const REMEMBERED: i64 = 256;

/// Why the time cannot be distributed.
#[derive(Debug, Error)]
pub enum SystemError {
    /// The system clock cannot be steered.
    #[error("clock.steer_system_clock: the system clock cannot be steered: {0}{advice}", advice = advice(*.0))]
    Steer(Errno),
    /// The shared memory cannot be attached.
    #[error("clock.shm_unit: {0}")]
    Refclock(#[from] tickwire_osclock::refclock::ShmError),
}

const fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM => " (that needs CAP_SYS_TIME and, under systemd, ProtectClock=no)",
        _ => "",
    }
}

/// The receivers of the time.
#[derive(Debug)]
pub(crate) struct System {
    steering: Option<(Steering<Real>, Gauge)>,
    refclock: Option<Refclock>,
    /// The quickest reading of both clocks, in counts.
    quickest: i64,
}

impl System {
    /// Opens the configured receivers.
    pub(crate) fn new(config: &TimekeeperConfig) -> Result<Self, SystemError> {
        let steering = config.steer_system_clock.then(|| {
            let kernel = Real::new().map_err(SystemError::Steer)?;
            Ok::<_, SystemError>((Steering::new(kernel, config.step_threshold * 1e9), Gauge::default()))
        });
        let refclock = config.shm_unit.map(Refclock::new).transpose()?;
        Ok(Self { steering: steering.transpose()?, refclock, quickest: i64::MAX })
    }

    /// The work of each second. `at` is in ns of a monotonic clock.
    pub(crate) fn turn(&mut self, at: i64, kind: CounterKind, nominal: Scale, look: &Look, parameters: &Parameters) {
        if self.steering.is_none() && self.refclock.is_none() {
            return;
        }
        let both = CrossTimestamp::take(kind, nominal.period());
        self.quickest = both.width.min(self.quickest.saturating_add(self.quickest / REMEMBERED + 1));
        if both.width / SLOW > self.quickest {
            return;
        }
        let reading = parameters.reading(both.count);
        if let Some(refclock) = &mut self.refclock {
            refclock.turn(&reading, both.realtime, parameters.leap);
        }
        if let Some((steering, gauge)) = &mut self.steering
            && let Some(base) = gauge.turn(look, parameters.local.period())
        {
            let ahead = both.realtime.wrapping_sub(reading.utc().0) as f64;
            steering.turn(&Now { at, ahead, base, reading, leap: parameters.leap }, competing_daemons::find);
        }
    }

    /// The counter has broken: discards what was measured with it.
    pub(crate) fn disrupt(&mut self) {
        if let Some((_, gauge)) = &mut self.steering {
            gauge.forget();
        }
    }

    /// The steering of the system clock, if it is configured.
    pub(crate) fn report(&self) -> Option<SystemClockReport> {
        self.steering.as_ref().map(|(steering, _)| steering.report())
    }

    /// The daemon ends: the system clock is not steered any more.
    pub(crate) fn end(&mut self) {
        if let Some((steering, _)) = &mut self.steering {
            steering.end();
        }
    }
}
