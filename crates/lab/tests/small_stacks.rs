//! The stack that a socket call may use: threads, coroutines and signal handlers with little of it
//! go on as they do on the kernel.

mod common;

use common::{Both, PATIENCE, bound, built_from, crossing, python, start};
use nix::sys::signal::Signal;
use tickwire_lab::Process;

const PROGRAM: &str = include_str!("small_stacks/program.c");
const SERVER: &str = include_str!("small_stacks/server.py");

/// No call takes more (docs/compatibility.md says so to users).
const MOST: usize = 6 << 10;

/// Two hosts, the program on one of them and its server on the other.
fn hosts() -> (Both, String, Process) {
    let both = Both::new();
    let program = both.a().directory().join("program").to_str().unwrap().to_owned();
    // All functions are looked up at the start: the dynamic linker takes 3 KiB for it, at each
    // function's first call.
    built_from(PROGRAM, &["-Wl,-z,now", "-o", &program]);
    let mut server = start(both.b(), true, &[python(), "-c", SERVER, &both.pair.b_v4()]);
    ["tcp", "udp"].iter().for_each(|transport| bound(both.b(), &mut server, transport, 9000));
    (both, program, server)
}

/// What the program says when it makes its calls in this way.
fn run(both: &Both, program: &str, how: &str) -> String {
    let (peer, own) = (both.pair.b_v4(), both.pair.a_v4());
    let said = crossing(&both.a_service, 100, || {
        start(both.a(), true, &[program, how, &peer, &own]).success(PATIENCE).unwrap()
    });
    assert!(said.ends_with("all done\n"), "{said}");
    said
}

/// Checks the depth of each of at least so many calls of which the program has told.
fn check_depths(said: &str, calls: usize) {
    let depth_and_name = |line: &str| -> Option<(usize, String)> {
        let (depth, name) = line.split_once(' ')?;
        Some((depth.parse().ok()?, name.to_owned()))
    };
    let mut depths: Vec<_> = said.lines().filter_map(depth_and_name).collect();
    depths.sort();
    depths.iter().rev().take(10).for_each(|(depth, name)| println!("{depth:6} bytes of stack: {name}"));
    assert!(depths.len() >= calls, "{said}");
    let above: Vec<_> = depths.iter().filter(|(depth, _)| *depth > MOST).collect();
    assert!(above.is_empty(), "more than {MOST} bytes of stack: {above:?}");
}

#[test]
fn no_call_uses_more_stack_than_is_said() {
    let (both, program, _server) = hosts();
    check_depths(&run(&both, &program, "measured"), 100);
}

#[test]
fn nor_does_one_that_comes_after_the_end_of_the_service() {
    let (mut both, program, _server) = hosts();
    let (peer, own) = (both.pair.b_v4(), both.pair.a_v4());
    let mut left = crossing(&both.a_service, 1, || {
        let mut left = start(both.a(), true, &[&program, "left", &peer, &own]);
        left.wait_for("opened\n", PATIENCE).unwrap();
        left
    });
    both.a_service.stop().unwrap();
    left.signal(Signal::SIGUSR2).unwrap();
    let said = left.success(PATIENCE).unwrap();
    assert!(said.ends_with("all done\n"), "{said}");
    check_depths(&said, 20);
}

#[test]
fn a_thread_and_a_signal_handler_with_the_smallest_stacks_make_every_call() {
    let (both, program, _server) = hosts();
    for how in ["thread", "handler"] {
        run(&both, &program, how);
    }
}
