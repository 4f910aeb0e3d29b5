//! `tickwire watch` on a terminal, which it restores. No service and no root needed.
#![cfg(unix)]

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::pty::{OpenptyResult, Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const TIMEOUT: Duration = Duration::from_secs(20);
/// Enters the alternate screen, leaves it, and shows the cursor again.
const ENTER: &str = "\x1b[?1049h";
const LEAVE: &str = "\x1b[?1049l";
const CURSOR: &str = "\x1b[?25h";

struct Watched {
    child: Child,
    keys: File,
    terminal: OwnedFd,
    before: Termios,
    said: Arc<Mutex<String>>,
}

fn terminal(columns: u16, rows: u16) -> OpenptyResult {
    let pair = openpty(&Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }, None).unwrap();
    // Otherwise the child inherits the terminal's other end, and the terminal never hangs up.
    fcntl(&pair.master, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).unwrap();
    pair
}

fn spawn(terminal: &OpenptyResult) -> Child {
    let end = || terminal.slave.try_clone().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_tickwire"));
    command.args(["watch", "--socket", "/nonexistent/s.sock", "--page", "/nonexistent/clock"]);
    command.env("TERM", "xterm").stdin(end()).stdout(end()).stderr(end()).spawn().unwrap()
}

impl Watched {
    /// On a terminal of this size.
    fn start(columns: u16, rows: u16) -> Self {
        let pair = terminal(columns, rows);
        let before = tcgetattr(&pair.slave).unwrap();
        let child = spawn(&pair);
        let said = Arc::default();
        let heard = Arc::clone(&said);
        let mut screen = File::from(pair.master.try_clone().unwrap());
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                let heard: &Mutex<String> = &heard;
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        Self { child, keys: pair.master.into(), terminal: pair.slave, before, said }
    }

    fn wait_for(&self, words: &str) {
        let until = Instant::now() + TIMEOUT;
        while !self.said.lock().unwrap().contains(words) {
            assert!(Instant::now() < until, "{words}: {:?}", self.said.lock().unwrap());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Checks its exit status, and that the terminal is restored.
    fn ended(mut self) {
        let until = Instant::now() + TIMEOUT;
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            if Instant::now() > until {
                self.child.kill().unwrap();
                panic!("it did not end: {:?}", self.said.lock().unwrap());
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(status.code(), Some(0), "{:?}", self.said.lock().unwrap());
        self.wait_for(LEAVE);
        self.wait_for(CURSOR);
        assert!(tcgetattr(&self.terminal).unwrap() == self.before, "the terminal's modes are as they were");
    }
}

#[test]
fn keys_are_understood_and_the_terminal_is_given_back() {
    for key in ["q", "\x03", "\x1b"] {
        let mut watched = Watched::start(80, 24);
        watched.wait_for(ENTER);
        watched.wait_for("Clock");
        assert!(tcgetattr(&watched.terminal).unwrap() != watched.before, "raw");
        // Blanks in cells that were empty before are not drawn.
        watched.wait_for("`tickwire");
        watched.keys.write_all(b"?").unwrap();
        watched.wait_for("Ctrl-C");
        watched.keys.write_all(b"x").unwrap();
        watched.keys.write_all(key.as_bytes()).unwrap();
        watched.ended();
    }
}

#[test]
fn a_signal_ends_it_and_the_terminal_is_given_back() {
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGHUP] {
        let watched = Watched::start(60, 20);
        watched.wait_for("Clock");
        kill(Pid::from_raw(i32::try_from(watched.child.id()).unwrap()), signal).unwrap();
        watched.ended();
    }
}

/// As if a window is closed, or a connection breaks.
#[test]
fn a_terminal_that_goes_away_ends_it() {
    let pair = terminal(80, 24);
    let mut child = spawn(&pair);
    let (mut screen, mut said) = (File::from(pair.master), String::new());
    while !said.contains("Clock") {
        let mut bytes = [0; 4096];
        let count = screen.read(&mut bytes).unwrap();
        said += &String::from_utf8_lossy(&bytes[..count]);
    }
    drop(screen);
    let until = Instant::now() + TIMEOUT;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > until {
            child.kill().unwrap();
            panic!("it did not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(0), "{status}");
}
