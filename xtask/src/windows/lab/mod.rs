//! `cargo xtask windows lab`: Windows programs on hosts of the lab, under Wine. Each case has a lab
//! of its own.

mod added_service;
mod afd;
mod capture;
mod card;
mod clock;
mod events;
mod exits;
mod lane;
mod overlapped;
mod plain;
mod polled;
mod program;
mod replaced;
mod service_clock;
mod testbed;
mod windivert;

pub(super) use program::Hosts;

use super::build::{self, Needs, Profile};
use super::{lab_card, lab_programs, real_windivert, stress, suite, wine};
use crate::{deps, prepare, workspace};
use anyhow::{Result, ensure};
use std::time::Instant;

/// Which cases.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only cases whose name contains this
    filter: Option<String>,
}

/// A case: its name, and what it does.
type Case = (&'static str, fn() -> Result<()>);

const CASES: &[Case] = &[
    ("a_lab_card_has_the_packets_of_claimed_ports", card::claims),
    ("a_program_and_the_service_share_a_lane", lane::echo),
    ("a_program_and_the_service_share_a_lane_by_windivert", lane::echo_by_windivert),
    ("windivert_takes_claimed_ports_and_gives_back_the_rest", windivert::claims),
    ("windiverts_own_library_compiles_the_filters", windivert::filters),
    ("a_service_without_a_driver_says_what_is_missing", windivert::missing),
    ("the_peers_of_killed_programs_are_told", lane::killed),
    ("a_plain_client_runs_on_the_lane", plain::client),
    ("a_plain_server_runs_on_the_lane", plain::server),
    ("a_server_that_the_firewall_blocks_stays_on_the_kernel", plain::blocked_server),
    ("connections_open_no_handle_of_windivert", plain::connections_by_windivert),
    ("a_plain_client_runs_on_the_lane_by_windivert", plain::client_by_windivert),
    ("a_plain_server_runs_on_the_lane_by_windivert", plain::server_by_windivert),
    ("overlapped_requests_of_a_client_run_on_the_lane", overlapped::client),
    ("overlapped_requests_of_a_server_run_on_the_lane", overlapped::server),
    ("a_client_is_told_of_network_events", events::client),
    ("a_server_is_told_of_network_events", events::server),
    ("a_client_polls_the_driver_of_sockets", afd::client),
    ("a_server_polls_the_driver_of_sockets", afd::server),
    ("polls_go_on_without_the_service", afd::without_service),
    ("what_was_sent_arrives_after_the_end_of_a_process", exits::ends),
    ("winsock_is_as_on_the_kernel", suite::in_lab),
    ("48_streams_come_whole_to_a_consumer_on_windows", testbed::consumer),
    ("the_program_runs_others_and_shows_them", program::accelerated),
    ("the_program_finds_windivert", program::by_windivert),
    ("the_program_says_what_is_missing", program::bad_input),
    ("streams_connections_and_kills_leave_nothing_behind", stress::small),
    ("the_program_is_a_service_of_windows", program::managed),
    ("a_capture_has_the_packets_of_a_lane", capture::recorded),
    ("programs_without_a_driver_poll_the_kernels_sockets", polled::without_driver),
    ("waits_end_in_time_with_and_without_polling", polled::waits),
    ("a_service_of_windows_is_added_and_removed", added_service::added),
    ("replacement_dlls_bring_a_program_to_the_lane", replaced::by_replacements),
    ("a_clock_keeps_its_bound", clock::keeps_its_bound),
    ("the_service_keeps_the_clock", service_clock::kept),
    ("windivert_stamps_packets_of_ntp", service_clock::stamped_by_windivert),
];

/// Runs the cases, after building what they need and becoming root.
pub(crate) fn run(options: &Options) -> Result<()> {
    if !prepare::is_done() {
        return prepare();
    }
    let is_asked_for = |(name, _): &&Case| options.filter.as_deref().is_none_or(|filter| name.contains(filter));
    let (mut passed, mut failed) = (0, 0);
    for (name, case) in CASES.iter().filter(is_asked_for) {
        let begin = Instant::now();
        let result = case();
        let seconds = begin.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                passed += 1;
                println!("test {name} ... ok ({seconds:.1} s)");
            }
            Err(error) => {
                tickwire_lab::wait_if_interrupted();
                failed += 1;
                println!("test {name} ... FAILED ({seconds:.1} s)\n{error:#}");
            }
        }
    }
    // In the words of Rust's own test programs.
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {verdict}. {passed} passed; {failed} failed");
    ensure!(failed == 0, "cases failed");
    Ok(())
}

/// Returns only on failure.
fn prepare() -> Result<()> {
    workspace::ask_for_root()?;
    build_for(&build::LAB)?;
    // To build the testbed, and to run it.
    deps::install(&deps::LAB)?;
    super::testbed::build_for_linux(Profile::Debug)?;
    build::example_for_linux("tickwire-clock-reference", "reference", Profile::Debug)?;
    real_windivert::get()?;
    super::windivert::build(&lane::program("lab_service")?)?;
    clock::build()?;
    suite::build_program()?;
    workspace::again_as_root(&workspace::target()?.join("debug"))
}

/// Installs and builds what plain Windows programs on the lane need.
pub(super) fn build() -> Result<()> {
    build_for(&build::LANE)
}

fn build_for(needs: &Needs) -> Result<()> {
    deps::install(&deps::WINDOWS)?;
    deps::install(&deps::WINDOWS_LAB)?;
    super::add_target()?;
    wine::make()?;
    lab_card::build()?;
    build::for_windows(needs, Profile::Debug)?;
    super::replacement::build()?;
    lab_programs::build()
}
