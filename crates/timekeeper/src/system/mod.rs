//! Hands the time on to programs that do not read the page: steers the system clock, feeds NTP's
//! shared memory. Both only if the user wants it.
//!
//! | module | purpose |
//! |---|---|
//! | `steering` | when the system clock is steered, stepped, or left to somebody else |
//! | `law` | how it is steered |
//! | `kernel` | what is done to it |
//! | `rivals` | who else is known for it |
//! | `gauge` | what its rate should be |
//! | `refclock` | samples for ntpd and chronyd |

mod gauge;
mod kernel;
mod law;
mod refclock;
mod rivals;
mod steering;

pub use steering::Report;

use crate::config::Config;
use crate::hardware::Look;
use gauge::Gauge;
use kernel::Real;
use nix::errno::Errno;
use refclock::Refclock;
use steering::{Now, Steering};
use thiserror::Error;
use tickclock::{CounterKind, Parameters};
use tickwire_clock::Scale;
use tickwire_ntp::sandwich::Sandwich;

/// A reading of the system clock that took so many times as long as the quickest was interrupted:
/// its error may be as large.
const SLOW: i64 = 4;
/// A time that may be wrong by so much, in ns, is not handed on: two servers may disagree by any
/// time, and a clock that was set cannot be taken back. (The distance beyond which a server is of
/// no use: RFC 5905 §11.1, MAXDIST, is 1.5 s.)
const USELESS: u64 = 1_000_000_000;
/// After about so many turns the quickest reading is forgotten: the kernel may read its clock in
/// another way by then.
const REMEMBERED: i64 = 256;

/// Why the time cannot be handed on.
#[derive(Debug, Error)]
pub enum Error {
    /// The system clock cannot be steered.
    #[error("clock.steer_system_clock: the system clock cannot be steered: {0}{advice}", advice = advice(*.0))]
    Steer(Errno),
    /// The shared memory cannot be had.
    #[error("clock.shm_unit: {0}")]
    Refclock(#[from] tickwire_osclock::refclock::Error),
}

const fn advice(errno: Errno) -> &'static str {
    match errno {
        Errno::EPERM => " (that needs CAP_SYS_TIME and, under systemd, ProtectClock=no)",
        _ => "",
    }
}

/// Whom the time is handed on to.
#[derive(Debug)]
pub(crate) struct System {
    steering: Option<(Steering<Real>, Gauge)>,
    refclock: Option<Refclock>,
    /// The quickest reading of both clocks, in counts.
    quickest: i64,
}

impl System {
    /// As the user wants it.
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let steering = config.steer_system_clock.then(|| {
            let kernel = Real::new().map_err(Error::Steer)?;
            Ok::<_, Error>((Steering::new(kernel, config.step_threshold * 1e9), Gauge::default()))
        });
        let refclock = config.shm_unit.map(Refclock::new).transpose()?;
        Ok(Self { steering: steering.transpose()?, refclock, quickest: i64::MAX })
    }

    /// What is to be done each second. `at` is in ns of a clock that only runs forward.
    pub(crate) fn turn(&mut self, at: i64, kind: CounterKind, nominal: Scale, look: &Look, parameters: &Parameters) {
        if self.steering.is_none() && self.refclock.is_none() {
            return;
        }
        let both = Sandwich::take(kind, nominal.period());
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
            steering.turn(&Now { at, ahead, base, reading, leap: parameters.leap }, rivals::find);
        }
    }

    /// The counter has broken: what was measured by it is void.
    pub(crate) fn disrupt(&mut self) {
        if let Some((_, gauge)) = &mut self.steering {
            gauge.forget();
        }
    }

    /// How the system clock is steered, if it is to be.
    pub(crate) fn report(&self) -> Option<Report> {
        self.steering.as_ref().map(|(steering, _)| steering.report())
    }

    /// The daemon ends: nobody looks after the system clock any more.
    pub(crate) fn end(&mut self) {
        if let Some((steering, _)) = &mut self.steering {
            steering.end();
        }
    }
}
