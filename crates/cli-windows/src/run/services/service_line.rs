//! The command line of a service, with `tickwire run` before it.

use std::path::{Path, PathBuf};

/// A command line, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ServiceLine<'t> {
    /// The program, without quotes, with its variables.
    pub(super) program: &'t str,
    /// What follows: nothing, or a space and the arguments.
    pub(super) rest: &'t str,
}

impl<'t> ServiceLine<'t> {
    /// Takes a command line apart as Windows does when it starts the program. Without quotes a
    /// path with spaces has several readings. The first of which there is a file counts.
    pub(super) fn parse(line: &'t str, file: impl Fn(&str) -> Option<PathBuf>) -> Option<Self> {
        let line = line.trim_start();
        if let Some(quoted) = line.strip_prefix('"') {
            let (program, rest) = quoted.split_once('"')?;
            return file(program).map(|_| Self { program, rest });
        }
        let ends = line.match_indices([' ', '\t']).map(|(end, _)| end).chain([line.len()]);
        let readings = ends.map(|end| line.split_at(end)).filter(|(program, _)| !program.is_empty());
        let mut found = readings.filter(|(program, _)| file(program).is_some());
        found.next().map(|(program, rest)| Self { program, rest })
    }

    /// The same by `tickwire run`. The arguments stay as they are.
    pub(super) fn through(&self, tickwire: &Path, options: &str) -> String {
        let Self { program, rest } = self;
        format!("{}{options} -- \"{program}\"{rest}", head(tickwire))
    }
}

/// How a command line of ours begins.
fn head(tickwire: &Path) -> String {
    format!("\"{}\" run", tickwire.display())
}

/// The `tickwire.exe` of a command line that [`ServiceLine::through`] has made; `None` for another.
pub(super) fn starter(line: &str) -> Option<PathBuf> {
    let (program, rest) = line.strip_prefix('"')?.split_once('"')?;
    let program = PathBuf::from(program);
    let is_ours = program.file_name().is_some_and(|name| name.eq_ignore_ascii_case("tickwire.exe"));
    (is_ours && rest.starts_with(" run ") && rest.contains(" -- \"")).then_some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'t>(line: &'t str, files: &[&str]) -> Option<(&'t str, &'t str)> {
        let file = |path: &str| files.contains(&path).then(|| path.into());
        ServiceLine::parse(line, file).map(|line| (line.program, line.rest))
    }

    #[test]
    fn a_command_line_is_read_as_windows_does() {
        let plain = r"C:\s\echo.exe";
        assert_eq!(parse(r"C:\s\echo.exe", &[plain]), Some((plain, "")));
        assert_eq!(parse(r#"  "C:\s\echo.exe" -k "a b""#, &[plain]), Some((plain, r#" -k "a b""#)));
        let spaces = r"C:\Program Files\Echo Server\echo.exe";
        assert_eq!(parse(&format!("{spaces} -k net"), &[spaces]), Some((spaces, " -k net")));
        // The first file wins, as in Windows.
        assert_eq!(parse(spaces, &[r"C:\Program", spaces]), Some((r"C:\Program", r" Files\Echo Server\echo.exe")));
        assert_eq!(parse(spaces, &[]), None);
        assert_eq!(parse(r#""C:\s\echo.exe"#, &[plain]), None, "no second quote");
        assert_eq!(parse("", &[]), None);
    }

    #[test]
    fn the_new_line_keeps_the_arguments_and_is_known_again() {
        let tickwire = Path::new(r"C:\Program Files\Tickwire\tickwire.exe");
        let line = ServiceLine { program: r"%SystemRoot%\echo.exe", rest: r#" -k "a b"  c"# };
        let through = line.through(tickwire, " --require");
        let expected =
            r#""C:\Program Files\Tickwire\tickwire.exe" run --require -- "%SystemRoot%\echo.exe" -k "a b"  c"#;
        assert_eq!(through, expected);
        assert_eq!(starter(&through).as_deref(), Some(tickwire));
        for other in [r"C:\s\echo.exe", r#""C:\x\tickwire.exe" service --managed"#, r#""C:\run.exe" run -- "x""#, ""] {
            assert_eq!(starter(other), None, "{other}");
        }
    }
}
