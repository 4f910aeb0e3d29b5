//! Prometheus' text format, version 0.0.4.

use std::collections::BTreeSet;
use std::fmt::Write;

/// The content type of the text.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// It rises and falls.
    Gauge,
    /// It only rises, or starts again.
    Counter,
}

/// The labels of a sample, in the order in which they are written.
pub type Labels = Vec<(&'static str, String)>;

/// Metrics as text. All names begin with the same prefix.
#[derive(Clone, Debug)]
pub struct Exposition {
    prefix: &'static str,
    text: String,
}

impl Exposition {
    /// An empty text.
    #[must_use]
    pub const fn new(prefix: &'static str) -> Self {
        Self { prefix, text: String::new() }
    }

    /// Writes a metric with all of its samples; nothing if it has none. Prometheus rejects two
    /// samples with the same labels, so only the first is written.
    pub fn family(
        &mut self,
        name: &str,
        kind: MetricKind,
        help: &str,
        samples: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let prefix = self.prefix;
        let kind = match kind {
            MetricKind::Gauge => "gauge",
            MetricKind::Counter => "counter",
        };
        let mut known = BTreeSet::new();
        for (labels, value) in samples {
            let labels = written(&labels);
            // Writing to a string does not fail.
            if known.is_empty() {
                let help = escaped(help, false);
                let _ = writeln!(self.text, "# HELP {prefix}{name} {help}\n# TYPE {prefix}{name} {kind}");
            }
            if !known.contains(&labels) {
                let _ = writeln!(self.text, "{prefix}{name}{labels} {}", number(value));
                known.insert(labels);
            }
        }
    }

    /// Writes a metric that has no labels; nothing if its value is not known.
    pub fn single(&mut self, name: &str, kind: MetricKind, help: &str, value: Option<f64>) {
        self.family(name, kind, help, value.map(|value| (Labels::new(), value)));
    }

    /// Appends the metrics of another text, whose names must be different.
    pub fn append(&mut self, other: &Self) {
        self.text += &other.text;
    }

    /// The text.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }
}

fn written(labels: &Labels) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let one = |(name, value): &(&str, String)| format!("{name}=\"{}\"", escaped(value, true));
    format!("{{{}}}", labels.iter().map(one).collect::<Vec<_>>().join(","))
}

/// A text with the escapes of the format. Quotation marks are escaped in labels only. The format
/// allows other control characters than the line feed, but a terminal would obey them, so they are
/// written out.
fn escaped(text: &str, label: bool) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\\' => escaped += "\\\\",
            '\n' => escaped += "\\n",
            '"' if label => escaped += "\\\"",
            _ if c.is_control() => {
                escaped.push('\\');
                escaped.extend(c.escape_unicode());
            }
            _ => escaped.push(c),
        }
    }
    escaped
}

/// A value as Go's `ParseFloat` reads it.
fn number(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else if value.is_nan() {
        "NaN".to_owned()
    } else if value > 0.0 {
        "+Inf".to_owned()
    } else {
        "-Inf".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(value: &str) -> Labels {
        vec![("name", value.to_owned()), ("unit", "s".to_owned())]
    }

    #[test]
    fn a_family_has_its_help_and_type_once_and_none_without_samples() {
        let mut metrics = Exposition::new("x_");
        metrics.family("none", MetricKind::Gauge, "Not written.", []);
        metrics.single("unknown", MetricKind::Gauge, "Not written.", None);
        metrics.family("late_total", MetricKind::Counter, "Late ones.", [(labels("a"), 3.0), (labels("b"), 0.25)]);
        metrics.single("up", MetricKind::Gauge, "Whether it runs.", Some(1.0));
        let late = "# HELP x_late_total Late ones.\n# TYPE x_late_total counter\nx_late_total{name=\"a\",unit=\"s\"} 3\nx_late_total{name=\"b\",unit=\"s\"} 0.25\n";
        let up = "# HELP x_up Whether it runs.\n# TYPE x_up gauge\nx_up 1\n";
        assert_eq!(metrics.text(), format!("{late}{up}"));
        let mut other = Exposition::new("y_");
        other.single("up", MetricKind::Gauge, "Whether it runs.", Some(0.0));
        metrics.append(&other);
        assert!(metrics.text().ends_with("x_up 1\n# HELP y_up Whether it runs.\n# TYPE y_up gauge\ny_up 0\n"));
    }

    #[test]
    fn of_two_samples_with_the_same_labels_the_first_is_written() {
        let mut metrics = Exposition::new("");
        metrics.family("one", MetricKind::Gauge, "One.", [(labels("a"), 1.0), (labels("b"), 2.0), (labels("a"), 3.0)]);
        assert_eq!(metrics.text().matches("one{name=\"a\"").count(), 1, "{}", metrics.text());
        assert!(metrics.text().contains("one{name=\"a\",unit=\"s\"} 1\n"), "{}", metrics.text());
    }

    #[test]
    fn nothing_in_a_value_or_a_help_ends_its_line_or_its_quotation_marks() {
        let mut metrics = Exposition::new("");
        metrics.family("one", MetricKind::Gauge, "A \"b\" \\ c\nd", [(labels("a\\b\"c\nd\x1b[2J\r日本"), 1.0)]);
        let sample = r#"one{name="a\\b\"c\nd\\u{1b}[2J\\u{d}日本",unit="s"} 1"#;
        assert_eq!(metrics.text(), format!("# HELP one A \"b\" \\\\ c\\nd\n# TYPE one gauge\n{sample}\n"));
    }

    #[test]
    fn numbers_are_those_that_prometheus_reads() {
        let told = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.5, 1e-7, 1.0, 123_456_789.0].map(number);
        assert_eq!(told, ["NaN", "+Inf", "-Inf", "-0.5", "0.0000001", "1", "123456789"]);
        for extreme in [f64::MIN, f64::MAX, f64::MIN_POSITIVE] {
            assert_eq!(number(extreme).parse(), Ok(extreme));
        }
    }
}
