//! EPICS: Channel Access, as control systems of physics use it. A search by UDP, then a connection.

use super::{file, round_trip};
use crate::windows::programs::hosts::{ProgramRun, windows_path};
use crate::windows::programs::outcome::CaseFigure;
use crate::windows::programs::package;
use anyhow::{Context, Result, ensure};
use std::fs;
use std::time::Duration;
use tickwire_lab::Process;

/// The port of searches and connections.
const PORT: u16 = 5064;

/// Reads of a value.
pub(super) const READS: u64 = 500;

const TIMEOUT: Duration = Duration::from_secs(30);

const DATABASE: &str = "record(ai, \"LAB:value\") { field(VAL, \"1.5\") }\n";

/// An I/O controller with a database, its argument.
const CONTROLLER: &str = "
import sys, threading
from epicscorelibs.ioc import start_ioc
start_ioc(dbs=[(sys.argv[1], '')])
threading.Event().wait()
";

/// Reads a value so often, and says the median time.
const READER: &str = "
import sys, time, epics
value = epics.PV('LAB:value')
assert value.wait_for_connection(10), 'the record was not found'
times = []
for _ in range(int(sys.argv[1])):
    begin = time.perf_counter_ns()
    assert value.get(use_monitor=False, timeout=5) == 1.5
    times.append(time.perf_counter_ns() - begin)
times.sort()
print(f'p50_us={times[len(times) // 2] / 1000:.1f}')
";

fn database(run: &ProgramRun) -> Result<String> {
    let path = run.folder()?.join("lab.db");
    fs::write(&path, DATABASE).context("cannot write a database")?;
    Ok(path.display().to_string())
}

pub(super) fn caget(run: &ProgramRun) -> Result<CaseFigure> {
    let (python, database) = (file(&package::EPICS, "venv/bin/python")?.display().to_string(), database(run)?);
    let _server = run.peer_server(&[&python, "-c", CONTROLLER, &database], "udp", PORT)?;
    let mut command = run.windows(&file(&package::EPICS, "ioc/bin/caget.exe")?, &["-w", "10", "-t", "LAB:value"])?;
    // Only this address is asked.
    command.env("EPICS_CA_ADDR_LIST", run.there()).env("EPICS_CA_AUTO_ADDR_LIST", "NO");
    let printed = Process::spawn(command)?.success(TIMEOUT)?;
    ensure!(printed.trim() == "1.5", "caget has printed {printed:?}");
    Ok(CaseFigure::Works)
}

/// The controller on host a, and reads of its value from host b.
pub(super) fn soft_ioc(run: &ProgramRun) -> Result<CaseFigure> {
    let program = file(&package::EPICS, "ioc/bin/softIoc.exe")?;
    let database = windows_path(database(run)?.as_ref());
    let mut command = run.windows(&program, &["-S", "-d", &database])?;
    command
        .env("EPICS_DB_INCLUDE_PATH", "../../epicscorelibs/dbd;../../dbd")
        .env("EPICS_CAS_INTF_ADDR_LIST", run.here());
    command.current_dir(program.parent().context("no folder")?);
    let _server = run.server(command, "tcp", PORT)?;
    let python = file(&package::EPICS, "venv/bin/python")?.display().to_string();
    let (address, reads) = (format!("EPICS_CA_ADDR_LIST={}", run.here()), READS.to_string());
    round_trip(&run.peer_client(&["env", &address, "EPICS_CA_AUTO_ADDR_LIST=NO", &python, "-c", READER, &reads])?)
}
