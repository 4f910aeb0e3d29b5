//! A program that nothing is done to: it goes on while others are killed.

use super::{TIMEOUT, peer, start_server};
use crate::windows::lab::Hosts;
use crate::windows::wine_process::WineProcess;
use anyhow::{Context, Result, bail};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
use tickwire_lab::Process;

/// Its port.
const PORT: u16 = 5002;

/// Between two messages.
const PAUSE: Duration = Duration::from_millis(1);

#[derive(Debug, Default)]
struct Seen {
    exchanges: AtomicU64,
    ends: AtomicBool,
    /// The longest time that a message took, in microseconds.
    slowest_us: AtomicU64,
    error: Mutex<Option<String>>,
}

/// A server on the lane with one connection, on which messages are exchanged all the time.
pub(super) struct Bystander {
    server: Process,
    /// The program itself, which outlives `tickwire run`, until it has ended.
    program: Option<WineProcess>,
    seen: Arc<Seen>,
    thread: Option<JoinHandle<()>>,
}

impl Bystander {
    pub(super) fn start(hosts: &Hosts) -> Result<Self> {
        let server = start_server(hosts, PORT)?;
        let address = hosts.pair.a_v4();
        let program = Some(hosts.wine.process(&["stress.exe", "server", &address, &PORT.to_string()])?);
        let mut stream = hosts.pair.b.within(|| peer::connect(&address, PORT, b'e', u64::MAX))??;
        let seen = Arc::new(Seen::default());
        let own = Arc::clone(&seen);
        let thread = thread::spawn(move || {
            while !own.ends.load(SeqCst) {
                let begin = Instant::now();
                if let Err(error) = peer::exchange(&mut stream, &[own.exchanges.load(SeqCst) as u8; 100]) {
                    *own.error.lock().expect("no thread panics with it") = Some(format!("{error:#}"));
                    return;
                }
                own.slowest_us.fetch_max(begin.elapsed().as_micros() as u64, SeqCst);
                own.exchanges.fetch_add(1, SeqCst);
                thread::sleep(PAUSE);
            }
        });
        Ok(Self { server, program, seen, thread: Some(thread) })
    }

    /// How many messages it has exchanged.
    ///
    /// # Errors
    /// If one has failed.
    pub(super) fn exchanges(&self) -> Result<u64> {
        match &*self.seen.error.lock().expect("no thread panics with it") {
            Some(error) => bail!("another program: {error}"),
            None => Ok(self.seen.exchanges.load(SeqCst)),
        }
    }

    /// The longest time that one of its messages took.
    pub(super) fn slowest(&self) -> Duration {
        Duration::from_micros(self.seen.slowest_us.load(SeqCst))
    }

    /// The service is gone: its connection ends, and then the program.
    pub(super) fn ends(&mut self, timeout: Duration) -> Result<()> {
        self.server.wait(timeout).context("a program goes on without its lane")?;
        self.program = None;
        self.stop();
        match self.exchanges() {
            Ok(_) => bail!("a connection outlives the service"),
            Err(_) => Ok(()),
        }
    }

    fn stop(&mut self) {
        self.seen.ends.store(true, SeqCst);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Bystander {
    fn drop(&mut self) {
        self.stop();
        if let Some(program) = self.program.take() {
            let _ = program.kill();
            // Its port is free then.
            let _ = self.server.wait(TIMEOUT);
        }
    }
}
