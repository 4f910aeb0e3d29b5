//! The firewall's rules change. A claim that they would not allow any more ends: from then on its
//! packets come to the kernel, which has the program's socket, and asks the firewall itself.
//!
//! And old connections of the kernel, which were left to it under a claim, come to an end.

use super::Shared;
use crate::inbound::{self, InboundAnswers};
use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};
use tickwire_host_windows::{PortProtocol, endpoint_rows};
use tickwire_lane::control::Reason;
use tickwire_steer::tables::Protocol;

/// How often the firewall is asked about the ports that are claimed.
const INTERVAL: Duration = Duration::from_secs(3);

/// From one question to the next. The answers come from other processes, and packets are to have
/// the processors meanwhile.
const PACE: Duration = Duration::from_millis(1);

/// For so long a round makes these pauses: however many ports there are, each is asked about soon.
const LONGEST_PACED: Duration = Duration::from_secs(1);

/// The thread that asks, until this is dropped.
pub(super) struct Recheck {
    _stop: Sender<()>,
}

impl Recheck {
    /// Starts it. It is not waited for at the end: an answer may take its time.
    pub(super) fn start(shared: &Arc<Shared>) -> io::Result<Self> {
        let (stop, stopped) = channel::<()>();
        let shared = Arc::downgrade(shared);
        std::thread::Builder::new().name("recheck".into()).spawn(move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let Some(()) = look(&shared, &stopped) else { return };
            }
        })?;
        Ok(Self { _stop: stop })
    }
}

/// Asks about each port once, and looks at old connections. `None` if the service has ended.
fn look(shared: &Weak<Shared>, stopped: &Receiver<()>) -> Option<()> {
    let (claims, own, firewall) = {
        let shared = shared.upgrade()?;
        let core = shared.core();
        (core.port_claims(), core.own_addresses(), Arc::clone(&shared.firewall))
    };
    let has_exceptions = shared.upgrade()?.core().has_exceptions();
    if has_exceptions && let Ok(rows) = endpoint_rows(PortProtocol::Tcp) {
        let connections: HashSet<_> = rows.iter().map(|row| (row.local, row.remote)).collect();
        shared.upgrade()?.core().retain_exceptions(|local, remote| connections.contains(&(local, remote)));
    }
    let begin = Instant::now();
    let mut answers = InboundAnswers::default();
    for (port, image) in claims {
        let before = answers.asked();
        let asked = answers.allow(&*firewall, image.as_deref(), &port.bound, &own).and_then(|()| {
            let sends = port.bound.protocol == Protocol::Udp;
            if sends { inbound::lets_out(&*firewall, image.as_deref(), &port.bound, None) } else { Ok(()) }
        });
        match asked {
            // Without an answer the last one holds.
            Ok(()) | Err(Reason::FirewallUnknown) => (),
            Err(reason) => shared.upgrade()?.core().lose(port.lane, port.claim, reason),
        }
        let is_paced = answers.asked() > before && begin.elapsed() < LONGEST_PACED;
        let pause = if is_paced { PACE } else { Duration::ZERO };
        if stopped.recv_timeout(pause) == Err(RecvTimeoutError::Disconnected) {
            return None;
        }
    }
    Some(())
}
