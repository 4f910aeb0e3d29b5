//! A program running in the lab.

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A running program whose output is collected; killed when dropped.
#[derive(Debug)]
pub struct Process {
    child: Child,
    shown: String,
    stdout: Stream,
    stderr: Stream,
}

/// The result of a program that has ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// Its exit status.
    pub status: ExitStatus,
    /// All that it wrote on standard output.
    pub stdout: String,
    /// All that it wrote on standard error.
    pub stderr: String,
}

/// One output of a program, collected by a thread.
#[derive(Debug)]
struct Stream(Arc<Collected>);

#[derive(Debug, Default)]
struct Collected {
    so_far: Mutex<SoFar>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct SoFar {
    bytes: Vec<u8>,
    ended: bool,
}

impl Stream {
    fn collect(mut from: impl Read + Send + 'static) -> Self {
        let collected = Arc::new(Collected::default());
        let into = Arc::clone(&collected);
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = from.read(&mut buffer) {
                into.lock().bytes.extend_from_slice(&buffer[..count]);
            }
            into.lock().ended = true;
            into.ended.notify_all();
        });
        Self(collected)
    }

    fn so_far(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().bytes).into_owned()
    }

    /// Sleeps until the stream ends, for at most `timeout`: a grandchild may hold it open for
    /// longer than the program lives.
    fn wait(&self, timeout: Duration) {
        let running = |so_far: &mut SoFar| !so_far.ended;
        drop(self.0.ended.wait_timeout_while(self.0.lock(), timeout, running));
    }

    fn finish(&self) -> String {
        self.wait(Duration::from_millis(500));
        self.so_far()
    }
}

impl Collected {
    fn lock(&self) -> MutexGuard<'_, SoFar> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Process {
    /// Starts a command with no standard input and its output collected.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn spawn(mut command: Command) -> Result<Self> {
        let shown = crate::shell::shown(&command);
        let mut child = command
            // Ctrl-C reaches only the lab, which then ends its programs.
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start `{shown}`"))?;
        let stdout = Stream::collect(child.stdout.take().context("no standard output")?);
        let stderr = Stream::collect(child.stderr.take().context("no standard error")?);
        Ok(Self { child, shown, stdout, stderr })
    }

    /// Its process number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// It is no longer there.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let pid = Pid::from_raw(i32::try_from(self.id()).context("process number")?);
        kill(pid, signal).with_context(|| format!("cannot signal `{}`", self.shown))
    }

    /// Its standard output so far.
    #[must_use]
    pub fn stdout(&self) -> String {
        self.stdout.so_far()
    }

    /// Its standard error so far.
    #[must_use]
    pub fn stderr(&self) -> String {
        self.stderr.so_far()
    }

    /// Whether it still runs.
    ///
    /// # Errors
    /// Its state cannot be read.
    pub fn is_running(&mut self) -> Result<bool> {
        Ok(self.child.try_wait()?.is_none())
    }

    /// Waits until it ends by itself, for at most `timeout`; then it is killed, which is an error.
    ///
    /// # Errors
    /// It did not end in time.
    pub fn wait(&mut self, timeout: Duration) -> Result<Ended> {
        let until = Instant::now() + timeout;
        // A program usually ends with its output. Sleep until then: polling would take processor
        // time from what is measured.
        self.stdout.wait(timeout);
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Ok(Ended { status, stdout: self.stdout.finish(), stderr: self.stderr.finish() });
            }
            if Instant::now() > until {
                self.kill();
                bail!(
                    "`{}` did not end within {timeout:?}; standard output: {} standard error: {}",
                    self.shown,
                    self.stdout.finish(),
                    self.stderr.finish()
                );
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Like [`Process::wait`], but anything except success is an error; returns standard output.
    ///
    /// # Errors
    /// It did not end in time or did not succeed.
    pub fn success(&mut self, timeout: Duration) -> Result<String> {
        let ended = self.wait(timeout)?;
        if !ended.status.success() {
            bail!("`{}` failed ({}): {}{}", self.shown, ended.status, ended.stderr.trim(), ended.stdout.trim());
        }
        Ok(ended.stdout)
    }

    /// Waits until its output (either stream) contains `text`.
    ///
    /// # Errors
    /// It ended, or the text did not appear in time.
    pub fn wait_for(&mut self, text: &str, timeout: Duration) -> Result<()> {
        let until = Instant::now() + timeout;
        loop {
            let running = self.is_running()?;
            if self.stdout().contains(text) || self.stderr().contains(text) {
                return Ok(());
            }
            if !running || Instant::now() > until {
                // Its last output may not have been read yet.
                let said =
                    [&self.stdout, &self.stderr].map(|stream| if running { stream.so_far() } else { stream.finish() });
                if said.iter().any(|said| said.contains(text)) {
                    return Ok(());
                }
                bail!("`{}` never said {text:?}; it said: {}", self.shown, said.concat());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Suspends it (SIGSTOP), and waits until each of its threads is stopped: until a thread is
    /// scheduled to take the signal, the others go on. SIGCONT resumes it.
    ///
    /// # Errors
    /// It is gone, or does not stop in time.
    pub fn suspend(&self) -> Result<()> {
        self.signal(Signal::SIGSTOP)?;
        let until = Instant::now() + Duration::from_secs(10);
        while !self.is_suspended()? {
            if Instant::now() > until {
                bail!("`{}` did not stop within 10 s", self.shown);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Whether each of its threads is stopped.
    fn is_suspended(&self) -> Result<bool> {
        for thread in std::fs::read_dir(format!("/proc/{}/task", self.child.id()))? {
            let status = std::fs::read_to_string(thread?.path().join("status"))?;
            if !status.lines().any(|line| line.starts_with("State:\tT")) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends SIGTERM, and kills it if it has not ended in time.
    ///
    /// # Errors
    /// It had to be killed.
    pub fn stop(&mut self, timeout: Duration) -> Result<Ended> {
        let _ = self.signal(Signal::SIGTERM);
        self.wait(timeout)
    }

    /// Kills it (SIGKILL) and waits until it is gone.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}
