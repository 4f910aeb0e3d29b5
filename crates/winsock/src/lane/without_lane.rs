//! A program that gets no lane, or one without packets, says so once. `tickwire run --require`
//! wants none that runs so.

use super::control::program;
use crate::spin;
use std::io::Write;
use tickwire_lane::control::Reason;

/// `1`: the program is not to run without a lane.
const REQUIRE: &str = "TICKWIRE_REQUIRE";

/// `1`: `tickwire run` has said already that the program runs on the kernel.
const NOTED: &str = "TICKWIRE_NOTED";

/// The exit status of a program that was not to run so (`EX_UNAVAILABLE`).
const UNAVAILABLE: i32 = 69;

/// Says why the program has no lane, and ends it if one was required.
pub(super) fn say(reason: Reason) {
    let is_on = |name| std::env::var_os(name).is_some_and(|value| value == "1");
    let program = program();
    if is_on(REQUIRE) {
        print(&format!("tickwire: {program} was ended at its first socket: {reason}"));
        std::process::exit(UNAVAILABLE);
    }
    if !is_on(NOTED) {
        let polled = if spin::does_poll() { ", polled" } else { "" };
        print(&format!("tickwire: {program} runs on the kernel's network stack{polled}: {reason}"));
    }
}

/// A program without a console has no standard error.
fn print(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}
