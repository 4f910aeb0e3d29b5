//! The loads during the readings. A load ends when its `Running` value is dropped.

use serde::Serialize;
use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// A kind of load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CounterLoad {
    /// No load by this program.
    Idle,
    /// A thread for each processor that computes and accesses more memory than the caches hold.
    Cpu,
    /// Datagrams over the loopback interface, as fast as possible.
    Network,
}

impl CounterLoad {
    /// All loads, in the order of a study.
    pub const ALL: [Self; 3] = [Self::Idle, Self::Cpu, Self::Network];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Cpu => "CPU load",
            Self::Network => "network load",
        }
    }

    /// Starts the load.
    pub(crate) fn begin(self) -> std::io::Result<Running> {
        let mut running = Running { stop: Arc::default(), threads: Vec::new() };
        match self {
            Self::Idle => {}
            Self::Cpu => {
                for _ in 0..thread::available_parallelism()?.get() {
                    running.spawn(compute);
                }
            }
            Self::Network => {
                let receiver = UdpSocket::bind(("127.0.0.1", 0))?;
                receiver.set_read_timeout(Some(Duration::from_millis(20)))?;
                let sender = UdpSocket::bind(("127.0.0.1", 0))?;
                sender.connect(receiver.local_addr()?)?;
                running.spawn(move |stop| {
                    while !stop.load(Ordering::Relaxed) {
                        let _ = sender.send(&[0; 1400]);
                    }
                });
                running.spawn(move |stop| {
                    let mut buffer = [0; 2048];
                    while !stop.load(Ordering::Relaxed) {
                        let _ = receiver.recv(&mut buffer);
                    }
                });
            }
        }
        Ok(running)
    }
}

/// A load that runs until this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Running {
    fn spawn(&mut self, work: impl FnOnce(&AtomicBool) + Send + 'static) {
        let stop = Arc::clone(&self.stop);
        self.threads.push(thread::spawn(move || work(&stop)));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

fn compute(stop: &AtomicBool) {
    const WORDS: usize = 4 << 20;
    let mut memory = vec![1_u64; WORDS];
    let mut at = 0_usize;
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..4096 {
            at = (at.wrapping_mul(5).wrapping_add(0x9e37_79b9)) % WORDS;
            memory[at] = memory[at].wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
        }
    }
    std::hint::black_box(&memory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_load_begins_and_ends() {
        for load in CounterLoad::ALL {
            let running = load.begin().unwrap();
            assert_eq!(running.threads.is_empty(), load == CounterLoad::Idle);
            drop(running);
        }
    }
}
