//! The cases: a Windows program of others, its peer on a Linux kernel, and what is checked.
//!
//! | module | purpose |
//! |---|---|
//! | `echo` | Node, Bun and .NET with the same small program; the lab's program in C |
//! | `web` | curl, Caddy, uv |
//! | `terminal` | plink |
//! | `messaging` | mosquitto, NATS |
//! | `control` | EPICS |

mod control;
mod echo;
mod messaging;
mod terminal;
mod web;

use super::hosts::ProgramRun;
use super::outcome::CaseFigure;
use super::package::{self, WindowsPackage};
use crate::deps::{self, Need};
use crate::workspace;
use anyhow::{Context, Result};
use std::path::PathBuf;

/// A program in a role.
pub(in crate::windows) struct ProgramCase {
    /// The program and what it does.
    pub name: &'static str,
    /// How the program waits for its sockets, as far as that is known.
    pub calls: &'static str,
    /// What it needs.
    pub packages: &'static [WindowsPackage],
    /// Debian's packages that its peer needs.
    pub needs: &'static [Need],
    /// At least this many packets cross the lane if it runs on it.
    pub least: u64,
    /// Runs it; an error if anything is not as expected.
    pub run: fn(&ProgramRun) -> Result<CaseFigure>,
}

/// All cases.
pub(in crate::windows) const CASES: [ProgramCase; 20] = [
    ProgramCase {
        name: "plain.exe, client (the lab's program in C)",
        calls: "blocking calls",
        packages: &[],
        needs: &[],
        least: 4 * 1000,
        run: echo::plain_client,
    },
    ProgramCase {
        name: "curl.exe, requests on one connection",
        calls: "non-blocking connect, select, WSAEventSelect",
        packages: &[package::CURL],
        needs: &[],
        least: 2 * web::REQUESTS,
        run: web::curl_requests,
    },
    ProgramCase {
        name: "curl.exe, download and upload",
        calls: "non-blocking connect, select, WSAEventSelect",
        packages: &[package::CURL],
        needs: &[],
        least: web::FILE / 1448,
        run: web::curl_transfers,
    },
    ProgramCase {
        name: "plink.exe, client",
        calls: "WSAEventSelect",
        packages: &[package::PUTTY],
        needs: &[],
        least: terminal::BYTES / 1448,
        run: terminal::plink,
    },
    ProgramCase {
        name: "node.exe, client",
        calls: "ConnectEx, WSARecv, WSASend, WSARecvFrom with a completion port",
        packages: &[package::NODE],
        needs: &[],
        least: echo::LEAST,
        run: |run| echo::client(run, &echo::NODE),
    },
    ProgramCase {
        name: "node.exe, server",
        calls: "AcceptEx, WSARecv, WSASend, WSARecvFrom with a completion port",
        packages: &[package::NODE],
        needs: &[],
        least: echo::LEAST,
        run: |run| echo::server(run, &echo::NODE),
    },
    ProgramCase {
        name: "bun.exe, client",
        calls: "non-blocking calls, AFD poll",
        packages: &[package::BUN],
        needs: &[],
        least: echo::LEAST,
        run: |run| echo::client(run, &echo::BUN),
    },
    ProgramCase {
        name: "bun.exe, server",
        calls: "non-blocking calls, AFD poll",
        packages: &[package::BUN],
        needs: &[],
        least: echo::LEAST,
        run: |run| echo::server(run, &echo::BUN),
    },
    ProgramCase {
        name: ".NET, client (TcpClient, UdpClient)",
        calls: "ConnectEx, WSARecv, WSASend, WSARecvFrom with the thread pool's port",
        packages: &[package::DOTNET],
        needs: &[],
        least: echo::LEAST,
        run: |run| echo::client(run, &echo::DOTNET),
    },
    ProgramCase {
        name: ".NET, server (TcpListener, UdpClient)",
        calls: "AcceptEx, WSARecv, WSASend, WSARecvFrom with the thread pool's port",
        packages: &[package::DOTNET],
        needs: &[],
        least: echo::LEAST,
        run: |run| echo::server(run, &echo::DOTNET),
    },
    ProgramCase {
        name: "uv.exe publish, client",
        calls: "non-blocking calls, AFD poll",
        packages: &[package::UV],
        needs: &[],
        least: web::FILE / 1448,
        run: web::uv,
    },
    ProgramCase {
        name: "caddy.exe, file server (Go)",
        calls: "AcceptEx, WSARecv, WSASend, TransmitFile with a completion port",
        packages: &[package::CADDY],
        needs: &[deps::CURL],
        least: web::FILE / 1448,
        run: web::caddy,
    },
    ProgramCase {
        name: "caddy.exe, reverse proxy (Go)",
        calls: "AcceptEx, ConnectEx, WSARecv, WSASend with a completion port",
        packages: &[package::CADDY],
        needs: &[deps::CURL],
        least: 2 * web::FILE / 1448,
        run: web::proxy,
    },
    ProgramCase {
        name: "nats-server.exe, server (Go)",
        calls: "AcceptEx, WSARecv, WSASend with a completion port",
        packages: &[package::NATS],
        needs: &[],
        least: 100,
        run: messaging::nats_server,
    },
    ProgramCase {
        name: "nats-bench.exe, client (Go)",
        calls: "ConnectEx, WSARecv, WSASend with a completion port",
        packages: &[package::NATS],
        needs: &[],
        least: 100,
        run: messaging::nats_client,
    },
    ProgramCase {
        name: "mosquitto.exe, broker",
        calls: "non-blocking calls, WSAPoll",
        packages: &[package::MOSQUITTO],
        needs: &[],
        least: messaging::LEAST,
        run: messaging::mosquitto_broker,
    },
    ProgramCase {
        name: "mosquitto_sub.exe, client",
        calls: "non-blocking calls, select",
        packages: &[package::MOSQUITTO],
        needs: &[],
        least: messaging::LEAST,
        run: messaging::mosquitto_sub,
    },
    ProgramCase {
        name: "mosquitto_pub.exe, client",
        calls: "non-blocking calls, select",
        packages: &[package::MOSQUITTO],
        needs: &[],
        least: messaging::PAYLOAD / 1448,
        run: messaging::mosquitto_pub,
    },
    ProgramCase {
        name: "caget.exe, client (EPICS)",
        calls: "blocking calls of several threads",
        packages: &[package::EPICS],
        needs: &[],
        least: 10,
        run: control::caget,
    },
    ProgramCase {
        name: "softIoc.exe, server (EPICS)",
        calls: "blocking calls of several threads",
        packages: &[package::EPICS],
        needs: &[],
        least: 2 * control::READS,
        run: control::soft_ioc,
    },
];

/// A file beside this module's parent, by which programs and peers run.
fn script(name: &str) -> String {
    workspace::root().join("xtask/src/windows/programs/scripts").join(name).display().to_string()
}

/// A file of a package.
fn file(package: &WindowsPackage, below: &str) -> Result<PathBuf> {
    let path = package.folder()?.join(below);
    path.exists().then_some(path).with_context(|| format!("{} has no {below}", package.name))
}

/// The figure behind `p50_us=`, in the last such line.
fn round_trip(printed: &str) -> Result<CaseFigure> {
    let figure = printed.split_whitespace().filter_map(|word| word.strip_prefix("p50_us=")).next_back();
    let figure = figure.with_context(|| format!("no figure in {printed:?}"))?;
    Ok(CaseFigure::RoundTrip(figure.parse().with_context(|| format!("no number: {figure}"))?))
}

/// The file `name` of a run's folder, with reproducible contents.
fn data(run: &ProgramRun, name: &str, bytes: u64) -> Result<PathBuf> {
    let path = run.folder()?.join(name);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        // xorshift: any part of the file differs from any other.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[0]
    };
    let contents: Vec<u8> = (0..bytes).map(|_| next()).collect();
    std::fs::write(&path, contents).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_figure_counts() {
        assert_eq!(round_trip("udp p50_us=12.0 x\ntcp p50_us=14.5\ndone").unwrap(), CaseFigure::RoundTrip(14.5));
        assert!(round_trip("done").is_err());
    }

    #[test]
    fn names_differ() {
        for (number, case) in CASES.iter().enumerate() {
            assert!(CASES[..number].iter().all(|other| other.name != case.name), "{}", case.name);
        }
    }
}
