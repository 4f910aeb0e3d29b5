//! The server: its page and its sockets.

use super::config::{NTP, Serve};
use super::server_socket::ServerSocket;
use super::tally::{LoggedTally, Tally};
use super::time::{Event, Time};
use crate::random;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tickclock::OpenError;
use tickwire_ntp::NtpServer;
use tickwire_ntp::server::{RateLimit, ServerConfig};
use tracing::{info, warn};

/// Interval of the check that the page is still the current one and the counter has not broken.
const LOOK: Duration = Duration::from_secs(1);
/// Full batches in a row from one socket before the others have their turn.
const IN_A_ROW: usize = 4;

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The page cannot be opened.
    #[error(transparent)]
    Clock(#[from] OpenError),
    /// The counter has no usable period.
    #[error("the counter {0} has no usable period")]
    Counter(&'static str),
    /// An address cannot be bound.
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

impl Serve {
    /// The addresses to listen on, and whether the configuration requires all of them.
    fn addresses(&self) -> (Vec<SocketAddr>, bool) {
        if self.listen.is_empty() {
            (vec![(Ipv4Addr::UNSPECIFIED, NTP).into(), (Ipv6Addr::UNSPECIFIED, NTP).into()], false)
        } else {
            (self.listen.clone(), true)
        }
    }

    fn core(&self) -> ServerConfig {
        let rate = RateLimit { per_second: self.rate, burst: self.burst };
        ServerConfig { allow: self.allow.clone(), rate: (self.rate > 0.0).then_some(rate) }
    }
}

/// The server.
#[derive(Debug)]
pub struct TimeServer {
    page: PathBuf,
    time: Time,
    core: NtpServer,
    desks: Vec<ServerSocket>,
    tally: Tally,
}

impl TimeServer {
    /// Opens the page and the sockets. While there is no page yet, the replies say that the time is
    /// not known.
    ///
    /// # Errors
    /// The page is invalid, its counter is not usable, or an address cannot be bound.
    pub fn start(config: &Serve, page: &Path) -> Result<Self, ServeError> {
        let time = Time::open(page)?;
        let mut desks = Vec::new();
        let (addresses, all) = config.addresses();
        for address in addresses {
            match ServerSocket::open(address, &time) {
                Ok(desk) => {
                    info!(address = %desk.address().unwrap_or(address), "serving");
                    desks.push(desk);
                }
                // A host without IPv6 is no error, unless the address was configured.
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
            core: NtpServer::new(config.core(), random::words()),
            desks,
            tally: Tally::default(),
        })
    }

    /// The addresses it listens on.
    pub fn addresses(&self) -> impl Iterator<Item = SocketAddr> {
        self.desks.iter().filter_map(ServerSocket::address)
    }

    /// Statistics of the requests so far.
    #[must_use]
    pub const fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Checks the page and the counter, and logs a change.
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
    /// `poll` fails.
    pub fn run(&mut self, stop: BorrowedFd<'_>) -> nix::Result<()> {
        let mut looked = Instant::now();
        let mut told = LoggedTally::new(looked);
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
