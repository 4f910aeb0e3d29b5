//! PuTTY's program for the command line.

use super::file;
use crate::windows::programs::hosts::ProgramRun;
use crate::windows::programs::outcome::CaseFigure;
use crate::windows::programs::package;
use anyhow::{Result, ensure};

const PORT: u16 = 23;

/// What the peer sends.
pub(super) const BYTES: u64 = 1_000_000;

/// Sends lines with their numbers to the first client, and waits until it has ended its side.
const LINES: &str = "
import socket, sys
server = socket.create_server((sys.argv[1], int(sys.argv[2])))
peer = server.accept()[0]
peer.sendall(b''.join(b'%09d\\n' % number for number in range(int(sys.argv[3]) // 10)))
peer.shutdown(socket.SHUT_WR)
while peer.recv(4096):
    pass
print('ended')
";

/// A raw connection: what the peer sends is printed.
pub(super) fn plink(run: &ProgramRun) -> Result<CaseFigure> {
    let (there, port) = (run.there(), PORT.to_string());
    let words = ["python3", "-c", LINES, &there, &port, &BYTES.to_string()];
    let mut server = run.peer_server(&words, "tcp", PORT)?;
    let printed = run.client(&file(&package::PUTTY, "plink.exe")?, &["-batch", "-raw", "-P", &port, &there])?;
    let lines: Vec<&str> = printed.lines().collect();
    ensure!(lines.len() as u64 == BYTES / 10, "plink has printed {} of {} lines", lines.len(), BYTES / 10);
    let wrong = lines.iter().enumerate().find(|(number, line)| **line != format!("{number:09}"));
    ensure!(wrong.is_none(), "plink has printed another line: {wrong:?}");
    server.wait_for("ended", std::time::Duration::from_secs(10))?;
    Ok(CaseFigure::Works)
}
