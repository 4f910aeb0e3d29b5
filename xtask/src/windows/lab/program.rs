//! `tickwire.exe`, as a user has it: the program, with its library beside it.

use super::{lane, plain};
use crate::windows::wine::windows_path;
use crate::windows::wine_host::WineHost;
use crate::windows::{lab_programs, windivert};
use anyhow::{Context, Result, ensure};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tickwire_lab::{Ended, LabPair, Process, tools};

/// Within this a program has done its work.
pub(super) const TIMEOUT: Duration = Duration::from_secs(60);

pub(super) const PORT: u16 = 7;

/// Messages of each kind: some seconds of work, in which it is looked at.
const COUNT: u32 = 20_000;

/// The same where nothing is looked at meanwhile.
const FEWER: u32 = 1000;

/// Exit statuses of `tickwire run`, as on Linux.
pub(super) const UNAVAILABLE: i32 = 69;
const FAILED: i32 = 125;
const NOT_FOUND: i32 = 127;

/// The service's options in the lab.
pub(super) const SERVICE: [&str; 5] = ["service", "--interface", "eth0", "--driver", "lab"];

pub(super) fn tickwire() -> Result<PathBuf> {
    plain::built("tickwire.exe")
}

/// Host a, with Wine; host b has a kernel.
pub(in crate::windows) struct Hosts {
    // In the order in which they are to end.
    pub(in crate::windows) wine: WineHost,
    pub(in crate::windows) pair: LabPair,
    program: PathBuf,
}

impl Hosts {
    pub(super) fn new() -> Result<Self> {
        Self::with_program(tickwire()?)
    }

    /// With `tickwire.exe` of this path.
    pub(in crate::windows) fn with_program(program: PathBuf) -> Result<Self> {
        let pair = LabPair::new()?;
        Ok(Self { wine: WineHost::new(&pair.a)?, pair, program })
    }

    /// The program has the stand-in for WinDivert beside it.
    pub(super) fn with_windivert() -> Result<Self> {
        let hosts = Self::new()?;
        let folder = hosts.pair.a.directory().join("program");
        fs::create_dir(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for file in [tickwire()?, tickwire()?.with_file_name("tickwire_winsock.dll"), windivert::library()?] {
            let name = file.file_name().context("a file without a name")?;
            fs::copy(&file, folder.join(name)).with_context(|| format!("cannot copy {}", file.display()))?;
        }
        Ok(Self { program: folder.join("tickwire.exe"), ..hosts })
    }

    /// The program.
    pub(super) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.wine.command(&self.program);
        command.args(arguments);
        command
    }

    pub(in crate::windows) fn spawn(&self, arguments: &[&str]) -> Result<Process> {
        Process::spawn(self.command(arguments))
    }

    /// Runs the program to its end.
    pub(super) fn run(&self, arguments: &[&str]) -> Result<Ended> {
        self.spawn(arguments)?.wait(TIMEOUT)
    }

    /// Runs the program, which is to end with this status, and to say this in one sentence on
    /// standard error.
    pub(super) fn fails(&self, arguments: &[&str], status: i32, words: &str) -> Result<()> {
        said(&self.run(arguments)?, arguments, status, words)
    }

    pub(in crate::windows) fn service(&self) -> Result<Process> {
        self.service_with(&SERVICE)
    }

    pub(super) fn service_with(&self, arguments: &[&str]) -> Result<Process> {
        let mut service = self.spawn(arguments)?;
        service.wait_for("the service runs", TIMEOUT)?;
        Ok(service)
    }

    pub(super) fn stat(&self) -> Result<Value> {
        let ended = self.run(&["stat", "--json"])?;
        ensure!(ended.status.success(), "stat: {}", ended.stderr);
        serde_json::from_str(&ended.stdout).with_context(|| format!("no JSON: {}", ended.stdout))
    }

    /// What the service says when it satisfies this.
    pub(in crate::windows) fn stat_until(&self, what: &str, is_so: impl Fn(&Value) -> bool) -> Result<Value> {
        let mut last = Value::Null;
        tools::until(what, TIMEOUT, || {
            last = self.stat().unwrap_or_default();
            is_so(&last)
        })
        .with_context(|| format!("{last}"))?;
        Ok(last)
    }

    /// Ends a Windows process by its number in Wine.
    pub(super) fn end_process(&self, lane: &Value) -> Result<()> {
        let number = lane["pid"].as_u64().context("no process")?.to_string();
        self.wine.spawn(Path::new("taskkill"), &["/F", "/PID", &number])?.success(TIMEOUT).map(drop)
    }
}

fn said(ended: &Ended, arguments: &[&str], status: i32, words: &str) -> Result<()> {
    let Ended { status: got, stderr, stdout } = ended;
    // (A service logs, too.)
    let sentences: Vec<&str> = stderr.lines().filter(|line| line.starts_with("tickwire: ")).collect();
    let is_so = got.code() == Some(status) && sentences.len() == 1 && sentences[0].contains(words);
    ensure!(is_so, "{arguments:?} ended with {got}, not {status} and {words:?}: {stderr}{stdout}");
    Ok(())
}

/// Without a service, and with what cannot be accelerated, each command says what is wrong in a
/// sentence. A program runs all the same, unless that is not wanted.
pub(super) fn bad_input() -> Result<()> {
    let hosts = Hosts::new()?;
    let plain = windows_path(&lab_programs::program("plain")?);
    hosts.fails(&["stat"], 1, "no service answers at \\\\.\\pipe\\tickwire: start it with `tickwire service`")?;
    hosts.fails(&["run", "--require", &plain], UNAVAILABLE, "was not started: no service answers at")?;
    // The plain program ends with 2 without arguments.
    hosts.fails(&["run", &plain], 2, "runs on the kernel's network stack, polled: no service answers at")?;
    hosts.fails(&["run", "no-such-program"], NOT_FOUND, "no-such-program: not found: name its path")?;
    hosts.fails(&["service", "--interface", "Ethernet 7"], 1, "there is no interface \"Ethernet 7\"")?;
    hosts.fails(&["service", "--managed"], 1, "for Windows' service manager")?;
    // A program for which the service has gone before its first socket.
    let library = windows_path(&plain::built("tickwire_winsock.dll")?);
    let arguments = [&*library, &*plain, "select", "10.0.0.1", "7"];
    let mut command = hosts.wine.command(&plain::built("examples/launch.exe")?);
    command.args(arguments).env("TICKWIRE_REQUIRE", "1");
    let ended = Process::spawn(command)?.wait(TIMEOUT)?;
    said(&ended, &arguments, UNAVAILABLE, "plain was ended at its first socket: no service answers")?;

    let doctor = hosts.run(&["doctor"])?;
    let verdict = "verdict: no program is accelerated until this is mended: service\n";
    ensure!(doctor.status.code() == Some(1) && doctor.stdout.ends_with(verdict), "doctor: {}", doctor.stdout);

    let folder = hosts.pair.a.directory().to_path_buf();
    let narrow = folder.join("narrow.exe");
    fs::write(&narrow, narrow_program()).context("cannot write a program")?;
    let alone = folder.join("tickwire.exe");
    fs::copy(tickwire()?, &alone).context("cannot copy the program")?;
    let service = hosts.service()?;
    hosts.fails(&SERVICE, 1, "is the service running already?")?;
    let narrow = windows_path(&narrow);
    hosts.fails(&["run", "--require", &narrow], UNAVAILABLE, "it is a program of 32 bits")?;
    let arguments = ["run", "--require", &plain];
    let mut without_library = hosts.wine.spawn(&alone, &arguments)?;
    said(&without_library.wait(TIMEOUT)?, &arguments, FAILED, "tickwire_winsock.dll is missing: unpack it")?;
    fs::write(folder.join("tickwire_winsock.dll"), narrow_program()).context("cannot write a library")?;
    let mut wrong_library = hosts.wine.spawn(&alone, &arguments)?;
    said(&wrong_library.wait(TIMEOUT)?, &arguments, FAILED, "the library cannot be used")?;
    drop(service);
    Ok(())
}

/// The headers of a program of 32 bits.
fn narrow_program() -> Vec<u8> {
    let mut image = vec![0; 1024];
    let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"MZ");
    put(60, &[0x80]);
    put(0x80, b"PE\0\0\x4c\x01");
    // The length of the optional header, and its format.
    put(0x94, &[224]);
    put(0x98, &[0x0b, 0x01]);
    image
}

/// A client runs on the lane, which `stat` and `doctor` show. Then a server is killed, and then the
/// service, and nothing is left of either.
pub(super) fn accelerated() -> Result<()> {
    let hosts = Hosts::new()?;
    let mut service = hosts.service()?;
    let doctor = hosts.run(&["doctor", "--json"])?;
    let findings: Vec<Value> = serde_json::from_str(&doctor.stdout).context("no JSON")?;
    let of = |check: &str| findings.iter().find(|finding| finding["check"] == check);
    ensure!(doctor.status.success(), "doctor: {}", doctor.stdout);
    for check in ["library", "driver", "service", "lane", "interface"] {
        ensure!(of(check).is_some_and(|finding| finding["verdict"] == "good"), "doctor, {check}: {}", doctor.stdout);
    }
    let found = of("interface").map(|finding| finding["found"].to_string()).unwrap_or_default();
    ensure!(found.contains(&hosts.pair.a_v4()), "the interface has another address: {found}");
    hosts.stat_until("the doctor's lane has ended", |stat| stat["lanes"] == Value::Array(Vec::new()))?;

    let peer = hosts.pair.b_v4();
    let echo = hosts.pair.b.spawn(&["python3", "-c", plain::ECHO, &peer, &PORT.to_string()])?;
    tools::until("the peer listens", TIMEOUT, || echo.stdout().contains("ready"))?;
    let program = windows_path(&lab_programs::program("plain")?);
    let (port, count) = (PORT.to_string(), COUNT.to_string());
    let client = ["run", "--require", "--", &program, "client", &peer, &port, &count];
    let mut client = hosts.spawn(&client)?;
    let ends = format!("{peer}:{PORT}");
    let is_on_lane = |stat: &Value| socket_to(stat, &ends).is_some();
    let stat = hosts.stat_until("a socket is on the lane", is_on_lane)?;
    let lane = &stat["lanes"][0];
    ensure!(lane["program"] == "plain" && lane["accelerated"] == true, "another program: {stat}");
    ensure!(lane["claims"].as_array().is_some_and(|claims| !claims.is_empty()), "nothing is claimed: {stat}");
    client.success(TIMEOUT)?;
    ensure!(client.stdout().contains("done"), "the client has not finished: {}", client.stdout());
    let stat = hosts.stat_until("its lane has ended", |stat| stat["lanes"] == Value::Array(Vec::new()))?;
    let diverted = stat["host"]["counters"]["diverted"].as_u64().unwrap_or(0);
    ensure!(diverted > u64::from(2 * COUNT), "the lane has had {diverted} packets: {stat}");

    let address = hosts.pair.a_v4();
    let server = || -> Result<(Process, std::net::TcpStream)> {
        let mut server = hosts.spawn(&["run", "--require", "--", &program, "server", &address, &port])?;
        server.wait_for("ready", TIMEOUT)?;
        let stream = hosts.pair.b.within(|| lane::connect(&address, PORT))??;
        Ok((server, stream))
    };
    let (mut killed, mut stream) = server()?;
    lane::exchange(&mut stream, 1)?;
    let stat = hosts.stat_until("the server has a connection", |stat| {
        stat["lanes"][0]["sockets"].as_array().is_some_and(|sockets| sockets.len() >= 3)
    })?;
    hosts.end_process(&stat["lanes"][0])?;
    ensure!(lane::exchange(&mut stream, 2).is_err(), "the peer of a killed program is not told");
    killed.wait(TIMEOUT)?;
    hosts.stat_until("its lane has ended", |stat| stat["lanes"] == Value::Array(Vec::new()))?;

    let (mut orphan, mut stream) = server()?;
    lane::exchange(&mut stream, 3)?;
    service.kill();
    // Its sockets fail now, and it gives up.
    let ended = orphan.wait(TIMEOUT)?;
    ensure!(!ended.status.success(), "a server goes on without its lane: {}", ended.stdout);
    let _service = hosts.service()?;
    let (mut again, mut stream) = server()?;
    lane::exchange(&mut stream, 4)?;
    hosts.pair.b.within(|| lane::connected(&address)?.send(b"end").context("cannot send"))??;
    again.success(TIMEOUT).map(drop)
}

/// WinDivert is taken without being named, because it is there. A client runs on the lane by it.
pub(super) fn by_windivert() -> Result<()> {
    let hosts = Hosts::with_windivert()?;
    let _service = hosts.service_with(&["service", "--interface", "eth0"])?;
    let peer = hosts.pair.b_v4();
    let (port, count) = (PORT.to_string(), FEWER.to_string());
    let echo = hosts.pair.b.spawn(&["python3", "-c", plain::ECHO, &peer, &port])?;
    tools::until("the peer listens", TIMEOUT, || echo.stdout().contains("ready"))?;
    let program = windows_path(&lab_programs::program("plain")?);
    let told = hosts.spawn(&["run", "--require", "--", &program, "client", &peer, &port, &count])?.success(TIMEOUT)?;
    ensure!(told.contains("done"), "the client has not finished: {told}");
    let stat = hosts.stat()?;
    let diverted = stat["host"]["counters"]["diverted"].as_u64().unwrap_or(0);
    ensure!(diverted > u64::from(2 * FEWER), "the lane has had {diverted} packets: {stat}");
    let driver = &stat["host"]["interfaces"][0]["driver"];
    ensure!(driver == "windivert", "another driver: {stat}");
    Ok(())
}

/// Windows' service manager starts the service and ends it. In the foreground Ctrl-C ends it. Both
/// times programs run on the lane before, and there is no service after that.
pub(super) fn managed() -> Result<()> {
    let hosts = Hosts::new()?;
    let net = |verb: &str| hosts.wine.spawn(Path::new("net"), &[verb, "Tickwire"])?.success(TIMEOUT).map(drop);
    let succeeds = |arguments: &[&str]| -> Result<()> {
        let ended = hosts.run(arguments)?;
        ensure!(ended.status.success(), "{arguments:?}: {}{}", ended.stdout, ended.stderr);
        Ok(())
    };
    succeeds(&[&SERVICE[..], &["--install"]].concat())?;
    hosts.fails(&["service", "--install"], 1, "there is a service Tickwire already")?;
    net("start")?;
    tools::until("the service answers", TIMEOUT, || succeeds(&["doctor"]).is_ok())?;
    net("stop")?;
    hosts.fails(&["stat"], 1, "no service answers at")?;
    net("start")?;
    tools::until("the service answers again", TIMEOUT, || succeeds(&["doctor"]).is_ok())?;
    succeeds(&["service", "--uninstall"])?;
    hosts.fails(&["stat"], 1, "no service answers at")?;
    hosts.fails(&["service", "--uninstall"], 1, "there is no service Tickwire")?;

    let mut service = hosts.service()?;
    succeeds(&["doctor"])?;
    service.signal(Signal::SIGINT)?;
    let ended = service.wait(TIMEOUT)?;
    ensure!(ended.status.success() && ended.stderr.contains("the service ends"), "Ctrl-C: {ended:?}");
    hosts.fails(&["stat"], 1, "no service answers at")
}

/// A socket that is on a lane, has this remote end, and of which packets were received.
fn socket_to<'s>(stat: &'s Value, remote: &str) -> Option<&'s Value> {
    let sockets = stat["lanes"][0]["sockets"].as_array()?;
    sockets.iter().find(|socket| {
        socket["remote"] == remote && socket["accelerated"] == true && socket["rx_packets"].as_u64() > Some(0)
    })
}
