//! Services that cannot start, and what they say and leave.

mod common;

use common::{World, skipped, within};
use std::process::Command;
use std::time::Duration;
use tickwire_lab::{LabPair, Process};
use tickwire_service::{Attach, RunOptions, ServiceError};

#[test]
fn a_service_without_rights_says_so_also_beside_another_service() {
    if skipped() {
        return;
    }
    let world = World::new(Attach::Tc);
    let options = || RunOptions { socket: Some(world.pair.a.directory().join("second.sock")), ..RunOptions::default() };
    let taken = within(&world.pair.a, || tickwire_service::run(options()));
    assert!(matches!(taken, Err(ServiceError::Endpoint(_))), "{taken:?}");
    let refused = within(&world.pair.a, || {
        // SAFETY: no memory is passed; the bare system call concerns this thread only, which ends
        // here.
        assert_eq!(unsafe { libc::syscall(libc::SYS_setresuid, -1, 65_534, -1) }, 0);
        tickwire_service::run(options())
    });
    assert!(matches!(refused, Err(ServiceError::Privilege(_))), "{refused:?}");
}

#[test]
fn nothing_is_attached_for_a_socket_that_cannot_be() {
    if skipped() {
        return;
    }
    let pair = LabPair::new().unwrap();
    let file = pair.a.directory().join("file");
    std::fs::write(&file, "x").unwrap();
    let tests = std::env::current_exe().unwrap();
    let program = tests.parent().unwrap().parent().unwrap().join("examples/service");
    for (path, what) in [(file, "is no socket"), (pair.a.directory().join("x".repeat(200)), "cannot use the path")] {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", pair.a.namespace()]).arg(&program).arg(path).arg("eth0");
        let mut service = Process::spawn(command).unwrap();
        service.wait(Duration::from_secs(10)).unwrap();
        let said = service.stderr();
        assert!(said.contains(what) && !said.contains("accelerated"), "{said}");
    }
}
