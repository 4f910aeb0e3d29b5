use super::line::VERSION;
use super::replay::{Fault, LONGEST, replay_from};
use super::*;
use serde_json::Value;
use std::path::Path;
use tickclock::{Count, Nanos, Scale};
use tickwire_clock::Ensemble;
use tickwire_clock::ensemble::leap::Announcement;
use tickwire_clock::ensemble::table::Table;
use tickwire_clock::ensemble::{self, SourceConfig};

/// A record of a simulated hour: wander, lost replies, another path, a break of the counter,
/// and a server that lies.
fn record() -> Vec<u8> {
    use tickwire_sim::{Oscillator, OscillatorWander, SimulatedTimeServer};
    let nominal = Scale::from_period(0.4).unwrap();
    let config = ensemble::EnsembleConfig {
        nominal,
        rate_error: 100e-6,
        holdover_after: 10_000_000_000,
        fresh_for: 5_000_000_000,
        tai_offset: None,
    };
    let known = [0.1, 1.0 / 3.0, 0.0].map(|asymmetry| SourceConfig { asymmetry, smeared: false });
    let unix = |seconds: i64| Nanos(seconds * SECOND);
    let table = Table::new(vec![(unix(1_483_228_800), 37)], unix(1_800_000_000)).unwrap();
    let mut bytes = Vec::new();
    let mut recorder = ExchangeRecorder::new(&mut bytes);
    let names: Vec<_> = ["a", "b", "c"].into_iter().zip(known).collect();
    recorder.begin(&config, "TSC", &names, Some(&table), (3, Count(7))).unwrap();
    let mut ensemble = Ensemble::new(config, &known).after(3, Count(7));
    ensemble.set_leap_table(table);
    let mut oscillator = Oscillator::new(2.5e9, OscillatorWander::OFFICE, 1);
    let mut servers = [1, 2, 3].map(SimulatedTimeServer::new);
    servers[1].loss = 300_000;
    servers[2].error = 5e6;
    for second in 0..3600 {
        if second == 1800 {
            servers[0].forth.least += 50_000.0;
            oscillator.jump(-1_000_000_000);
            let now = oscillator.now();
            let count = oscillator.count(now);
            ensemble.disrupt(count);
            recorder.disruption(count).unwrap();
        }
        if second == 900 {
            ensemble.set_silence_timeout(0, 1_000_000_000);
            recorder.silence_timeout(0, 1_000_000_000).unwrap();
        }
        for (number, server) in servers.iter_mut().enumerate() {
            let at = f64::from(second) + 0.01 * number as f64;
            let Some(exchange) = server.exchange(at, &mut oscillator) else { continue };
            recorder.exchange(number, &exchange, Announcement::None).unwrap();
            let _ = ensemble.exchange(number, &exchange, Announcement::None);
            let now = oscillator.now();
            recorder.page(&ensemble.parameters(oscillator.count(now))).unwrap();
        }
    }
    bytes
}

#[test]
fn a_replay_gives_the_same_pages_to_the_last_bit() {
    let record = record();
    let mut pages = 0;
    let replayed = replay_from(&*record, |_| pages += 1).unwrap();
    assert_eq!((replayed.different, replayed.disruptions, replayed.cut), (0, 1, false));
    assert!(replayed.pages > 9_000 && replayed.pages == pages && replayed.used > 9_000, "{replayed:?}");
    assert_eq!(replayed.servers, ["a", "b", "c"]);
    let cut = replay_from(&record[..record.len() - 10], |_| ()).unwrap();
    assert!(cut.cut && cut.pages == replayed.pages - 1);
}

#[test]
fn what_was_changed_afterwards_shows() {
    let text = String::from_utf8(record()).unwrap();
    let lines: Vec<_> = text.lines().collect();
    let place = 1 + lines.iter().position(|line| line.starts_with("{\"page\"")).unwrap();
    let changed = text.replacen("\"fresh_until\":", "\"fresh_until\":1", 1);
    let replayed = replay_from(changed.as_bytes(), |_| ()).unwrap();
    assert_eq!((replayed.different, replayed.first_different), (1, Some(place)));
}

/// The paths of the numbers in a line.
fn figures(value: &Value, at: &str, to: &mut Vec<String>) {
    match value {
        Value::Number(_) => to.push(at.into()),
        Value::Array(all) => all.iter().enumerate().for_each(|(i, value)| figures(value, &format!("{at}/{i}"), to)),
        Value::Object(all) => all.iter().for_each(|(name, value)| figures(value, &format!("{at}/{name}"), to)),
        _ => {}
    }
}

#[test]
fn no_figure_makes_a_replay_panic() {
    let record = String::from_utf8(record()).unwrap();
    let mut lines: Vec<_> = record.lines().take(64).map(|line| serde_json::from_str::<Value>(line).unwrap()).collect();
    lines.push(serde_json::json!({"silence_timeout": {"server": 1, "ns": 130_000_000_000_i64}}));
    let others = [0.into(), 1.into(), (-1).into(), i32::MAX.into(), i64::MAX.into(), i64::MIN.into(), u64::MAX.into()];
    let others: Vec<Value> = others.into_iter().chain([1e308.into(), 1e-308.into()]).collect();
    let mut replays = 0;
    // The beginning, an exchange and its page, the same much later, and the last line.
    for line in [0, 1, 2, 61, 62, 64] {
        let mut places = Vec::new();
        figures(&lines[line], "", &mut places);
        for (place, other) in places.iter().flat_map(|place| others.iter().map(move |other| (place, other))) {
            let mut changed = lines.clone();
            *changed[line].pointer_mut(place).unwrap() = other.clone();
            let text: String = changed.iter().map(|line| format!("{line}\n")).collect();
            // Replayed or refused, both will do.
            let _ = replay_from(text.as_bytes(), |_| ());
            replays += 1;
        }
    }
    assert!(replays > 500, "{replays}");
}

#[test]
fn what_is_something_else_is_told_in_a_sentence() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let said = |path: &Path| replay(path, |_| ()).unwrap_err().to_string();
    let no_record = |path: &Path, why: &str| {
        let path = path.display();
        format!("{path} is no record of a clock, such as `tickwire clock run --record` writes: {why}")
    };
    let refused = said(directory.path());
    // Windows opens no directory as a file.
    assert!(refused == no_record(directory.path(), "it is a directory") || cfg!(windows), "{refused}");
    let long = vec![b'x'; LONGEST + 1];
    for (bytes, why) in [
        (&b""[..], "it is empty"),
        (b"To be or not to be\nthat is the question\n", "its first line does not say how a clock was set up"),
        (b"\x7fELF\0\xff\xfe", "its first line does not say how a clock was set up"),
        (&long, "its first line does not say how a clock was set up"),
        (b"{\"disruption\":{\"at\":1}}\n", "its first line does not say how a clock was set up"),
        (b"{\"begin\":{\"version\":4", "its first line does not say how a clock was set up"),
    ] {
        std::fs::write(&file, bytes).unwrap();
        assert_eq!(said(&file), no_record(&file, why));
    }
    std::fs::remove_file(&file).unwrap();
    assert!(said(&file).starts_with("cannot read "), "{}", said(&file));
}

#[test]
fn what_is_wrong_in_a_record_is_told_with_its_line() {
    let record = String::from_utf8(record()).unwrap();
    let begin = record.lines().next().unwrap();
    let long = format!("{begin}\n{}\n", "x".repeat(LONGEST + 1));
    for (text, number, words) in [
        ("{\"begin\":{\"version\":3,\"counter\":\"TSC\"}}\n", 1, "of version 3, this program replays version"),
        (&begin.replace(&format!("\"version\":{VERSION}"), "\"version\":9").add("\n"), 1, "of version 9"),
        (&begin.replace("\"nominal\":[", "\"nominal\":[9").add("\n"), 1, "no counter's"),
        (&begin.replace("\"rate_error\":0.0001", "\"rate_error\":1.0").add("\n"), 1, "1e-12 and 0.01"),
        (&begin.replace("\"fresh_for_ns\":", "\"fresh_for_ns\":-").add("\n"), 1, "is negative"),
        (&begin.replace("\"tai_offset_s\":null", "\"tai_offset_s\":1001").add("\n"), 1, "0 and 1000"),
        (&begin.replace("\"asymmetry_ns\":0.1", "\"asymmetry_ns\":1.1e9").add("\n"), 1, "more than a second"),
        (&begin.replace("\"counter\"", "\"clock\"").add("\n"), 1, "it is no line of a record: unknown field"),
        (&format!("{begin}\n{begin}\n"), 2, "for a second time"),
        (&format!("{begin}\n{{\"page\":{{}}}}\n"), 2, "missing field"),
        (
            &format!(
                "{}\n",
                record.lines().take(2).collect::<Vec<_>>().join("\n").replace("{\"server\":0", "{\"server\":7")
            ),
            2,
            "there is no server 7",
        ),
        (&format!("{begin}\n{{\"silence_timeout\":{{\"server\":3,\"ns\":1}}}}\n"), 2, "there is no server 3"),
        (&long, 2, "longer than any line"),
    ] {
        match replay_from(text.as_bytes(), |_| ()) {
            Err(Fault::Wrong(line, what)) => {
                assert!(line == number && what.contains(words), "{words}: {line}: {what}")
            }
            other => panic!("{words}: {other:?}"),
        }
    }
}

trait Add {
    fn add(self, end: &str) -> String;
}

impl Add for String {
    fn add(self, end: &str) -> String {
        self + end
    }
}
