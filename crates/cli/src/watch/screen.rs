//! The terminal, which is restored however the program ends.

use super::draw;
use super::snapshot::{Snapshot, Sources};
use super::view::{Meaning, View};
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event};
use std::fs::File;
use std::io::{ErrorKind, IsTerminal};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

/// The polling interval in milliseconds for a new snapshot, a resize or a signal.
const LOOK: u16 = 50;

/// Shows snapshots until a key or a signal ends it.
pub(super) fn run(sources: Sources, interval: Duration) -> Result<()> {
    let told = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&told);
    ctrlc::set_handler(move || tell.store(true, Ordering::Relaxed)).context("cannot wait for signals")?;
    // A thread of its own takes the snapshots: it may block on a service that is stuck, and keys
    // must not wait for that.
    let (sender, snapshots) = sync_channel(1);
    std::thread::spawn(move || look(&sources, interval, &sender));
    // On a panic, ratatui's hook restores the terminal before the message is printed.
    let terminal = ratatui::try_init().context("cannot use this terminal")?;
    let keys = keys().context("cannot read from this terminal")?;
    let mut screen = Screen { terminal, keys, snapshot: None, view: View::default(), interval };
    let outcome = screen.show(&snapshots, &told);
    if screen.is_gone(0)? {
        // The terminal cannot be restored. The attempt would print an error to standard error,
        // which is this terminal, and so panic twice.
        std::process::exit(0);
    }
    drop(screen);
    outcome
}

/// Takes a snapshot every interval, until the receiver is gone.
fn look(sources: &Sources, interval: Duration, to: &SyncSender<Snapshot>) {
    while to.send(sources.look()).is_ok() {
        std::thread::sleep(interval);
    }
}

/// The terminal for keys, chosen as crossterm does.
fn keys() -> std::io::Result<OwnedFd> {
    let input = std::io::stdin();
    if input.is_terminal() { input.as_fd().try_clone_to_owned() } else { File::open("/dev/tty").map(OwnedFd::from) }
}

struct Screen {
    terminal: DefaultTerminal,
    keys: OwnedFd,
    /// The latest snapshot, and when it was received.
    snapshot: Option<(Snapshot, Instant)>,
    view: View,
    interval: Duration,
}

impl Drop for Screen {
    fn drop(&mut self) {
        // If the terminal is gone, it cannot be restored, and the error cannot be shown.
        let _ = ratatui::try_restore();
    }
}

impl Screen {
    fn show(&mut self, snapshots: &Receiver<Snapshot>, told: &AtomicBool) -> Result<()> {
        let mut changed = true;
        let mut old = None;
        while !told.load(Ordering::Relaxed) {
            match snapshots.try_recv() {
                Ok(snapshot) => {
                    self.snapshot = Some((snapshot, Instant::now()));
                    changed = true;
                }
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => bail!("the thread that reads the figures has ended"),
            }
            // The age grows while no new snapshot arrives.
            let age = self.old();
            changed |= age != old;
            old = age;
            if changed {
                self.draw(age)?;
            }
            if self.is_gone(LOOK)? {
                return Ok(());
            }
            changed = match self.event()? {
                None => false,
                Some(Event::Key(key)) => match self.view.key(key) {
                    Meaning::Quit => return Ok(()),
                    Meaning::Changed => true,
                    Meaning::Nothing => false,
                },
                // A resize, for one.
                Some(_) => true,
            };
        }
        Ok(())
    }

    /// How old the snapshot is in seconds, if the next one is overdue.
    fn old(&self) -> Option<u64> {
        let age = self.snapshot.as_ref()?.1.elapsed();
        (age > 2 * self.interval + Duration::from_secs(1)).then_some(age.as_secs())
    }

    /// Waits up to `wait` milliseconds for a key, and returns whether the terminal is gone. On a
    /// terminal that is gone, crossterm would read the end of file in an endless loop.
    fn is_gone(&self, wait: u16) -> Result<bool> {
        let mut keys = [PollFd::new(self.keys.as_fd(), PollFlags::POLLIN)];
        match poll(&mut keys, PollTimeout::from(wait)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for this terminal"),
        }
        let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
        Ok(keys[0].revents().is_some_and(|what| what.intersects(gone)))
    }

    fn event(&self) -> Result<Option<Event>> {
        let waited = event::poll(Duration::ZERO).and_then(|some| if some { event::read().map(Some) } else { Ok(None) });
        match waited {
            // A signal; the caller checks its flag next.
            Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
            other => other.context("cannot read from this terminal"),
        }
    }

    fn draw(&mut self, old_s: Option<u64>) -> Result<()> {
        let mut extents = Default::default();
        let (snapshot, view) = (self.snapshot.as_ref().map(|(snapshot, _)| snapshot), &self.view);
        let frame = |frame: &mut ratatui::Frame<'_>| {
            let area = frame.area();
            extents = draw::page(frame.buffer_mut(), area, snapshot, view, old_s);
        };
        self.terminal.draw(frame).context("cannot write to this terminal")?;
        self.view.settle(extents);
        Ok(())
    }
}
