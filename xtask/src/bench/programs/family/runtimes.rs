//! Runtimes and frameworks with an event loop of their own: Netty, tokio, Boost.Asio, Mono, Node.

use crate::bench::programs::catalog::Program;
use crate::bench::programs::figure::Direction;
use crate::bench::programs::install::Item;
use crate::bench::programs::launch::{Launch, Ready, Site};
use crate::bench::programs::trips;
use crate::bench::programs::ways::End;
use crate::deps;
use anyhow::Result;

const PORT: u16 = 7500;

pub(in crate::bench::programs) fn programs() -> Vec<Program> {
    vec![
        Program {
            name: "Netty",
            about: "TCP echo, native epoll transport",
            needs: &[Item::Debian(deps::JAVAC), Item::Debian(deps::MAVEN), Item::Maven("netty")],
            server: |site| netty(site, End::Server),
            client: |site| netty(site, End::Client),
            ..common()
        },
        Program {
            name: "tokio",
            about: "TCP echo, scheduler of several threads",
            needs: &[Item::Cargo("tokio")],
            server: |site| program(site, End::Server, "bin/tokio"),
            client: |site| program(site, End::Client, "bin/tokio"),
            ..common()
        },
        Program {
            name: "Boost.Asio",
            about: "TCP echo, asynchronous server on two threads",
            needs: &[Item::Debian(deps::CXX), Item::Debian(deps::BOOST), Item::Cxx { source: "asio.cpp" }],
            server: |site| program(site, End::Server, "bin/asio"),
            client: |site| program(site, End::Client, "bin/asio"),
            ..common()
        },
        Program {
            name: "Mono",
            about: "TCP echo, async and await",
            needs: &[Item::Debian(deps::MONO), Item::Debian(deps::MCS), Item::CSharp { source: "Echo.cs" }],
            server: |site| interpreted(site, End::Server, "mono", "bin/Echo.exe"),
            client: |site| interpreted(site, End::Client, "mono", "bin/Echo.exe"),
            ..common()
        },
        Program {
            name: "Node",
            about: "WebSocket echo, package ws",
            needs: &[Item::Debian(deps::NODE), Item::Debian(deps::NPM), Item::Npm("ws@8.18.3")],
            server: |site| node(site, End::Server),
            client: |site| node(site, End::Client),
            ..common()
        },
    ]
}

fn common() -> Program {
    Program {
        name: "",
        about: "",
        needs: &[],
        unit: "us",
        direction: Direction::LowerIsBetter,
        prepare: None,
        server: |site| netty(site, End::Server),
        ready: Ready::Port("tcp", PORT),
        client: |site| netty(site, End::Client),
        read: trips::read,
    }
}

fn program(site: &Site, end: End, path: &str) -> Result<Launch> {
    Ok(Launch::new([vec![site.path(path)], site.role(end, PORT)].concat()))
}

fn interpreted(site: &Site, end: End, interpreter: &str, path: &str) -> Result<Launch> {
    Ok(Launch::new([vec![interpreter.to_owned(), site.path(path)], site.role(end, PORT)].concat()))
}

fn netty(site: &Site, end: End) -> Result<Launch> {
    let classes = format!("{}:{}", site.path("netty/classes"), site.path("netty/libraries/*"));
    let java = ["java", "-Xmx256m", "-cp", &classes, "Echo"].map(str::to_owned);
    Ok(Launch::new([java.to_vec(), site.role(end, PORT)].concat()))
}

fn node(site: &Site, end: End) -> Result<Launch> {
    Ok(interpreted(site, end, "node", "sources/web_socket.js")?.with("NODE_PATH", site.path("npm/node_modules")))
}
