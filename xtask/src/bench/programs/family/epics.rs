//! EPICS: Channel Access (libca, an IOC) and PV Access (pvxs by p4p), as control systems of physics
//! use them.

use crate::bench::programs::catalog::Program;
use crate::bench::programs::figure::Direction;
use crate::bench::programs::install::{PYTHON, PYTHON_PROGRAM};
use crate::bench::programs::launch::{Launch, Ready, Site};
use crate::bench::programs::trips;
use crate::bench::programs::ways::End;
use anyhow::Result;

/// The port of Channel Access; searches and circuits have the same.
const PORT: u16 = 5064;

pub(in crate::bench::programs) fn programs() -> Vec<Program> {
    vec![
        Program {
            name: "EPICS CA",
            about: "Channel Access: get of one value, ordinary threads",
            server: |site| channel_access(site, End::Server, "NO"),
            client: |site| channel_access(site, End::Client, "NO"),
            ready: Ready::Port("udp", PORT),
            ..common()
        },
        Program {
            name: "EPICS CA real-time",
            about: "Channel Access: get of one value, threads with SCHED_FIFO",
            server: |site| channel_access(site, End::Server, "YES"),
            client: |site| channel_access(site, End::Client, "YES"),
            ready: Ready::Port("udp", PORT),
            ..common()
        },
        Program {
            name: "EPICS PVA",
            about: "PV Access: get of one value",
            server: |site| pv_access(site, End::Server),
            client: |site| pv_access(site, End::Client),
            ready: Ready::Port("tcp", 5075),
            ..common()
        },
    ]
}

fn common() -> Program {
    Program {
        name: "",
        about: "",
        needs: &PYTHON,
        unit: "us",
        direction: Direction::LowerIsBetter,
        prepare: None,
        server: |site| channel_access(site, End::Server, "NO"),
        ready: Ready::Searched,
        client: |site| channel_access(site, End::Client, "NO"),
        read: trips::read,
    }
}

fn channel_access(site: &Site, end: End, real_time: &str) -> Result<Launch> {
    let words =
        [vec![site.path(PYTHON_PROGRAM), site.path("sources/channel_access.py")], site.role(end, PORT)].concat();
    Ok(Launch::new(words)
        .with("EPICS_CA_ADDR_LIST", site.address.as_str())
        .with("EPICS_CA_AUTO_ADDR_LIST", "NO")
        .with("EPICS_ALLOW_POSIX_THREAD_PRIORITY_SCHEDULING", real_time))
}

fn pv_access(site: &Site, end: End) -> Result<Launch> {
    let words = [vec![site.path(PYTHON_PROGRAM), site.path("sources/pv_access.py")], site.role(end, PORT)].concat();
    Ok(Launch::new(words).with("EPICS_PVA_ADDR_LIST", site.address.as_str()).with("EPICS_PVA_AUTO_ADDR_LIST", "NO"))
}
