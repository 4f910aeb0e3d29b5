//! What the runner prints of a test: the Test Anything Protocol, and the output of a test that has
//! failed.

/// The begin of a failed assertion.
const ASSERTION: &str = "Assertion failed in ";

/// The result of a test in one line: `ok`, `skipped: REASON`, or `failed: WHY`.
pub(super) fn result(name: &str, printed: &str) -> String {
    // The test's own output comes last, after that of its helpers.
    let begin = printed.rfind(&format!("Output from process `{name}`")).unwrap_or(0);
    let lines: Vec<&str> = printed.lines().map(|line| line.trim().trim_start_matches("# ")).collect();
    if let Some(line) = lines.iter().find(|line| line.starts_with("ok ")) {
        return line.split_once("# SKIP").map_or("ok".to_owned(), |(_, reason)| format!("skipped: {}", reason.trim()));
    }
    if !lines.iter().any(|line| line.starts_with("not ok ")) {
        return "failed: the runner has printed no result".to_owned();
    }
    let how = lines.iter().find(|line| line.starts_with("exit code ") || **line == "timeout");
    let how = how.copied().unwrap_or("no exit code");
    let own = printed[begin..].lines().skip(1).map(|line| line.trim().trim_start_matches("# "));
    let own: Vec<&str> = own.filter(|line| !line.is_empty()).collect();
    let why = own.iter().find(|line| line.starts_with(ASSERTION)).or(own.last());
    why.filter(|_| begin > 0).map_or(format!("failed: {how}"), |why| format!("failed: {how}, {}", place(why)))
}

/// A failed assertion with its place in short: `test-x.c:7: EXPRESSION`.
fn place(line: &str) -> String {
    let parts = line.strip_prefix(ASSERTION).and_then(|rest| {
        let (path, rest) = rest.split_once(" on line ")?;
        let (number, expression) = rest.split_once(": ")?;
        Some(format!("{}:{number}: {expression}", path.rsplit(['/', '\\']).next()?))
    });
    parts.unwrap_or_else(|| line.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_one_line() {
        assert_eq!(result("x", "ok 1 - x\r\n"), "ok");
        assert_eq!(result("x", "ok 1 - x # SKIP No IPv6.\r\n"), "skipped: No IPv6.");
        assert_eq!(result("x", "not ok 1 - x\n# timeout\n# Output from process `x`: (no output)\n"), "failed: timeout");
        let text = "not ok 1 - x\n# exit code 3\n# Output from process `helper`:\n# Listen error\n\
                    Output from process `x`:\n# said\n# Assertion failed in test/test-x.c on line 7: `a == b` (1 == 2)\n";
        assert_eq!(result("x", text), "failed: exit code 3, test-x.c:7: `a == b` (1 == 2)");
        let last = "not ok 1 - x\n# exit code 1\n# Output from process `x`:\n# Listen error\n";
        assert_eq!(result("x", last), "failed: exit code 1, Listen error");
        assert_eq!(result("x", ""), "failed: the runner has printed no result");
    }
}
