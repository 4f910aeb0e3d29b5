//! curl against nginx: small files, one after the other on one connection.

use super::figures::Figures;
use super::side::Side;
use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

const PORT: u16 = 8080;
/// This takes some seconds on the kernel.
const REQUESTS: u32 = 20_000;

pub(crate) fn requests(side: &Side, time: Duration) -> Result<Figures> {
    let directory = side.server_host().directory();
    let config = directory.join("nginx.conf");
    std::fs::write(&config, configuration(&directory, &side.address()))?;
    std::fs::write(directory.join("file"), vec![b'x'; 1024])?;
    let (config, prefix) = (config.to_string_lossy(), directory.to_string_lossy());
    let mut server = side.server("tcp", PORT, &["nginx", "-p", &prefix, "-c", &config, "-e", "stderr"])?;
    let url = format!("http://{}:{PORT}/file?[1-{REQUESTS}]", side.address());
    let client = ["curl", "--silent", "--show-error", "--fail", "-o", "/dev/null", "-w", "%{time_total}\\n", &url];
    let printed = side.client(&client, time + Duration::from_secs(30))?;
    server.stop(Duration::from_secs(5))?;
    read(&printed).context("cannot read what curl printed")
}

/// One master and one worker, nothing written outside the directory.
fn configuration(directory: &Path, address: &str) -> String {
    let directory = directory.display();
    format!(
        "daemon off; user root; worker_processes 1; pid {directory}/nginx.pid;\n\
         events {{ worker_connections 64; }}\n\
         http {{\n\
           access_log off; keepalive_requests 1000000;\n\
           client_body_temp_path {directory}/t1; proxy_temp_path {directory}/t2; fastcgi_temp_path {directory}/t3;\n\
           uwsgi_temp_path {directory}/t4; scgi_temp_path {directory}/t5;\n\
           server {{ listen {address}:{PORT}; root {directory}; }}\n\
         }}\n"
    )
}

/// Seconds, one line a request. The first makes the connection and is left out.
fn read(printed: &str) -> Option<Figures> {
    let seconds: Option<Vec<f64>> = printed.lines().map(|l| l.trim().parse().ok()).collect();
    let seconds = seconds.filter(|s| s.len() > 1)?;
    Figures::of(seconds[1..].iter().map(|s| s * 1e6).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn its_lines_are_read() {
        let figures = Some(Figures::RoundTrip { p50: 50.0, p99: 50.0, p999: 50.0, max: 50.0 });
        assert_eq!(read("0.900\n0.000050\n"), figures);
        assert_eq!(read("0.900\n"), None);
        assert_eq!(read("curl: (7)\n"), None);
    }
}
