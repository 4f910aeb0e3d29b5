//! A service's log: one line for each event, with `name=value` fields after the message.

use std::fmt::Debug;
use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::debug_fn;

/// Initialises the log on standard error; `RUST_LOG` sets its level.
pub fn begin() {
    let log = tracing_subscriber::fmt()
        .with_env_filter(level())
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .fmt_fields(fields());
    // The journal has timestamps of its own.
    if std::env::var_os("JOURNAL_STREAM").is_some() { log.without_time().init() } else { log.init() }
}

/// Initialises the log in a file.
pub fn begin_in(file: impl Write + Send + 'static) {
    let log = tracing_subscriber::fmt().with_env_filter(level()).with_writer(Mutex::new(file)).with_ansi(false);
    log.with_target(false).fmt_fields(fields()).init();
}

fn level() -> EnvFilter {
    let filter = EnvFilter::builder().with_default_directive(tracing_subscriber::filter::LevelFilter::INFO.into());
    filter.from_env_lossy()
}

/// How the fields of an event are written.
fn fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    debug_fn(|writer, field, value| match field.name() {
        "message" => write!(writer, "{value:?}"),
        name => write!(writer, "{name}={}", word(value)),
    })
    .delimited(" ")
}

/// A value as one word of the line, quoted if it is not one: programs choose their own names.
fn word(value: &dyn Debug) -> String {
    let text = format!("{value:?}");
    let quoted = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    // The `Debug` form of text has quotes already, and its control characters are escaped.
    let inner = if quoted { &text[1..text.len() - 1] } else { &text };
    let plain =
        !inner.is_empty() && !inner.contains(|c: char| c.is_whitespace() || c.is_control() || "\"\\=".contains(c));
    match (plain, quoted && !inner.contains(char::is_control)) {
        (true, _) => inner.to_owned(),
        (false, true) => text,
        (false, false) => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::word;

    #[test]
    fn what_is_not_one_word_is_quoted() {
        let shown = |text: &str| word(&format_args!("{text}"));
        assert_eq!(shown("nginx"), "nginx");
        assert_eq!(shown("my program"), "\"my program\"");
        assert_eq!(shown("a\nready lane=3"), r#""a\nready lane=3""#);
        assert_eq!(shown("\x1b[2J"), r#""\u{1b}[2J""#);
        assert_eq!(shown(""), "\"\"");
        assert_eq!(shown("\"a\nb\""), r#""\"a\nb\"""#);
        assert_eq!(word(&"text"), "text", "tracing passes text on as Debug shows it");
        assert_eq!(word(&"two words"), "\"two words\"");
        assert_eq!(word(&7), "7");
    }
}
