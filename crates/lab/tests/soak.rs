//! The endurance test in the lab, for a few seconds: a check that it works.

use std::process::Command;
use std::time::Duration;
use tickwire_lab::{Process, tools};

#[test]
fn a_short_round_of_the_endurance_test_in_the_lab_finds_nothing() {
    let xtask = tools::built("xtask").unwrap();
    let mut soak = Command::new(&xtask);
    // A seed whose five events are of five kinds.
    soak.args(["soak", "lab", "--seconds", "0", "--seed", "427", "--events", "5", "--json"]);
    soak.env(tools::DIRECTORY_VARIABLE, xtask.parent().unwrap());
    let mut soak = Process::spawn(soak).unwrap();
    let printed = soak.success(Duration::from_secs(120)).unwrap();
    let told = soak.stderr();
    for event in
        ["eth0 of a is down", "MTU 1400", "talker 18 is killed", "service of a is killed", "a talker on a starts"]
    {
        assert!(told.contains(event), "{told}");
    }
    let sums: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!((&sums["rounds"], &sums["events"]), (&1.into(), &5.into()), "{sums}");
    assert!(sums["streams"]["ok"].as_u64() > Some(10) && sums["lanes_audited"].as_u64() > Some(0), "{sums}");
}
