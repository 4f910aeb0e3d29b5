//! `tickwire clock` beside a time server of the test's own, over loopback.

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// An NTP server that tells the host's own time, to whoever asks, until it is to be silent.
struct Server {
    address: String,
    silent: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let silent = Arc::new(AtomicBool::new(false));
        let hush = Arc::clone(&silent);
        // It ends with the process.
        std::thread::spawn(move || {
            let mut request = [0; 1024];
            while let Ok((length, client)) = socket.recv_from(&mut request) {
                if length >= 48 && !hush.load(Ordering::Relaxed) {
                    socket.send_to(&answer(&request), client).unwrap();
                }
            }
        });
        Self { address, silent }
    }
}

/// Version 4, mode 4, stratum 1, its stamps (RFC 5905 §7.3).
fn answer(request: &[u8]) -> [u8; 48] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let seconds = (now.as_secs() + 2_208_988_800) << 32;
    let stamp = (seconds | ((u64::from(now.subsec_nanos()) << 32) / 1_000_000_000)).to_be_bytes();
    let mut answer = [0; 48];
    answer[..2].copy_from_slice(&[4 << 3 | 4, 1]);
    answer[12..16].copy_from_slice(b"TEST");
    answer[24..32].copy_from_slice(&request[40..48]);
    answer[32..40].copy_from_slice(&stamp);
    answer[40..].copy_from_slice(&stamp);
    answer
}

/// A daemon, its page and its log.
struct Daemon {
    directory: TempDir,
    process: Child,
    log: BufReader<std::process::ChildStderr>,
}

impl Daemon {
    fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let page = directory.path().join("clock");
        // A file of its own: the host's does not count.
        let config = directory.path().join("clock.toml");
        std::fs::write(&config, "").unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_tickwire"))
            .args(["clock", "run", "--poll", "0.05", "--page"])
            .arg(&page)
            .arg("--config")
            .arg(&config)
            .args(arguments)
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        Self { directory, process, log }
    }

    /// The next line of the log that says this.
    fn says(&mut self, what: &str) -> String {
        let mut all = String::new();
        loop {
            let mut line = String::new();
            assert_ne!(self.log.read_line(&mut line).unwrap(), 0, "it says no {what:?}: {all}");
            if line.contains(what) {
                return line;
            }
            all += &line;
        }
    }

    fn ask(&self, command: &[&str]) -> Output {
        let page = self.directory.path().join("clock");
        Command::new(env!("CARGO_BIN_EXE_tickwire"))
            .arg("clock")
            .args(command)
            .arg("--page")
            .arg(page)
            .output()
            .unwrap()
    }

    fn said(&self, command: &[&str]) -> String {
        String::from_utf8(self.ask(command).stdout).unwrap()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn what_is_not_known_yet_is_said_to_be_so() {
    let server = Server::start();
    server.silent.store(true, Ordering::Relaxed);
    let mut daemon = Daemon::start(&["--server", &server.address]);
    daemon.says("asking");
    let status = daemon.said(&["status"]);
    assert!(status.contains("time           not known yet") && status.contains("not yet known"), "{status}");
    assert!(!status.contains(" 0.000 ns") && !status.contains("ppm"), "{status}");
    let json: serde_json::Value = serde_json::from_str(&daemon.said(&["status", "--json"])).unwrap();
    for key in ["utc_ns", "error_ns", "bound_ns", "period_ns", "long_period_ns"] {
        assert!(json[key].is_null(), "{key}: {json}");
    }
    assert!(json["nominal_period_ns"].as_f64().unwrap() > 0.0);
}

#[test]
fn counts_are_converted_line_by_line_and_a_clock_that_nobody_keeps_is_told() {
    use std::io::Write;
    let server = Server::start();
    let mut daemon = Daemon::start(&["--server", &server.address]);
    daemon.says("synchronised");
    let page = daemon.directory.path().join("clock");
    let convert = |input: &str| {
        let mut convert = Command::new(env!("CARGO_BIN_EXE_tickwire"))
            .args(["clock", "convert", "--page"])
            .arg(&page)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        convert.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
        let Output { status, stdout, stderr } = convert.wait_with_output().unwrap();
        let lines = String::from_utf8(stdout).unwrap().lines().count();
        (status.code(), lines, String::from_utf8(stderr).unwrap())
    };
    let read = String::from_utf8(daemon.ask(&["read", "--json"]).stdout).unwrap();
    let count = serde_json::from_str::<serde_json::Value>(&read).unwrap()["counter"].to_string();
    assert_eq!(convert(&format!("{count}\n\n {count} \n")), (Some(0), 2, String::new()));
    let (status, lines, said) = convert(&format!("{count}\nsoon\n{count}\n"));
    assert_eq!((status, lines), (Some(1), 1));
    assert!(
        said.starts_with("tickwire: line 2: \"soon\" is no value of the counter: expected") && !said.contains("digit"),
        "{said}"
    );
    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    // What was published is fresh for five seconds.
    let stale = (0..100).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let (status, lines, said) = convert(&format!("{count}\n"));
        assert_eq!((status, lines), (Some(0), 1));
        Some(said).filter(|said| !said.is_empty())
    });
    assert!(stale.is_some_and(|said| said.starts_with("tickwire: the clock is stale: no daemon keeps it")));
}

#[test]
fn the_log_tells_each_change_and_the_end() {
    let server = Server::start();
    let mut daemon = Daemon::start(&["--server", &server.address]);
    assert!(daemon.says("synchronised").contains("server=127.0.0.1"));
    server.silent.store(true, Ordering::Relaxed);
    assert!(daemon.says("the server is silent").contains("server=127.0.0.1"));
    daemon.says("holdover");
    let sources = daemon.said(&["sources"]);
    let line = sources.lines().nth(1).unwrap();
    assert!(line.trim_start().starts_with("? ") && line.contains(&server.address), "{sources}");
    assert!(
        sources.contains("? silent") && sources.contains(&format!("{}: does not answer", server.address)),
        "{sources}"
    );
    assert!(daemon.said(&["status"]).contains("following      nobody"));
    server.silent.store(false, Ordering::Relaxed);
    daemon.says("the server is back");
    daemon.says("synchronised");
    let pid = nix::unistd::Pid::from_raw(daemon.process.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    daemon.says("the clock ends");
    assert_eq!(daemon.process.wait().unwrap().code(), Some(0));
    let mut rest = String::new();
    daemon.log.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}
