//! `tickwire jitter` in the lab that it makes itself: both paths, with the check that each was
//! used.

use nix::sys::signal::Signal;
use serde_json::Value;
use std::process::Command;
use std::time::Duration;
use tickwire_lab::{Process, run, tools};

const TIMEOUT: Duration = Duration::from_secs(60);

fn jitter(arguments: &[&str]) -> Process {
    let mut command = Command::new(tools::tickwire().unwrap());
    command.arg("jitter").args(arguments);
    Process::spawn(command).unwrap()
}

#[test]
fn both_paths_are_measured_by_one_method_and_the_lane_proves_which() {
    let told = jitter(&["--samples", "50", "--load", "none", "--json"]).success(TIMEOUT).unwrap();
    let study: Value = serde_json::from_str(&told).unwrap();
    let profiles = study["profiles"].as_array().unwrap();
    let text = |profile: &Value, field: &str| profile[field].as_str().unwrap_or("-").to_owned();
    let found: Vec<[String; 3]> = profiles
        .iter()
        .filter(|one| one["quantity"] != "clock_readout")
        .map(|one| ["quantity", "wait", "carrier"].map(|field| text(one, field)))
        .collect();
    let expected = [
        ["call_to_driver", "-", "kernel"],
        ["instant_to_driver", "watch", "kernel"],
        ["instant_to_driver", "sleep", "kernel"],
        ["call_to_peer", "-", "kernel"],
        ["instant_to_peer", "watch", "kernel"],
        ["instant_to_peer", "sleep", "kernel"],
        ["call_to_peer", "-", "tickwire"],
        ["instant_to_peer", "watch", "tickwire"],
        ["instant_to_peer", "sleep", "tickwire"],
    ];
    assert_eq!(found, expected, "{told}");
    for one in profiles {
        assert_eq!((&one["samples"], &one["missing"]), (&50.into(), &0.into()), "a cable loses nothing: {one}");
        let ns = |field: &str| one[field].as_i64().unwrap();
        assert!(ns("p50_ns") > 0 && ns("min_ns") > -1_000 && ns("jitter_ns") == ns("max_ns") - ns("min_ns"), "{one}");
        // The warm-up used the lane, too.
        let by_lane = one["lane_packets"].as_u64();
        assert_eq!(by_lane.is_some(), one["carrier"] == "tickwire", "{one}");
        assert!(by_lane.is_none_or(|packets| packets >= 250), "{one}");
    }
    let absent: Vec<String> = study["absent"].as_array().unwrap().iter().map(|one| text(one, "name")).collect();
    assert!(absent.contains(&"stamps on the wire".to_owned()), "{absent:?}");
    assert!(!absent.iter().any(|name| name.contains("Tickwire")), "{told}");
}

#[test]
fn nothing_is_left_of_a_measurement_that_is_interrupted() {
    let directory = std::env::current_dir().unwrap();
    let files = || std::fs::read_dir(&directory).unwrap().count();
    let before = files();
    let mut jitter = jitter(&["--load", "cpu+disk", "--samples", "100000"]);
    let namespaces = format!("twlab-{}-", jitter.id());
    let ours = || run(&["ip", "netns", "list"]).unwrap().lines().filter(|name| name.starts_with(&namespaces)).count();
    tools::until("its lab is there", TIMEOUT, || ours() == 2).unwrap();
    let host = format!("{namespaces}0-a");
    let senders = || run(&["ip", "netns", "pids", &host]).is_ok_and(|pids| pids.lines().count() >= 2);
    tools::until("it sends beside its service", TIMEOUT, senders).unwrap();
    jitter.signal(Signal::SIGINT).unwrap();
    let ended = jitter.wait(TIMEOUT).unwrap();
    assert_eq!((ended.status.code(), ended.stdout.as_str()), (Some(130), ""), "{}", ended.stderr);
    assert_eq!((ours(), files()), (0, before));
}
