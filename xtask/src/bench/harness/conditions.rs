//! The conditions of a measurement: figures without them cannot be compared with others.

use super::host_state::HostState;
use super::report::joined;
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;

/// The conditions that every measurement has.
pub(crate) struct Conditions {
    /// The state of the machine meanwhile, if it was watched.
    pub(crate) state: Option<HostState>,
    /// From [`tickwire_report::machine`].
    pub(crate) machine: String,
    /// How divert was attached.
    pub(crate) attach: String,
    /// What else was set.
    pub(crate) set: Vec<String>,
    pub(crate) rounds: u32,
    /// What a round of a row consists of.
    pub(crate) round: String,
    /// The wall-clock time of the whole run.
    pub(crate) took: Duration,
}

impl Conditions {
    /// Those of a run on this machine, which took so long; it was not watched, and nothing else was
    /// set.
    pub(crate) fn new(attach: &str, rounds: u32, round: String, took: Duration) -> Self {
        let machine = tickwire_report::machine();
        Self { state: None, machine, attach: attach.to_owned(), set: Vec::new(), rounds, round, took }
    }

    /// The same, with the state of the machine meanwhile.
    pub(crate) fn watched(self, state: HostState) -> Self {
        Self { state: Some(state), ..self }
    }

    /// For the JSON file, beside the fields of the measurement itself.
    pub(crate) fn json(&self, own: Value) -> Value {
        let Self { state, machine, attach, rounds, took, .. } = self;
        let all = json!({ "machine": machine, "attach": attach, "rounds": rounds, "took_seconds": took.as_secs_f64() });
        let state = state.as_ref().map_or(json!({}), |state| json!({ "host": state }));
        joined(joined(all, state), own)
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { state, machine, attach, set, rounds, round, took } = self;
        if let Some(state) = state {
            writeln!(f, "{state}")?;
        }
        writeln!(f, "{machine}")?;
        write!(f, "divert attached: {attach}; ")?;
        set.iter().try_for_each(|set| write!(f, "{set}; "))?;
        write!(f, "{rounds} rounds of {round}; took {} s", took.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_come_with_the_conditions_they_were_taken_under() {
        let mut conditions = Conditions {
            machine: "a machine".into(),
            set: vec!["the kernels use cubic".into()],
            ..Conditions::new("native", 5, "2 s".into(), Duration::from_millis(61_500))
        }
        .watched(HostState { wakeup_us: Some(5.0), load_before: None, stolen_percent: None });
        let last = "a machine\ndivert attached: native; the kernels use cubic; 5 rounds of 2 s; took 61 s";
        let shown = conditions.to_string();
        assert!(shown.starts_with("a wakeup costs 5.0 us here") && shown.ends_with(&format!("\n{last}")), "{shown}");
        let written = conditions.json(json!({ "seconds": 2 }));
        assert_eq!((&written["machine"], &written["took_seconds"]), (&json!("a machine"), &json!(61.5)));
        assert_eq!((&written["host"]["wakeup_us"], &written["seconds"]), (&json!(5.0), &json!(2)));
        conditions.state = None;
        assert_eq!(conditions.to_string(), last);
        assert!(conditions.json(json!({})).get("host").is_none());
    }
}
