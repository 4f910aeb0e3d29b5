//! Protocols of automation: OPC UA and Modbus.

use crate::bench::programs::catalog::Program;
use crate::bench::programs::figure::Direction;
use crate::bench::programs::install::{Item, PYTHON, PYTHON_PROGRAM};
use crate::bench::programs::launch::{Launch, Ready, Site};
use crate::bench::programs::trips;
use crate::bench::programs::ways::End;
use crate::deps;

const OPC_UA: u16 = 4840;
const MODBUS: u16 = 1502;

pub(in crate::bench::programs) fn programs() -> Vec<Program> {
    vec![
        Program {
            name: "OPC UA",
            about: "read of one variable, asyncua",
            needs: &PYTHON,
            unit: "us",
            direction: Direction::LowerIsBetter,
            prepare: None,
            server: |site| Ok(opc_ua(site, End::Server)),
            ready: Ready::Port("tcp", OPC_UA),
            client: |site| Ok(opc_ua(site, End::Client)),
            read: trips::read,
        },
        Program {
            name: "Modbus",
            about: "read of 100 registers, libmodbus",
            needs: &[Item::Debian(deps::LIBMODBUS), Item::C { source: "modbus.c", libraries: "-lmodbus" }],
            unit: "us",
            direction: Direction::LowerIsBetter,
            prepare: None,
            server: |site| Ok(modbus(site, End::Server)),
            ready: Ready::Port("tcp", MODBUS),
            client: |site| Ok(modbus(site, End::Client)),
            read: trips::read,
        },
    ]
}

fn opc_ua(site: &Site, end: End) -> Launch {
    Launch::new([vec![site.path(PYTHON_PROGRAM), site.path("sources/opc_ua.py")], site.role(end, OPC_UA)].concat())
}

fn modbus(site: &Site, end: End) -> Launch {
    Launch::new([vec![site.path("bin/modbus")], site.role(end, MODBUS)].concat())
}
