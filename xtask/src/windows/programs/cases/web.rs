//! Clients and servers of HTTP.

use super::{data, file, script};
use crate::windows::programs::hosts::{ProgramRun, windows_path};
use crate::windows::programs::outcome::CaseFigure;
use crate::windows::programs::package;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;
use std::time::Instant;
use tickwire_lab::Process;

const PORT: u16 = 8080;

/// Requests of a small file.
pub(super) const REQUESTS: u64 = 500;

/// Bytes of a large file.
pub(super) const FILE: u64 = 16 << 20;

/// Gives the files of the run's folder on host b, and keeps what is put.
fn files(run: &ProgramRun) -> Result<Process> {
    let folder = run.folder()?.display().to_string();
    run.peer_server(&["python3", &script("files.py"), &run.there(), &PORT.to_string(), &folder], "tcp", PORT)
}

/// Fails if two files differ.
fn same(one: &Path, other: &Path) -> Result<()> {
    let [one_is, other_is] =
        [one, other].map(|path| fs::read(path).with_context(|| format!("{} was not written", path.display())));
    let (one_is, other_is) = (one_is?, other_is?);
    ensure!(one_is == other_is, "{} of {} bytes came, or they are others", other_is.len(), one_is.len());
    Ok(())
}

pub(super) fn curl_requests(run: &ProgramRun) -> Result<CaseFigure> {
    data(run, "small", 1024)?;
    let _server = files(run)?;
    let url = format!("http://{}:{PORT}/small?[1-{REQUESTS}]", run.there());
    let words = ["--silent", "--show-error", "--fail", "-o", "NUL", "-w", "%{time_total} %{size_download}\\n", &url];
    let printed = run.client(&file(&package::CURL, "curl.exe")?, &words)?;
    let mut seconds = Vec::new();
    for line in printed.lines() {
        let (time, size) = line.trim().split_once(' ').with_context(|| format!("curl has printed {line:?}"))?;
        ensure!(size == "1024", "curl has received {size} bytes");
        seconds.push(time.parse::<f64>().with_context(|| format!("no time: {time}"))?);
    }
    ensure!(seconds.len() as u64 == REQUESTS, "curl has made {} requests", seconds.len());
    seconds.sort_by(f64::total_cmp);
    Ok(CaseFigure::RoundTrip(seconds[seconds.len() / 2] * 1e6))
}

pub(super) fn curl_transfers(run: &ProgramRun) -> Result<CaseFigure> {
    let large = data(run, "large", FILE)?;
    let _server = files(run)?;
    let curl = file(&package::CURL, "curl.exe")?;
    let got = run.folder()?.join("got");
    let (url, output) = (format!("http://{}:{PORT}", run.there()), windows_path(&got));
    let words =
        ["--silent", "--show-error", "--fail", "-o", &output, "-w", "%{speed_download}", &format!("{url}/large")];
    let printed = run.client(&curl, &words)?;
    same(&large, &got)?;
    let put = format!("{url}/put");
    run.client(&curl, &["--silent", "--show-error", "--fail", "-T", &windows_path(&large), &put])?;
    same(&large, &run.folder()?.join("put"))?;
    let speed: f64 = printed.trim().parse().with_context(|| format!("curl has printed {printed:?}"))?;
    Ok(CaseFigure::Rate(speed * 8.0 / 1e6))
}

/// uv uploads a wheel, for which it needs no Python.
pub(super) fn uv(run: &ProgramRun) -> Result<CaseFigure> {
    let large = data(run, "large", FILE)?;
    let wheel = run.folder()?.join("probe-1.0-py3-none-any.whl");
    run.peer_client(&["python3", "-c", WHEEL, &wheel.display().to_string(), &large.display().to_string()])?;
    let _server = files(run)?;
    let url = format!("http://{}:{PORT}/upload", run.there());
    let publish =
        ["publish", "--no-progress", "--no-cache", "--publish-url", &url, "--username", "u", "--password", "p"];
    let wheel_path = windows_path(&wheel);
    let words = [&publish[..], &["--trusted-publishing", "never", &wheel_path]].concat();
    let uv = file(&package::UV, "uv-0.13.9.data/scripts/uv.exe")?;
    run.client(&uv, &words)?;
    let (sent, posted) = (fs::read(&wheel)?, fs::read(run.folder()?.join("posted")).context("nothing was posted")?);
    let has_it = posted.windows(sent.len()).any(|part| part == sent);
    ensure!(has_it, "what was posted does not contain the wheel");
    Ok(CaseFigure::Works)
}

/// Writes a wheel with one file, which is not compressed.
const WHEEL: &str = "
import sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as wheel:
    wheel.write(sys.argv[2], 'probe/data')
    wheel.writestr('probe-1.0.dist-info/METADATA', 'Metadata-Version: 2.1\\nName: probe\\nVersion: 1.0\\n')
    wheel.writestr('probe-1.0.dist-info/WHEEL', 'Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
    wheel.writestr('probe-1.0.dist-info/RECORD', '')
";

/// The large file, by curl on host b from a server on host a.
fn fetched(run: &ProgramRun, large: &Path) -> Result<CaseFigure> {
    let got = run.folder()?.join("got");
    let (url, output) = (format!("http://{}:{PORT}/large", run.here()), got.display().to_string());
    let begin = Instant::now();
    run.peer_client(&["curl", "--silent", "--show-error", "--fail", "--max-time", "20", "-o", &output, &url])?;
    let seconds = begin.elapsed().as_secs_f64();
    same(large, &got)?;
    Ok(CaseFigure::Rate(FILE as f64 * 8.0 / 1e6 / seconds))
}

const CADDY: &str = ".data/scripts/caddy.exe";

pub(super) fn caddy(run: &ProgramRun) -> Result<CaseFigure> {
    let large = data(run, "large", FILE)?;
    let (listen, root) = (format!("{}:{PORT}", run.here()), windows_path(&run.folder()?));
    let words = ["file-server", "--listen", &listen, "--root", &root];
    let _server = run.server(run.windows(&file(&package::CADDY, CADDY)?, &words)?, "tcp", PORT)?;
    fetched(run, &large)
}

/// A server to curl on host b, and a client of a server there.
pub(super) fn proxy(run: &ProgramRun) -> Result<CaseFigure> {
    let large = data(run, "large", FILE)?;
    let _files = files(run)?;
    let (from, to) = (format!("http://{}:{PORT}", run.here()), format!("{}:{PORT}", run.there()));
    let words = ["reverse-proxy", "--from", &from, "--to", &to];
    let _server = run.server(run.windows(&file(&package::CADDY, CADDY)?, &words)?, "tcp", PORT)?;
    fetched(run, &large)
}
