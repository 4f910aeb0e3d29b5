//! `tickwire clock` with a time server of the test's own, over loopback.
#![cfg(unix)]

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use tempfile::TempDir;

/// An NTP server that answers every client with the host's own time, until it is silenced.
struct Server {
    address: String,
    silent: Arc<AtomicBool>,
    unsynchronised: Arc<AtomicBool>,
}

impl Server {
    fn start() -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = socket.local_addr().unwrap().to_string();
        let silent = Arc::new(AtomicBool::new(false));
        let unsynchronised = Arc::new(AtomicBool::new(false));
        let (hush, lost) = (Arc::clone(&silent), Arc::clone(&unsynchronised));
        // It ends with the process.
        std::thread::spawn(move || {
            let mut request = [0; 1024];
            while let Ok((length, client)) = socket.recv_from(&mut request) {
                if length >= 48 && !hush.load(Ordering::Relaxed) {
                    let mut answer = answer(&request);
                    if lost.load(Ordering::Relaxed) {
                        // Leap indicator 3: its clock is not synchronised.
                        answer[0] |= 3 << 6;
                    }
                    socket.send_to(&answer, client).unwrap();
                }
            }
        });
        Self { address, silent, unsynchronised }
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
    log: BufReader<ChildStderr>,
}

fn spawn(directory: &Path, arguments: &[&str]) -> (Child, BufReader<ChildStderr>) {
    let mut process = Command::new(env!("CARGO_BIN_EXE_tickwire"))
        .args(["clock", "run", "--poll", "0.05", "--page"])
        .arg(directory.join("clock"))
        .arg("--config")
        .arg(directory.join("clock.toml"))
        .args(arguments)
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(process.stderr.take().unwrap());
    (process, log)
}

impl Daemon {
    fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        // A configuration file of its own, instead of the host's.
        std::fs::write(directory.path().join("clock.toml"), "").unwrap();
        let (process, log) = spawn(directory.path(), arguments);
        Self { directory, process, log }
    }

    /// Replaces the daemon by another one.
    fn run(&mut self, arguments: &[&str]) {
        (self.process, self.log) = spawn(self.directory.path(), arguments);
    }

    /// The next line of the log that contains this.
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
    for key in ["tai_utc_s", "leap_at_utc_ns", "skew_ppm", "stratum", "root_delay_ns"] {
        assert!(json.as_object().unwrap().contains_key(key) && json[key].is_null(), "{key}: {json}");
    }
    assert_eq!(json["status"][0], "unknown", "{json}");
    let source = &json["sources"][0];
    for key in
        ["last_s", "stratum", "offset_ns", "bound_ns", "error_ns", "frequency_ppm", "skew_ppm", "stamps", "interleaved"]
    {
        assert!(source.as_object().unwrap().contains_key(key) && source[key].is_null(), "{key}: {source}");
    }
    let read = daemon.ask(&["read", "--json"]);
    assert_eq!(read.status.code(), Some(3));
    let read: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    for key in ["utc_ns", "earliest_ns", "latest_ns", "error_ns", "bound_ns", "tai_utc_s"] {
        assert!(read.as_object().unwrap().contains_key(key) && read[key].is_null(), "{key}: {read}");
    }
    assert_eq!(read["status"], serde_json::json!(["unknown"]));
    assert!(read["age_ns"].as_i64().unwrap() > 0, "when it was published is known: {read}");
    let said = daemon.said(&["read"]);
    assert!(said.starts_with("the time is not known: no server has answered yet"), "{said}");
}

#[test]
fn a_page_on_which_nothing_was_published_has_no_age() {
    let directory = tempfile::tempdir().unwrap();
    let page = directory.path().join("clock");
    let _writer = tickclock::Writer::create(&page, tickclock::CounterKind::MonotonicRaw).unwrap();
    let read = tickwire(&["read", "--json", "--page", page.to_str().unwrap()]);
    let read: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    assert!(read["age_ns"].is_null() && read["status"][0] == "unknown", "{read}");
}

fn tickwire(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tickwire")).arg("clock").args(arguments).output().unwrap()
}

/// After `clock wait` has timed out, the user wants to know why the clock is not good enough.
#[test]
fn a_wait_that_times_out_says_why() {
    let lacking = |daemon: &Daemon, bound: &str| {
        let Output { status, stderr, .. } = daemon.ask(&["wait", "--bound", bound, "--timeout", "0.2"]);
        assert_eq!(status.code(), Some(3));
        String::from_utf8(stderr).unwrap()
    };
    let server = Server::start();
    server.silent.store(true, Ordering::Relaxed);
    let mut daemon = Daemon::start(&["--server", &server.address]);
    daemon.says("asking");
    let said = lacking(&daemon, "1000");
    let expected = format!(" s the time is still not known; {}: does not answer\n", server.address);
    assert!(said.starts_with("tickwire: after 0.2") && said.ends_with(&expected), "{said}");
    server.silent.store(false, Ordering::Relaxed);
    daemon.says("synchronised");
    let said = lacking(&daemon, "0.001");
    assert!(
        said.contains("the bound is still ") && said.contains(", more than the 1 ns that were asked for"),
        "{said}"
    );
    assert!(said.contains(&format!("with {} it cannot be below ", server.address)), "{said}");
    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    let begin = std::time::Instant::now();
    let said = loop {
        let Output { status, stderr, .. } = daemon.ask(&["wait", "--bound", "1e9", "--timeout", "0.1"]);
        if status.code() == Some(3) {
            break String::from_utf8(stderr).unwrap();
        }
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "it is never stale");
    };
    assert!(said.contains(": no daemon keeps the clock at ") && said.contains("start `tickwire service`"), "{said}");
    assert!(begin.elapsed() < std::time::Duration::from_secs(7), "as the manual says: {:?}", begin.elapsed());
    let nowhere = tickwire(&["wait", "--page", "/nonexistent/clock", "--timeout", "0.1"]);
    let said = String::from_utf8(nowhere.stderr).unwrap();
    assert!(said.contains("there is still no clock at /nonexistent/clock: start `tickwire service`"), "{said}");
}

#[test]
fn a_clock_that_does_not_start_neither_says_that_it_does_nor_leaves_a_page() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let directory = tempfile::tempdir().unwrap();
    let settings = format!("[clock]\nmetrics = \"{}\"\n", taken.local_addr().unwrap());
    std::fs::write(directory.path().join("clock.toml"), settings).unwrap();
    let (mut process, mut log) = spawn(directory.path(), &["--server", "127.0.0.1:9"]);
    let mut said = String::new();
    log.read_to_string(&mut said).unwrap();
    assert_eq!(process.wait().unwrap().code(), Some(1));
    assert!(said.contains(" for metrics: ") && !said.contains("the clock starts"), "{said}");
    assert!(!directory.path().join("clock").exists());
}

#[test]
fn a_daemon_that_is_killed_leaves_what_it_knows_of_the_counter() {
    let server = Server::start();
    let mut daemon = Daemon::start(&["--server", &server.address]);
    assert!(daemon.says("the clock starts").contains("warm=false"));
    let state = daemon.directory.path().join("clock.state");
    let begin = std::time::Instant::now();
    while !state.exists() {
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "nothing is kept");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    daemon.run(&["--server", &server.address]);
    assert!(daemon.says("the clock starts").contains("warm=true"));
}

#[test]
fn a_time_server_waits_for_the_page_and_says_so_once() {
    let ask = |address: &str| {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.set_read_timeout(Some(std::time::Duration::from_secs(10))).unwrap();
        let mut request = [0; 48];
        request[0] = 4 << 3 | 3;
        request[47] = 1;
        socket.send_to(&request, address).unwrap();
        let mut answer = [0; 48];
        assert_eq!(socket.recv(&mut answer).unwrap(), 48);
        answer[1]
    };
    let server = Server::start();
    let mut daemon = Daemon::start(&["--server", &server.address]);
    daemon.says("synchronised");
    let page = daemon.directory.path().join("clock");
    // The daemon's page gets this name later.
    let later = daemon.directory.path().join("later");
    let mut serving = Command::new(env!("CARGO_BIN_EXE_tickwire"))
        .args(["clock", "serve", "--listen", "127.0.0.1:0", "--config"])
        .arg(daemon.directory.path().join("clock.toml"))
        .arg("--page")
        .arg(&later)
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut log = BufReader::new(serving.stderr.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        log.read_line(&mut line).unwrap();
        line
    };
    let first = line();
    let address = first.trim_end().rsplit_once("address=").unwrap().1.to_owned();
    let said = line();
    assert!(said.contains("there is no clock yet") && said.contains("with --page or in TICKWIRE_CLOCK"), "{said}");
    assert_eq!(ask(&address), 16);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    std::fs::hard_link(&page, &later).unwrap();
    let begin = std::time::Instant::now();
    while ask(&address) != 2 {
        assert!(begin.elapsed() < std::time::Duration::from_secs(20), "the page is not found");
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    let next = line();
    assert!(next.contains("the page is there"), "nothing was said in between: {next}");
    serving.kill().unwrap();
    serving.wait().unwrap();
}

#[test]
fn counts_are_converted_line_by_line_and_a_clock_without_a_daemon_is_reported() {
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
    assert_eq!(
        convert(&format!("{count}\n\n {count} \n")),
        (Some(0), 3, String::new()),
        "an empty line for an empty one"
    );
    let (status, lines, said) = convert(&format!("{count}\n{}\n{count}\n", u64::MAX));
    assert_eq!((status, lines), (Some(3), 3));
    assert!(said.starts_with(&format!("tickwire: the counter has not come to {} yet: it is at ", u64::MAX)), "{said}");
    let (status, lines, said) = convert(&format!("1\n{count}\n"));
    assert_eq!((status, lines), (Some(3), 2));
    assert!(
        said.starts_with("tickwire: 1 is from before the counter broke, or before it was first observed"),
        "{said}"
    );
    let early: serde_json::Value = serde_json::from_str(&daemon.said(&["convert", "--json", "1"])).unwrap();
    let status = early["status"].as_array().unwrap();
    assert!(early["utc_ns"].is_null() && status.contains(&"disrupted".into()) && early["disruptions"] == 0, "{early}");
    let far = daemon.said(&["convert", "--json", "18446744073709551615"]);
    let far: serde_json::Value = serde_json::from_str(&far).unwrap();
    assert!(far["utc_ns"].is_null() && far["age_ns"].is_null() && far["status"][0] == "unknown", "{far}");
    assert_eq!(daemon.said(&["convert", "18446744073709551615"]), "18446744073709551615 unknown\n");
    let (status, lines, said) = convert(&format!("{count}\nsoon\n{count}\n"));
    assert_eq!((status, lines), (Some(1), 1));
    assert!(
        said.starts_with("tickwire: line 2: \"soon\" is no value of the counter: expected") && !said.contains("digit"),
        "{said}"
    );
    daemon.process.kill().unwrap();
    daemon.process.wait().unwrap();
    // The published time is fresh for five seconds.
    let stale = (0..100).find_map(|_| {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let (status, lines, said) = convert(&format!("{count}\n"));
        assert_eq!((status, lines), (Some(0), 1));
        Some(said).filter(|said| !said.is_empty())
    });
    assert!(
        stale.is_some_and(|said| said.starts_with("tickwire: no daemon keeps the clock, or") && said.contains("stale"))
    );
}

#[test]
fn why_a_server_is_of_no_use_is_in_the_log() {
    let server = Server::start();
    server.unsynchronised.store(true, Ordering::Relaxed);
    let mut daemon = Daemon::start(&["--server", &server.address]);
    let said = daemon.says("the server has told nothing yet");
    assert!(said.contains("why=\"the server is not synchronised\""), "{said}");
}

#[test]
fn the_log_tells_each_change_and_the_end() {
    let server = Server::start();
    let mut daemon = Daemon::start(&["--server", &server.address]);
    assert!(daemon.says("synchronised").contains("server=127.0.0.1"));
    server.silent.store(true, Ordering::Relaxed);
    let said = daemon.says("the server tells nothing any more");
    assert!(said.contains(&format!("server={}", server.address)) && said.contains("why=\"no answer comes\""), "{said}");
    daemon.says("holdover");
    let sources = daemon.said(&["sources"]);
    let line = sources.lines().nth(1).unwrap();
    assert!(line.trim_start().starts_with("? ") && line.contains(&server.address), "{sources}");
    assert!(
        sources.contains("? silent") && sources.contains(&format!("{}: does not answer", server.address)),
        "{sources}"
    );
    assert!(daemon.said(&["status"]).contains("following      no server"));
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
