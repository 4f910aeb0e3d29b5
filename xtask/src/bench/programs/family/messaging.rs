//! Message brokers and libraries: ZeroMQ, MQTT, gRPC.

use crate::bench::programs::catalog::Program;
use crate::bench::programs::figure::Direction;
use crate::bench::programs::install::{Item, PYTHON, PYTHON_PROGRAM};
use crate::bench::programs::launch::{Launch, Ready, Site};
use crate::bench::programs::trips;
use crate::bench::programs::ways::End;
use crate::deps;
use anyhow::{Context, Result};

const ZEROMQ: u16 = 7210;
const MQTT: u16 = 1889;
const GRPC: u16 = 7400;

pub(in crate::bench::programs) fn programs() -> Vec<Program> {
    vec![
        Program {
            name: "ZeroMQ",
            about: "request and reply, libzmq",
            needs: &[Item::Debian(deps::LIBZMQ), Item::C { source: "zeromq.c", libraries: "-lzmq" }],
            server: |site| Ok(zeromq(site, End::Server)),
            ready: Ready::Port("tcp", ZEROMQ),
            client: |site| Ok(zeromq(site, End::Client)),
            ..common()
        },
        Program {
            name: "MQTT",
            about: "a message by the broker mosquitto and back, libmosquitto",
            needs: &[
                Item::Debian(deps::MOSQUITTO),
                Item::Debian(deps::LIBMOSQUITTO),
                Item::C { source: "mqtt.c", libraries: "-lmosquitto" },
            ],
            server: mosquitto,
            ready: Ready::Port("tcp", MQTT),
            client: |site| Ok(Launch::new([vec![site.path("bin/mqtt")], site.role(End::Client, MQTT)].concat())),
            ..common()
        },
        Program {
            name: "gRPC",
            about: "unary call, grpcio",
            needs: &PYTHON,
            server: |site| Ok(grpc(site, End::Server)),
            ready: Ready::Port("tcp", GRPC),
            client: |site| Ok(grpc(site, End::Client)),
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
        server: mosquitto,
        ready: Ready::Searched,
        client: mosquitto,
        read: trips::read,
    }
}

fn zeromq(site: &Site, end: End) -> Launch {
    Launch::new([vec![site.path("bin/zeromq")], site.role(end, ZEROMQ)].concat())
}

fn grpc(site: &Site, end: End) -> Launch {
    Launch::new([vec![site.path(PYTHON_PROGRAM), site.path("sources/grpc_echo.py")], site.role(end, GRPC)].concat())
}

fn mosquitto(site: &Site) -> Result<Launch> {
    let path = site.directory().join("programs-mosquitto.conf");
    let config = format!(
        "listener {MQTT} {}\nallow_anonymous true\npersistence false\nuser root\nset_tcp_nodelay true\n",
        site.address
    );
    std::fs::write(&path, config).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(Launch::new(["mosquitto", "-c", &path.to_string_lossy()]))
}
