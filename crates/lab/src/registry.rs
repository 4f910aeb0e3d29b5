//! The registry of what must be removed, so that a drop, a signal and the next run all remove it
//! the same way. After a death without cleanup (SIGKILL), the guardian does.
//!
//! Everything of a lab carries the lab's name, `twlab-<process>-<number>`: the namespaces
//! `twlab-<process>-<number>-<host>` and the directory of the same name under the temporary
//! directory. A name whose process is gone is a leftover.

use crate::guardian::Guardian;
use crate::shell::run;
use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, Once, PoisonError};
use std::time::{Duration, Instant};

const PREFIX: &str = "twlab-";

/// The labs that live in this process.
#[derive(Debug)]
struct Live {
    names: Vec<String>,
    /// Present while there are labs.
    guardian: Option<Guardian>,
    /// Additional files to remove on a signal.
    files: Vec<PathBuf>,
}

static LIVE: Mutex<Live> = Mutex::new(Live { names: Vec::new(), guardian: None, files: Vec::new() });

fn live() -> MutexGuard<'static, Live> {
    LIVE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lab's entry in the registry. Dropping it removes the lab.
#[derive(Debug)]
pub(crate) struct Registration {
    name: String,
}

impl Registration {
    /// Registers a new lab. The first call installs the signal handler and sweeps leftovers.
    pub(crate) fn new() -> Result<Self> {
        static FIRST: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        FIRST.call_once(|| {
            // Without a handler, cleanup is left to the next run.
            let _ = await_signals();
            if let Ok(swept @ 1..) = sweep() {
                eprintln!("removed what killed runs had left: {swept} lab{}", if swept == 1 { "" } else { "s" });
            }
        });
        let mut live = live();
        if live.guardian.is_none() {
            live.guardian = Guardian::start(&format!("{PREFIX}{}-", std::process::id()), &std::env::temp_dir());
        }
        // No number is reused: a caller that checks whether a lab is gone would see the next one.
        let name = name(NEXT.fetch_add(1, Ordering::Relaxed));
        std::fs::create_dir_all(directory(&name))
            .with_context(|| format!("cannot create {}", directory(&name).display()))?;
        live.names.push(name.clone());
        Ok(Self { name })
    }

    /// The lab's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Where the lab keeps its sockets, logs and configuration.
    pub(crate) fn directory(&self) -> PathBuf {
        directory(&self.name)
    }

    /// Makes the namespace of a host and returns its name. After a signal has ended the labs, this
    /// blocks and makes none.
    pub(crate) fn add_namespace(&self, host: &str) -> Result<String> {
        let namespace = format!("{}-{host}", self.name);
        let _guard = live();
        run(&["ip", "netns", "add", &namespace])?;
        Ok(namespace)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        let mut live = live();
        remove(&self.name);
        live.names.retain(|name| *name != self.name);
        if live.names.is_empty() {
            live.guardian = None;
        }
    }
}

fn name(number: u32) -> String {
    format!("{PREFIX}{}-{number}", std::process::id())
}

fn directory(lab: &str) -> PathBuf {
    std::env::temp_dir().join(lab)
}

/// Also removes a file if a signal ends this process while it has labs.
pub fn remove_when_interrupted(file: PathBuf) {
    live().files.push(file);
}

/// Set once a signal has ended the labs of this process.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Must be called before a failure is reported. If Ctrl-C or SIGTERM is ending this process, the
/// failure is a consequence of that. This then waits for the end of the process, so that its caller
/// does not exit before all is removed.
pub fn wait_if_interrupted() {
    while INTERRUPTED.load(Ordering::Relaxed) {
        std::thread::park();
    }
}

/// Waits in a thread for a signal that ends this process.
fn await_signals() -> std::io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    let wait = move || {
        if let Some(signal) = signals.forever().next() {
            end_on_signal(signal);
        }
    };
    std::thread::Builder::new().spawn(wait).map(drop)
}

fn end_on_signal(signal: i32) {
    INTERRUPTED.store(true, Ordering::Relaxed);
    // The terminal's current line already contains output, and the `^C`.
    let start = if std::io::stderr().is_terminal() { "\n" } else { "" };
    eprintln!("{start}interrupted: removing the lab");
    // The lock is held until the process has ended, so no other thread creates anything new
    // meanwhile.
    let mut live = live();
    for lab in &live.names {
        remove(lab);
    }
    live.guardian = None;
    // Last, because the files show users the current state until now.
    for file in &live.files {
        let _ = std::fs::remove_file(file);
    }
    // As a shell reports it.
    std::process::exit(128 + signal);
}

/// Removes the labs of processes that no longer run; returns how many namespaces and directories
/// there were.
///
/// # Errors
/// The namespaces cannot be listed.
pub fn sweep() -> Result<usize> {
    let mut labs: Vec<String> = namespaces()?.into_iter().filter_map(|n| lab_of(&n)).collect();
    if let Ok(entries) = std::fs::read_dir(std::env::temp_dir()) {
        labs.extend(entries.flatten().filter_map(|e| lab_of(&e.file_name().to_string_lossy())));
    }
    labs.sort();
    labs.dedup();
    labs.retain(|lab| process_of(lab).is_some_and(|p| !Path::new(&format!("/proc/{p}")).exists()));
    for lab in &labs {
        remove(lab);
    }
    Ok(labs.len())
}

/// `twlab-12-0-a` and `twlab-12-0` belong to the lab `twlab-12-0`.
fn lab_of(name: &str) -> Option<String> {
    let mut parts = name.strip_prefix(PREFIX)?.split('-');
    let process: u32 = parts.next()?.parse().ok()?;
    let number: u32 = parts.next()?.parse().ok()?;
    Some(format!("{PREFIX}{process}-{number}"))
}

fn process_of(lab: &str) -> Option<u32> {
    lab.strip_prefix(PREFIX)?.split('-').next()?.parse().ok()
}

fn namespaces() -> Result<Vec<String>> {
    let listed = run(&["ip", "netns", "list"])?;
    Ok(listed.lines().filter_map(|l| l.split_whitespace().next()).map(str::to_owned).collect())
}

/// Ends every process of the lab's namespaces, then removes them and the directory. Best effort:
/// the next sweep removes what remains.
fn remove(lab: &str) {
    let prefix = format!("{lab}-");
    let mine: Vec<String> = namespaces().unwrap_or_default().into_iter().filter(|n| n.starts_with(&prefix)).collect();
    for (signal, timeout) in [(Signal::SIGTERM, Duration::from_secs(2)), (Signal::SIGKILL, Duration::from_secs(2))] {
        if end_processes(&mine, signal, timeout).is_ok() {
            break;
        }
    }
    for namespace in &mine {
        let _ = run(&["ip", "netns", "delete", namespace]);
    }
    let _ = std::fs::remove_dir_all(directory(lab));
}

fn end_processes(namespaces: &[String], signal: Signal, timeout: Duration) -> Result<()> {
    let until = Instant::now() + timeout;
    let mut told = Vec::new();
    loop {
        let pids: Vec<i32> = namespaces.iter().flat_map(|n| processes(n)).collect();
        if pids.is_empty() {
            return Ok(());
        }
        for pid in pids {
            if !told.contains(&pid) {
                let _ = kill(Pid::from_raw(pid), signal);
                told.push(pid);
            }
        }
        if Instant::now() > until {
            bail!("processes remain");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The processes inside a namespace that have not exited (a zombie only waits to be reaped by its
/// parent).
fn processes(namespace: &str) -> Vec<i32> {
    let listed = run(&["ip", "netns", "pids", namespace]).unwrap_or_default();
    let me = i32::try_from(std::process::id()).unwrap_or(-1);
    listed.split_whitespace().filter_map(|p| p.parse().ok()).filter(|p| *p != me && !is_zombie(*p)).collect()
}

fn is_zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The state follows the name, which is in parentheses and may itself contain some.
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with('Z'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_which_lab_and_process_they_belong_to() {
        assert_eq!(lab_of("twlab-12-0-a").as_deref(), Some("twlab-12-0"));
        assert_eq!(lab_of("twlab-12-3").as_deref(), Some("twlab-12-3"));
        assert_eq!(process_of("twlab-12-3"), Some(12));
        assert_eq!(lab_of("twlab-x-3"), None);
        assert_eq!(lab_of("other"), None);
    }
}
