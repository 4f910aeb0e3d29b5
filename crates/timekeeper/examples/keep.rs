//! Keeps a clock, as `tickwire clock run` does: for the lab, and where there is no such command.
//!
//!     keep [--poll SECONDS] [--page FILE] [--for SECONDS] SERVER...
//!     keep --status [--page FILE]
//!
//! Without `--page` the page is the service's. With `--status` it prints the report of the daemon
//! that writes the page, as JSON.

use std::error::Error;
use std::thread;
use std::time::Duration;
use tickwire_timekeeper::config::PolledServer;
use tickwire_timekeeper::{TimekeeperConfig, ask, run};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Result<()> {
    let (config, task) = read(std::env::args().skip(1))?;
    if task.is_status {
        println!("{}", serde_json::to_string(&ask(&config.page)?)?);
        return Ok(());
    }
    config.check()?;
    let _ = tracing::subscriber::set_global_default(log::Lines);
    let (stop, stopper) = stop::new()?;
    // Without `--for` it runs until it is killed.
    let _unused = match task.length {
        Some(length) => {
            thread::spawn(move || {
                thread::sleep(length);
                stop::end(stopper);
            });
            None
        }
        None => Some(stopper),
    };
    Ok(run(&config, stop::signal(&stop))?)
}

/// What to do beside the configuration.
#[derive(Default)]
struct Task {
    is_status: bool,
    length: Option<Duration>,
}

fn read(mut arguments: impl Iterator<Item = String>) -> Result<(TimekeeperConfig, Task)> {
    let (mut config, mut task) = (TimekeeperConfig::default(), Task::default());
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} needs a value"));
        match &*argument {
            "--poll" => config.poll = value()?.parse()?,
            "--page" => config.page = value()?.into(),
            "--for" => task.length = Some(Duration::try_from_secs_f64(value()?.parse()?)?),
            "--status" => task.is_status = true,
            server => config.servers.push(PolledServer::named(server)?),
        }
    }
    Ok((config, task))
}

/// What ends the daemon.
#[cfg(unix)]
mod stop {
    use std::os::fd::{AsFd, OwnedFd};
    use tickwire_timekeeper::Stop;

    pub(super) fn new() -> std::io::Result<(OwnedFd, OwnedFd)> {
        Ok(nix::unistd::pipe()?)
    }

    pub(super) fn signal(stop: &OwnedFd) -> Stop<'_> {
        stop.as_fd()
    }

    pub(super) fn end(stopper: OwnedFd) {
        drop(stopper);
    }
}

/// What ends the daemon.
#[cfg(windows)]
mod stop {
    use std::os::windows::io::AsHandle;
    use std::sync::Arc;
    use tickwire_timekeeper::{Stop, StopEvent};

    pub(super) fn new() -> std::io::Result<(Arc<StopEvent>, Arc<StopEvent>)> {
        let event = Arc::new(StopEvent::new()?);
        Ok((event.clone(), event))
    }

    pub(super) fn signal(stop: &StopEvent) -> Stop<'_> {
        stop.as_handle()
    }

    pub(super) fn end(stopper: Arc<StopEvent>) {
        stopper.set();
    }
}

/// The daemon's log, as lines on standard error.
mod log {
    use std::fmt::{Debug, Write};
    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Level, Metadata, Subscriber};

    pub(super) struct Lines;

    impl Subscriber for Lines {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            *metadata.level() <= Level::INFO
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut line = Line(event.metadata().level().to_string());
            event.record(&mut line);
            eprintln!("{}", line.0);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    struct Line(String);

    impl Visit for Line {
        fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
            // It cannot fail: the line is memory.
            let _ = match field.name() {
                "message" => write!(self.0, " {value:?}"),
                name => write!(self.0, " {name}={value:?}"),
            };
        }
    }
}
