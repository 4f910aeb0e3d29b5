//! Starting the service, its event loop, and its end.

use crate::claims::{Claims, Judge};
use crate::clients::{Acceptor, Captures, Clients, Endpoint, EndpointError, NamespaceLock, Ready};
use crate::clock::Clock;
use crate::config::{Attach, ConfigError, ServiceConfig, ServiceLimits};
use crate::lanes::{LaneMaker, Lanes, Priorities, Remover, remove_leftovers};
use crate::ledger::Ledger;
use crate::paths::Paths;
use crate::programs::{BpfError, Programs, ring_is_safe};
use crate::rights;
use crate::service::Service;
use crate::usage::Usage;
use nix::sys::epoll::{EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};
use tickwire_host::{Connections, RouteNetlink};
use tickwire_lane::control::Reason;
use tickwire_lane_linux::control::SOCKET_VARIABLE;
use tickwire_timekeeper::config::FileError;

/// How the service runs. These options take precedence over the configuration file.
#[derive(Debug, Default)]
pub struct RunOptions {
    /// The configuration file; `None`: the default one, if it exists.
    pub config: Option<PathBuf>,
    /// Interfaces to accelerate; empty: those of the configuration.
    pub interfaces: Vec<String>,
    /// The service's socket; `None`: what `TICKWIRE_SOCKET` says, else the configuration.
    pub socket: Option<PathBuf>,
    /// The socket's mode.
    pub socket_mode: Option<u32>,
    /// The socket's group.
    pub socket_group: Option<String>,
    /// How divert is attached.
    pub attach: Option<Attach>,
    /// Interfaces at which no frame with a VLAN tag arrives, beside those of the configuration.
    pub untagged: Vec<String>,
    /// Ends the service when it becomes readable, as SIGTERM does.
    pub stop: Option<OwnedFd>,
    /// How long programs may take at the end to hand their connections over to the kernel.
    /// Connections that are still on lanes afterwards are reset.
    pub hand_over: Duration,
}

/// Why the service cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ServiceError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A file that the clock needs cannot be used.
    #[error(transparent)]
    ClockFiles(#[from] FileError),
    /// The socket cannot be made.
    #[error(transparent)]
    Endpoint(#[from] EndpointError),
    /// The BPF side failed.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// A query to the kernel failed.
    #[error(transparent)]
    Host(#[from] tickwire_host::HostError),
    /// The service needs privileges that it does not have.
    #[error("the service needs root (or CAP_NET_ADMIN and CAP_BPF): {0}")]
    Privilege(io::Error),
    /// The kernel would let a program that has a lane overwrite kernel memory.
    #[error(
        "this kernel's BPF ring buffers can be made to overlap by a program that maps one (CVE-2024-41009), so no program can be given a lane: \
         update the kernel (mended in Linux 6.10, 6.6.37, 6.1.97, 5.15.162 and 5.10.221)"
    )]
    UnsafeRing,
    /// An interface that was named does not exist.
    #[error("there is no interface \"{0}\": see `ip link`")]
    NoInterface(String),
    /// An interface that was named is the loopback.
    #[error(
        "\"{0}\" is the loopback: what stays inside this host is the kernel's; name a network interface (see `ip link`)"
    )]
    Loopback(String),
    /// An interface that was named is no Ethernet.
    #[error(
        "\"{0}\" carries no Ethernet frames (a tunnel?) and cannot be accelerated; name another interface (see `ip link`)"
    )]
    NoEthernet(String),
    /// The system refused.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

fn system(what: &'static str) -> impl FnOnce(io::Error) -> ServiceError {
    move |source| ServiceError::System { what, source }
}

// The epoll tokens; those of connections are higher.
const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
const EVENTS: u64 = 2;
const STOP: u64 = 3;
const CAPTURE: u64 = 4;
const LANES: u64 = 5;

/// How often claims are verified, in the background.
const VERIFY_EVERY: Duration = Duration::from_secs(1);

/// Routes change in bursts: paths are resolved again once, this long after the first change.
const SETTLE: Duration = Duration::from_millis(20);

/// Runs the service until SIGTERM, SIGINT, or `RunOptions::stop`. A second one of these ends it at
/// once.
///
/// Changes the calling thread's signal mask: the event loop reads these two signals and SIGHUP.
/// Call it from the first thread, before others are started.
///
/// # Errors
/// If it cannot start. What happens later is logged and survived.
pub fn run(options: RunOptions) -> Result<(), ServiceError> {
    let stop = options.stop.as_ref().map(OwnedFd::try_clone).transpose().map_err(system("copy a descriptor"))?;
    let config = configuration(&options)?;
    // The only fault of the clock that waiting does not mend: an unusable file.
    config.clock.as_ref().map_or(Ok(()), tickwire_timekeeper::TimekeeperConfig::check_files)?;
    // Rights first: a process without them gets that error even if another service runs here.
    // Nothing is attached before all checks have passed.
    rights::check().map_err(ServiceError::Privilege)?;
    let _lock = NamespaceLock::take()?;
    rights::warn(config.groups.values().any(|group| group.realtime.is_some()));
    raise_limits(&config.limits);
    let endpoint = Endpoint::open(&config.socket)?;
    let mask = hold_signals()?;
    let mut service = start(config)?;
    endpoint.listen()?;
    let outcome = serve(&mut service, &endpoint, &options, stop, &mask);
    // From here on no new program connects; connected programs and the lanes' peers are notified.
    endpoint.close();
    service.end();
    outcome
}

/// The configuration file, overridden by the environment and the options.
fn configuration(options: &RunOptions) -> Result<ServiceConfig, ServiceError> {
    let mut config = ServiceConfig::load(options.config.as_deref())?;
    if !options.interfaces.is_empty() {
        config.interfaces.clone_from(&options.interfaces);
    }
    if let Some(path) = options.socket.clone().or_else(|| std::env::var_os(SOCKET_VARIABLE).map(PathBuf::from)) {
        config.socket.path = path;
    }
    if options.socket_mode.is_some() {
        config.socket.mode = options.socket_mode;
    }
    if options.socket_group.is_some() {
        config.socket.group.clone_from(&options.socket_group);
    }
    if let Some(attach) = options.attach {
        config.attach = attach;
        config.attach_by_interface.clear();
    }
    config.untagged.extend_from_slice(&options.untagged);
    Ok(config)
}

/// Raises the process's limits for many lanes: locked memory, and a few descriptors each.
pub(crate) fn raise_limits(limits: &ServiceLimits) {
    if let Err(error) = setrlimit(Resource::RLIMIT_MEMLOCK, RLIM_INFINITY, RLIM_INFINITY) {
        tracing::debug!(%error, "the limit of locked memory stays as it is");
    }
    if let Ok((_, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // One for each connection and claim. 16 for each lane: four of its own, its programs'
        // links, and two namespaces for a moment.
        let each = [(limits.flows, 1), (limits.connections, 1), (limits.lanes, 16)];
        let wanted = hard.max(each.iter().map(|&(number, of)| u64::from(number) * of).sum::<u64>() + 1024);
        let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, wanted)
            .or_else(|_| setrlimit(Resource::RLIMIT_NOFILE, hard, hard));
        if let Err(error) = raised {
            tracing::debug!(%error, "the limit of open files stays as it is");
        }
    }
}

fn start(config: ServiceConfig) -> Result<Service, ServiceError> {
    if !ring_is_safe()? {
        return Err(ServiceError::UnsafeRing);
    }
    let mut programs = Programs::load(&config.limits)?;
    let captures = Captures::new(programs.take_capture_ring()?);
    let mut host = RouteNetlink::open()?;
    let remover = Remover::default();
    let numbers = remove_leftovers(&mut host, &remover)?;
    let maker = LaneMaker::start(RouteNetlink::open()?, programs.lane_programs()?, numbers, remover)
        .map_err(system("start a thread"))?;
    let lanes = Lanes::new(maker, config.lane, Priorities::new(&config.groups));
    let judge = Judge::new().map_err(system("tell network namespaces apart (Linux 5.14 or newer is needed)"))?;
    let claims = Claims::new(judge, connections);
    let clients = Clients::new(captures).map_err(system("make an epoll instance"))?;
    let ledger = Ledger { programs, usage: Usage::new(config.limits) };
    let mut service = Service::new(config, ledger, Paths::new(host)?, lanes, claims, clients);
    check_interfaces(&service.config, &mut service.paths.host)?;
    service.take_inventory()?;
    if !service.paths.nics.any() {
        tracing::warn!("no interface is accelerated yet; one that comes up will be");
    }
    Ok(service)
}

/// Looks for the interfaces that the configuration names.
fn check_interfaces(config: &ServiceConfig, host: &mut RouteNetlink) -> Result<(), ServiceError> {
    for name in &config.interfaces {
        let error = match host.link_by_name(name)? {
            None => ServiceError::NoInterface,
            Some(link) if link.loopback => ServiceError::Loopback,
            Some(link) if link.mac.is_none() => ServiceError::NoEthernet,
            Some(_) => continue,
        };
        return Err(error(name.clone()));
    }
    let names: Vec<String> = host.links()?.into_iter().map(|link| link.name).collect();
    for (interface, why) in config.idle_attachments(&names) {
        tracing::warn!(interface, "attach_by_interface has no effect on it: {why}");
    }
    for interface in config.untagged.iter().filter(|name| !names.contains(name)) {
        tracing::warn!(interface, "untagged: there is no such interface now (see `ip link`)");
    }
    Ok(())
}

/// Socket diagnostics, which report the connections that the kernel has of a port.
fn connections() -> Option<Connections> {
    Connections::open()
        .inspect_err(|error| tracing::error!(%error, "TCP is not accelerated: {}", Reason::NoDiagnostics))
        .ok()
}

/// Blocks the signals that the loop reads, in this thread and in all that it starts: otherwise one
/// of them could end the process.
fn hold_signals() -> Result<SigSet, ServiceError> {
    let mut mask = SigSet::empty();
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        mask.add(signal);
    }
    mask.thread_block().map_err(|e| system("block signals")(e.into()))?;
    Ok(mask)
}

/// The event loop.
fn serve(
    service: &mut Service,
    endpoint: &Endpoint,
    options: &RunOptions,
    stop: Option<OwnedFd>,
    mask: &SigSet,
) -> Result<(), ServiceError> {
    let signals = SignalFd::with_flags(mask, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(|e| system("read signals")(e.into()))?;
    watch_all(service, endpoint, &signals, stop.as_ref())?;
    let _clock = service.config.clock.clone().map(Clock::start);
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "ready");
    service.make_ready();
    let mut timers = Timers::begin(Instant::now());
    let mut events = Vec::new();
    let mut talking = Vec::new();
    let mut rounds = 0usize;
    let mut acceptor = Acceptor::new(|| endpoint.listener().accept().map(|(stream, _)| stream.into()));
    loop {
        let timeout = timers.timeout(service, acceptor.shut_until());
        events.resize(events_at_once(service.clients.len()), EpollEvent::empty());
        let ready = match service.clients.poll.wait(&mut events, timeout) {
            Ok(ready) => ready,
            Err(nix::errno::Errno::EINTR) => 0,
            Err(error) => return Err(system("wait for events")(error.into())),
        };
        for event in &events[..ready] {
            match event.data() {
                LISTENER => accept(service, endpoint, &mut acceptor),
                SIGNALS => {
                    if obey_signals(service, &signals, options) {
                        return Ok(());
                    }
                }
                EVENTS => service.host_events(),
                STOP => {
                    // It stays readable, and would wake the loop each time.
                    let _ = stop.as_ref().map(|stop| service.clients.poll.delete(stop));
                    if service.is_to_end(options.hand_over) {
                        return Ok(());
                    }
                }
                CAPTURE => service.clients.captures.drain(),
                LANES => service.lanes_made(),
                id => talking.push(Ready { id, hung_up: event.events().contains(EpollFlags::EPOLLHUP) }),
            }
        }
        rounds = rounds.wrapping_add(1);
        service.round(&mut talking, rounds);
        talking.clear();
        let now = Instant::now();
        if service.has_parted(now) {
            return Ok(());
        }
        service.clients.awake(now);
        if acceptor.shut_until().is_some_and(|until| until <= now) {
            acceptor.open();
            watch(service, endpoint.listener(), LISTENER)?;
        }
        service.tear_down_lanes();
        service.lanes.look_at_remains(now, &mut service.ledger.usage);
        timers.run(service, now);
        service.refresh_some_paths();
    }
}

/// The most events that the loop takes from epoll for a round, beside those of what it watches
/// itself: one for each connection there is. The shares of a round are those of the users in it, so
/// one user's connections must not fill it, although all are ready. Root may have more of them than
/// `limits.connections`.
fn events_at_once(connections: usize) -> usize {
    /// At least as many as the loop watches beside connections.
    const OTHERS: usize = 16;
    connections + OTHERS
}

/// Has epoll watch what the loop reads, beside connections.
fn watch_all(
    service: &Service,
    endpoint: &Endpoint,
    signals: &SignalFd,
    stop: Option<&OwnedFd>,
) -> Result<(), ServiceError> {
    watch(service, endpoint.listener(), LISTENER)?;
    watch(service, signals, SIGNALS)?;
    watch(service, &service.paths, EVENTS)?;
    watch(service, service.clients.captures.descriptor(), CAPTURE)?;
    watch(service, &service.lanes, LANES)?;
    stop.map_or(Ok(()), |stop| watch(service, stop, STOP))
}

fn watch(service: &Service, what: impl AsFd, token: u64) -> Result<(), ServiceError> {
    let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
    service.clients.poll.add(what, event).map_err(|e| system("watch a descriptor")(e.into()))
}

/// Accepts the connections that wait. While none can be accepted, the socket is not watched.
fn accept(service: &mut Service, endpoint: &Endpoint, acceptor: &mut Acceptor<impl FnMut() -> io::Result<OwnedFd>>) {
    service.clients.accept(acceptor, &mut service.ledger.usage);
    if acceptor.shut_until().is_some() {
        let _ = service.clients.poll.delete(endpoint.listener());
    }
}

/// Reads the signals that wait. Returns whether the service is to end now.
fn obey_signals(service: &mut Service, signals: &SignalFd, options: &RunOptions) -> bool {
    while let Ok(Some(info)) = signals.read_signal() {
        if i32::try_from(info.ssi_signo) == Ok(Signal::SIGHUP as i32) {
            reload(service, options);
        } else if service.is_to_end(options.hand_over) {
            return true;
        }
    }
    false
}

/// When what recurs was done last, or is due.
struct Timers {
    verified: Instant,
    inventoried: Option<Instant>,
    /// When the paths are resolved again that have become stale.
    settles: Option<Instant>,
}

impl Timers {
    fn begin(now: Instant) -> Self {
        Self { verified: now, inventoried: None, settles: None }
    }

    /// How long the loop may wait for events. `opens`: when the service's socket is watched again.
    fn timeout(&self, service: &Service, opens: Option<Instant>) -> EpollTimeout {
        let now = Instant::now();
        let at_once = (service.lanes.has_dying() || service.paths.is_refreshing()).then_some(now);
        let due = [
            Some(self.verified + VERIFY_EVERY),
            at_once,
            self.settles,
            opens,
            service.lanes.next_look_at_remains(),
            service.clients.next_awakening(),
            service.next_farewell(),
        ];
        let due = due.into_iter().flatten().min();
        let wait = due.map_or(VERIFY_EVERY, |due| due.saturating_duration_since(now));
        // Rounded up, so that what is due is due when the loop wakes.
        EpollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(EpollTimeout::ZERO)
    }

    /// Does what is due.
    fn run(&mut self, service: &mut Service, now: Instant) {
        if now >= self.verified + VERIFY_EVERY {
            self.verified = now;
            service.verify(now);
        }
        if service.paths.inventory_is_stale && self.inventoried.is_none_or(|at| now >= at + VERIFY_EVERY) {
            self.inventoried = Some(now);
            service.catch_up_with_host();
        }
        if service.paths.are_stale && self.settles.is_none() {
            self.settles = Some(now + SETTLE);
        }
        if self.settles.is_some_and(|due| due <= now) {
            self.settles = None;
            service.paths.begin_refresh();
        }
    }
}

/// Applies new limits; all other settings need a restart.
fn reload(service: &mut Service, options: &RunOptions) {
    match configuration(options) {
        Ok(config) => {
            service.ledger.usage.set_limits(config.limits);
            service.config.limits = config.limits;
            tracing::info!("limits read anew; other settings take effect at the next start");
        }
        Err(error) => tracing::error!(%error, "the configuration was not read anew"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_room_for_all_connections_and_for_what_the_loop_watches_itself() {
        // The last token of the loop's own is `LANES`. Root has more than `limits.connections`.
        for connections in [0, 1, 700, 3000] {
            assert!(events_at_once(connections) > connections + LANES as usize);
        }
    }
}
