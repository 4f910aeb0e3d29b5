//! `tickwire testbed time`: a real clock in the program's own lab, compared with the true time.

use serde_json::Value;
use std::process::Command;
use tickwire_lab::tools;

#[test]
fn truth_is_within_the_bound_while_the_server_answers_and_when_it_has_fallen_silent() {
    let arguments = ["testbed", "time", "--intervals", "0.5", "--seconds", "4", "--reads", "4000", "--json"];
    let output = Command::new(tools::tickwire().unwrap()).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}{}", String::from_utf8_lossy(&output.stdout));
    assert!(said.contains("about 18 s for 2 rows of a real clock"), "{said}");
    let figures: Value = serde_json::from_slice(&output.stdout).unwrap();
    let [usual, silent] = &figures["rows"].as_array().unwrap()[..] else { panic!("{figures}") };
    for row in [usual, silent] {
        let found = &row["differences"];
        assert_eq!(
            (&row["origin"], &found["outside"], &found["missed"]),
            (&"lab".into(), &0.into(), &0.into()),
            "{row}"
        );
        let number = |name: &str| found[name].as_i64().unwrap();
        assert!(number("iterations") > 100, "{row}");
        assert!(number("min_ns") <= number("median_ns") && number("median_ns") <= number("max_ns"), "{row}");
    }
    assert_eq!((&usual["interval_s"], &usual["silent_after_s"]), (&0.5.into(), &Value::Null));
    assert_eq!(silent["silent_after_s"], 1.0);
    // The server counts the exchanges, not the clock.
    let exchanges = |row: &Value| row["exchanges"].as_u64().unwrap();
    assert!(exchanges(usual) >= 4, "{usual}");
    assert!(exchanges(silent) < exchanges(usual), "{silent}");
}
