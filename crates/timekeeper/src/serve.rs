//! The server: gives the time of this host's clock page to others by NTP. One thread, which sleeps
//! until something comes.
//!
//! | module | purpose |
//! |---|---|
//! | `config` | what the user wants: the `[clock.serve]` table |
//! | `time` | the page's clock, and whether it can be believed |
//! | `desk` | one socket: what has come is answered, and what has left is remembered |
//! | `tally` | what became of the requests |

mod config;
mod desk;
mod tally;
mod time;

pub use config::{Serve, listen};
pub use tally::Tally;
pub use tickwire_ntp::server::Network;

use desk::Desk;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tally::Told;
use tickclock::OpenError;
use tickwire_ntp::Server;
use time::{Event, Time};
use tracing::{info, warn};

/// The clock is looked at so often: whether the page is still the one, and the counter whole.
const LOOK: Duration = Duration::from_secs(1);
/// Full batches in a row before the other sockets have their turn.
const IN_A_ROW: usize = 4;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// There is no clock to tell.
    #[error(transparent)]
    Clock(#[from] OpenError),
    /// The counter runs at an impossible speed.
    #[error("the counter {0} has no usable period")]
    Counter(&'static str),
    /// An address cannot be had.
    #[error("cannot listen on {0}: {1}{hint}", hint = hint(*.1))]
    Listen(SocketAddr, Errno),
}

const fn hint(errno: Errno) -> &'static str {
    match errno {
        Errno::EACCES => " (ports below 1024 need root or CAP_NET_BIND_SERVICE; --listen names another one)",
        Errno::EADDRINUSE => " (another time server runs here; stop it, or --listen elsewhere)",
        Errno::EADDRNOTAVAIL => " (no interface has this address)",
        _ => "",
    }
}

/// The server.
#[derive(Debug)]
pub struct TimeServer {
    page: PathBuf,
    time: Time,
    core: Server,
    desks: Vec<Desk>,
    tally: Tally,
}

impl TimeServer {
    /// Opens the page and the sockets. A page that is not there yet is waited for: until then the
    /// answers say that the time is not known.
    ///
    /// # Errors
    /// What is there is no page, or an address cannot be had.
    pub fn start(config: &Serve, page: &Path) -> Result<Self, ServeError> {
        let time = Time::open(page)?;
        let mut desks = Vec::new();
        let (addresses, all) = config.addresses();
        for address in addresses {
            match Desk::open(address, &time) {
                Ok(desk) => {
                    info!(address = %desk.address().unwrap_or(address), "serving");
                    desks.push(desk);
                }
                // A host without IPv6 need not be told so, unless it was asked for.
                Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL) if !all && address.is_ipv6() => {}
                Err(errno) => return Err(ServeError::Listen(address, errno)),
            }
        }
        if !time.is_there() {
            warn!(
                page = %page.display(),
                "there is no clock yet: until there is one the answers say that the time is not known (start `tickwire service` or `tickwire clock run`, or name its page with --page or in {})",
                tickclock::VARIABLE
            );
        }
        Ok(Self {
            page: page.into(),
            time,
            core: Server::new(config.core(), crate::daemon::random()),
            desks,
            tally: Tally::default(),
        })
    }

    /// Where it listens.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.desks.iter().filter_map(Desk::address)
    }

    /// What became of the requests until now.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Looks what has become of the clock.
    fn look(&mut self) {
        match self.time.look() {
            None => {}
            Some(Event::Opened { anew }) => {
                info!(page = %self.page.display(), "the page is there, and is followed");
                if anew {
                    self.desks.iter_mut().for_each(|desk| desk.begin_anew(&self.time));
                }
            }
            Some(Event::Away(why)) => warn!("no clock's page can be followed: {why}"),
            Some(Event::Broken(what)) => warn!("the counter has broken: {what}"),
        }
    }

    /// Serves until `stop` is readable.
    ///
    /// # Errors
    /// The system refuses to wait.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> nix::Result<()> {
        let mut looked = Instant::now();
        let mut told = Told::new(looked);
        loop {
            if looked.elapsed() >= LOOK {
                looked = Instant::now();
                self.look();
                if told.is_news(looked, &self.tally) {
                    info!("served until now: {}", self.tally);
                }
            }
            let mut all = vec![PollFd::new(stop, PollFlags::POLLIN)];
            all.extend(self.desks.iter().map(|desk| PollFd::new(desk.as_fd(), PollFlags::POLLIN)));
            match poll(&mut all, PollTimeout::try_from(LOOK).unwrap_or(PollTimeout::ZERO)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(error) => return Err(error),
            }
            if all[0].any().unwrap_or(true) {
                info!("served {}", self.tally);
                return Ok(());
            }
            let woken: Vec<_> = all[1..].iter().map(|fd| fd.any().unwrap_or(true)).collect();
            for (desk, _) in self.desks.iter_mut().zip(woken).filter(|(_, woken)| *woken) {
                for _ in 0..IN_A_ROW {
                    if !desk.turn(&mut self.core, &self.time, &mut self.tally) {
                        break;
                    }
                }
            }
        }
    }
}
