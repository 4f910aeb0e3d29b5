//! Tests: runs whose nodes fail at each stage, lie, or try to flood memory and terminal.

use super::TestbedError;
use super::host::Hosts;
use super::remote::Remote;
use super::run::{RunOptions, run};
use super::testing::*;
use super::timeouts::Timeouts;
use crate::node::protocol::{NodeReport, Progress, StreamResult};
use crate::outcome::{Carrier, Run};
use crate::pattern::Pattern;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use tickwire_show::sanitize_terminal::is_obeyed;

/// Longer than a run can take, whatever nodes do.
const AT_ALL: Duration = Duration::from_secs(60);

/// The result of a run, which ends within [`AT_ALL`].
fn ends(hosts: Hosts, pattern: Pattern, options: RunOptions) -> Result<Run, String> {
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        let made = run(&hosts, &pattern, &options, &mut |_| ());
        let _ = sender.send(made.map(|(run, _)| run).map_err(|error| match error {
            TestbedError::Refused(why) => why,
            TestbedError::Broken(error) => panic!("{error:#}"),
        }));
    });
    ended.recv_timeout(AT_ALL).expect("it never ends")
}

fn of_two(consumer: &str, producer: &str) -> Result<Run, String> {
    ends(hosts(consumer, producer), pattern(1), options())
}

/// The only fault of a run.
#[track_caller]
fn fault(run: &Run) -> &str {
    assert!(!run.is_met());
    let [fault] = run.faults.as_slice() else { panic!("{:?}", run.faults) };
    fault
}

#[test]
fn what_honest_nodes_say_is_a_run() {
    let run = of_two(&consumer(&[all_received()]), &producer(&[MESSAGES])).unwrap();
    assert_eq!(run.faults, [""; 0]);
    assert!(run.is_met());
    assert_eq!((run.streams[0].sent, run.streams[0].latency.count), (MESSAGES, MESSAGES));
}

#[test]
fn nothing_that_was_not_measured_is_met() {
    let met = |received: StreamResult, sent: u64| of_two(&consumer(&[received]), &producer(&[sent])).unwrap();
    let some = |messages| StreamResult { messages, latency: vec![(1_000_000, messages)], ..StreamResult::default() };
    assert_eq!(
        fault(&met(some(7), 7)),
        "sensors: stream 1: of 10 messages it has sent 7, and does not say why",
        "all that was sent has come"
    );
    let unknown = StreamResult { latency: vec![(1_000_000, 3)], ..all_received() };
    assert_eq!(fault(&met(unknown, MESSAGES)), "daq: stream 1: of 10 messages it knows how long 3 took");
    let ahead = |ahead_ns| StreamResult { before_sent: 1, ahead_ns, ..all_received() };
    assert!(met(ahead(2_000), MESSAGES).is_met(), "within what both clocks say");
    let said = met(ahead(2_001), MESSAGES);
    assert!(fault(&said).starts_with("daq: stream 1: messages came up to 0.002001 ms before sensors sent"), "{said:?}");
}

#[test]
fn what_was_in_time_is_not_shown_as_later_than_its_deadline() {
    let just = |late| StreamResult { late, latency: vec![(4_999_999, MESSAGES)], ..all_received() };
    let worst = |late| of_two(&consumer(&[just(late)]), &producer(&[MESSAGES])).unwrap().streams[0].latency.max_ns;
    assert_eq!(worst(0), 5_000_000, "the deadline");
    assert!(worst(1) > 5_000_000, "a step of the histogram");
}

#[test]
fn impossible_figures_are_not_taken() {
    let much = StreamResult { late: u64::MAX, ..all_received() };
    let run = of_two(&consumer(&[much]), &producer(&[MESSAGES])).unwrap();
    assert!(fault(&run).starts_with("daq: it says what cannot be: 18446744073709551615 late messages"), "{run:?}");
    assert!(run.streams.is_empty(), "nothing was measured, which is not the same as lost");
    let run = of_two(&consumer(&[all_received(), all_received()]), &producer(&[MESSAGES])).unwrap();
    assert_eq!(fault(&run), "daq: it says what cannot be: figures of 2 streams, and it has 1");
    let early = [&begun(), HEAR, &say(&NodeReport::Progress { streams: vec![] }), HEAR].concat();
    let run = of_two(&early, &producer(&[MESSAGES])).unwrap();
    assert_eq!(fault(&run), "daq: it says what cannot be: figures of 0 streams, and it has 1");
}

#[test]
fn a_node_that_goes_at_any_stage_is_named_and_the_run_ends() {
    let good = consumer(&[all_received()]);
    // Before the start nothing is sent, and the run is refused.
    for (script, said) in [
        ("echo 'no tickwire here' >&2; exit 127", "sensors: the node ended (exit status: 127): no tickwire here"),
        (&hello(), "sensors: the node ended"),
        (&[&hello(), HEAR].concat(), "sensors: the node ended"),
    ] {
        let why = of_two(&good, script).unwrap_err();
        assert!(why.starts_with(said), "{why}");
    }
    // Later the failure is among the run's faults.
    let run = of_two(&good, &begun()).unwrap();
    assert!(run.faults[0].starts_with("sensors: the node ended"), "{run:?}");
    assert!(!run.is_met());
    for script in [&begun(), &[&begun(), HEAR].concat()] {
        let run = of_two(script, &producer(&[MESSAGES])).unwrap();
        assert!(fault(&run).starts_with("daq: the node ended"), "{run:?}");
    }
}

#[test]
fn a_node_that_falls_silent_at_any_stage_is_not_waited_for_for_ever() {
    let silent = "exec sleep 1000\n";
    let options = || RunOptions { timeouts: Timeouts { appears: Duration::from_secs(1), ..HASTY }, ..options() };
    let said = |consumer: &str, producer: &str| ends(hosts(consumer, producer), pattern(1), options());
    let daq = lively(1) + &consumer(&[all_received()])[begun().len()..];
    let sensors = producer(&[MESSAGES]);
    assert_eq!(said(silent, &sensors).unwrap_err(), "daq: no answer within 1 s");
    let stuck = [&hello(), silent].concat();
    assert_eq!(said(&stuck, &sensors).unwrap_err(), "daq: its sockets were not open within 2 s");
    let stuck = [&begun(), silent].concat();
    assert_eq!(fault(&said(&daq, &stuck).unwrap()), "sensors: nothing was heard of it for 2 s");
    let stuck = [&begun(), HEAR, silent].concat();
    assert_eq!(fault(&said(&stuck, &sensors).unwrap()), "daq: it did not say what it had got within 2 s");
}

/// The order exceeds a pipe's buffer: a direct write would block until it is read.
#[test]
fn a_node_that_takes_no_orders_blocks_no_other() {
    let deaf = [&hello(), "exec sleep 1000\n"].concat();
    let why = ends(hosts(&deaf, &producer(&[])), pattern(1000), options()).unwrap_err();
    assert_eq!(why, "daq: its sockets were not open within 2 s");
}

#[test]
fn endless_progress_of_a_node_blocks_no_other() {
    let progress = say(&NodeReport::Progress { streams: vec![Progress::default()] });
    let endless = [&begun(), "while :; do\n", &progress, "done\n"].concat();
    let run = of_two(&endless, &producer(&[MESSAGES])).unwrap();
    assert_eq!(fault(&run), "daq: it did not say what it had got within 2 s");
    let daq = lively(1) + &consumer(&[all_received()])[begun().len()..];
    let run = of_two(&daq, &endless).unwrap();
    assert_eq!(run.faults, ["producers had not sent all 2 s after the end", "sensors: it did not stop within 2 s"]);
}

#[test]
fn news_that_are_not_read_yet_wait_where_they_are() {
    let directory = tempfile::tempdir().unwrap();
    let done = directory.path().join("done");
    let progress = say(&NodeReport::Progress { streams: vec![] });
    let script = format!("yes \"$({progress})\" | head -c 10000000\ntouch {}\nexec sleep 1000", done.display());
    let place = place("daq", 1, &script);
    let mut remote = Remote::start(&place, place.node(None), 1, &HASTY).unwrap();
    assert!(matches!(remote.next(Instant::now() + AT_ALL), Ok(Some(NodeReport::Progress { .. }))));
    std::thread::sleep(Duration::from_millis(500));
    assert!(!done.exists(), "all of it was read");
}

#[test]
fn lines_are_no_longer_than_what_there_is_to_say() {
    let place = place("daq", 1, "head -c 10000000 /dev/zero | tr '\\0' '['; exec sleep 1000");
    let mut remote = Remote::start(&place, place.node(None), 4, &HASTY).unwrap();
    let error = remote.next(Instant::now() + AT_ALL).unwrap_err().to_string();
    assert!(error.contains("a line is longer than 4259840 bytes"), "{error}");
}

#[test]
fn nothing_that_a_node_says_reaches_the_terminal_as_it_is() {
    let nasty = "\x1b]0;owned\x07\u{202e}".repeat(1_000);
    let hello = say(&NodeReport::Hello { version: 1, program: nasty.clone(), host: nasty.clone(), pid: 1 });
    let failed = say(&NodeReport::Failed { why: nasty.clone() });
    let unknown =
        format!("printf '%s\\n' '{{\"{}\":1}}'\n", nasty.replace('\x1b', "\\u001b").replace('\x07', "\\u0007"));
    let stderr_tail = format!("printf '%s' '{nasty}' >&2; exit 1\n");
    for script in [hello, failed, unknown, stderr_tail] {
        let why = of_two(&script, &producer(&[MESSAGES])).unwrap_err();
        assert!(why.starts_with("daq: "), "{why:?}");
        assert!(!why.contains(is_obeyed) && why.chars().count() < 6_000, "{why:?}");
    }
    let received = StreamResult { fault: Some(nasty), ..all_received() };
    let run = of_two(&consumer(&[received]), &producer(&[MESSAGES])).unwrap();
    assert!(!fault(&run).contains(is_obeyed), "{run:?}");
}

#[test]
fn of_a_thousand_faults_the_first_are_told_and_how_many_more() {
    let wrong = || StreamResult { fault: Some("it ended".into()), ..all_received() };
    let received: Vec<StreamResult> = (0..30).map(|_| wrong()).collect();
    let script = consumer(&received);
    let run = ends(hosts(&script, &producer(&[MESSAGES; 30])), pattern(30), options()).unwrap();
    assert_eq!((run.faults.len(), run.faults.last().unwrap().as_str()), (21, "and 10 more"));
}

#[test]
fn nodes_that_hang_are_let_go_of_together() {
    let hangs = [&begun(), "trap '' HUP TERM\nexec sleep 1000\n"].concat();
    let producers = (2..12).map(|last| (place(&format!("p{last}"), last, &hangs), vec![u16::from(last)]));
    let daq = lively(10) + HEAR + "exec sleep 1000\n";
    let hosts = Hosts { producers: producers.collect(), ..hosts(&daq, "") };
    let mut pattern = pattern(10);
    for (stream, producer) in pattern.streams.iter_mut().zip(2..) {
        stream.producer = producer;
    }
    let begin = Instant::now();
    let run = ends(hosts, pattern, options()).unwrap();
    assert!(run.faults.iter().filter(|fault| fault.contains("nothing was heard")).count() == 10, "{run:?}");
    // 2 s of silence, 2 s for the consumer's figures, 1 s until the nodes are killed; one after the
    // other it would be 10.
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[test]
fn clocks_that_cannot_judge_a_deadline_are_refused() {
    let ready = |now_ns, bound_ns| {
        [&hello(), HEAR, &say(&NodeReport::Ready { now_ns, bound_ns: Some(bound_ns) }), HEAR].concat()
    };
    // The deadline is 5 ms.
    let why = of_two(&ready(0, 2_000_000), &ready(0, 3_000_000)).unwrap_err();
    assert!(
        why.starts_with("sensors: its clock and that of daq may be 5 ms apart, and stream 1 has a deadline of 5 ms"),
        "{why}"
    );
    let why = of_two(&ready(0, u64::MAX), &ready(0, u64::MAX)).unwrap_err();
    assert!(why.contains("could not be judged"), "{why}");
    let why = of_two(&ready(i64::MAX, 0), &ready(i64::MIN, 0)).unwrap_err();
    assert!(why.contains("give both the same time servers"), "{why}");
}

#[test]
fn clocks_that_cannot_judge_a_deadline_any_more_at_the_end_are_told() {
    // The deadline is 5 ms; both clocks began with a bound of 1 us.
    let run = |consumer_ns, producer_ns| {
        let daq = consumer_with_clock(&[all_received()], consumer_ns);
        of_two(&daq, &producer_with_clock(&[MESSAGES], producer_ns)).unwrap()
    };
    assert!(run(2_000_000, 2_999_999).is_met());
    for (consumer_ns, producer_ns, apart) in
        [(2_000_000, 3_000_000, "5 ms"), (u64::MAX, 0, "an unknown time"), (0, u64::MAX, "an unknown time")]
    {
        let run = run(consumer_ns, producer_ns);
        let said = format!(
            "sensors: its clock and that of daq may have come to be {apart} apart meanwhile, and stream 1 has a deadline of 5 ms"
        );
        assert!(fault(&run).starts_with(&said), "{run:?}");
    }
    let ahead = StreamResult { before_sent: 1, ahead_ns: 4_000_000, ..all_received() };
    let daq = consumer_with_clock(&[ahead], 4_000_000);
    assert!(of_two(&daq, &producer(&[MESSAGES])).unwrap().is_met(), "it is within what both clocks say at the end");
}

/// A service that reports `on_lane` sockets of the node of [`PID`] on its lane, each time with more
/// packets diverted; and the node.
fn served(on_lane: usize, before: &str, node: &str) -> String {
    let sockets =
        (0..2).map(|number| format!("{{\"accelerated\":{}}}", number < on_lane)).collect::<Vec<_>>().join(",");
    let lanes = format!("[{{\"pid\":{PID},\"sockets\":[{sockets}]}}]");
    let stat = format!("printf '{{\"host\":{{\"counters\":{{\"diverted\":%s}}}},\"lanes\":{lanes}}}' $(date +%s%N)");
    format!("case $4 in *stat*) {before}\n{stat}\nexit;; esac\n{node}")
}

fn on_tickwire(daq: &str) -> Result<Run, String> {
    let options = RunOptions { carrier: Carrier::Tickwire, ..options() };
    ends(hosts(daq, &producer(&[MESSAGES; 2])), pattern(2), options)
}

#[test]
fn a_run_in_which_a_socket_was_not_on_the_lane_is_a_failed_one() {
    let node = consumer(&[all_received(), all_received()]);
    let run = on_tickwire(&served(2, "", &node)).unwrap();
    assert!(run.is_met() && run.diverted > Some(0), "{run:?}");
    assert_eq!(run.accelerated, Some((2, 2)));
    let run = on_tickwire(&served(1, "", &node)).unwrap();
    assert!(fault(&run).starts_with("daq: only 1 of its 2 sockets were on its lane"), "{run:?}");
}

#[test]
fn a_service_that_does_not_answer_is_not_waited_for_for_ever() {
    let why = on_tickwire(&served(2, "exec sleep 1000", &consumer(&[]))).unwrap_err();
    assert_eq!(why, "daq: `tickwire stat` did not answer within 2 s");
    let why = on_tickwire(&served(2, "exec yes", &consumer(&[]))).unwrap_err();
    assert!(why.starts_with("daq: `tickwire stat` "), "{why}");
}

#[test]
fn however_long_services_take_to_answer_the_start_is_still_to_come_when_nodes_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let order = directory.path().join("order");
    let begun = [&begun(), &format!("printf '%s' \"$order\" > {}\n", order.display()), HEAR].concat();
    let rest = super::testing::begun().len() + HEAR.len();
    let answer = begun + &consumer(&[all_received(), all_received()])[rest..];
    let run = on_tickwire(&served(2, "sleep 0.7", &answer)).unwrap();
    assert!(run.is_met(), "{run:?}");
    // The clock showed 0 when it was read.
    let told = std::fs::read_to_string(order).unwrap();
    let start: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert!(start["start"]["at_ns"].as_i64().unwrap() >= 750_000_000, "{told}");
}
