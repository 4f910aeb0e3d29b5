//! The stack space that a socket call may use: threads, coroutines and signal handlers with small
//! stacks work as on the kernel.

mod common;

use common::{Both, TIMEOUT, built_from, crossing, python, start, wait_until_listening};
use nix::sys::signal::Signal;
use tickwire_lab::Process;

const PROGRAM: &str = include_str!("small_stacks/program.c");
const SERVER: &str = include_str!("small_stacks/server.py");

/// The limit for every call (docs/compatibility.md states it).
const MOST: usize = 6 << 10;

/// Two hosts, with the program on one and its server on the other.
fn hosts() -> (Both, String, Process) {
    let both = Both::new();
    let program = both.a().directory().join("program").to_str().unwrap().to_owned();
    // All functions are resolved at the start: lazy binding takes 3 KiB of stack, at each
    // function's first call.
    built_from(PROGRAM, &["-Wl,-z,now", "-o", &program]);
    let mut server = start(both.b(), true, &[python(), "-c", SERVER, &both.pair.b_v4()]);
    ["tcp", "udp"].iter().for_each(|transport| wait_until_listening(both.b(), &mut server, transport, 9000));
    (both, program, server)
}

/// The program's output when it makes its calls in this way.
fn run(both: &Both, program: &str, how: &str) -> String {
    let (peer, own) = (both.pair.b_v4(), both.pair.a_v4());
    let said = crossing(&both.a_service, 100, || {
        start(both.a(), true, &[program, how, &peer, &own]).success(TIMEOUT).unwrap()
    });
    assert!(said.ends_with("all done\n"), "{said}");
    said
}

/// Checks the depth of each reported call, of which there must be at least `calls`.
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
        left.wait_for("opened\n", TIMEOUT).unwrap();
        left
    });
    both.a_service.stop().unwrap();
    left.signal(Signal::SIGUSR2).unwrap();
    let said = left.success(TIMEOUT).unwrap();
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
