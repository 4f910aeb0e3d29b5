//! Text that fits a terminal's width.

/// Wraps a line between words at `width`, if there is one. Continuation lines are indented like the
/// line, but by at least four. A word longer than the width is not broken.
#[must_use]
pub fn wrap(line: &str, width: Option<usize>) -> String {
    let Some(width) = width.filter(|width| line.chars().count() > *width) else { return line.to_owned() };
    let start = line.len() - line.trim_start().len();
    let indent = start.max(4);
    let mut wrapped = line[..start].to_owned();
    let mut column = start;
    for (index, word) in line[start..].split(' ').enumerate() {
        let length = word.chars().count();
        if index > 0 && column + 1 + length > width {
            wrapped.truncate(wrapped.trim_end().len());
            wrapped += "\n";
            wrapped += &" ".repeat(indent);
            column = indent;
        } else if index > 0 {
            wrapped += " ";
            column += 1;
        }
        wrapped += word;
        column += length;
    }
    wrapped
}

/// Whether each line of a text fits.
#[must_use]
pub fn fits(text: &str, width: Option<usize>) -> bool {
    width.is_none_or(|width| text.lines().all(|line| line.trim_end().chars().count() <= width))
}

/// The first lines of a page, as many as a terminal of this height shows, and the number of those
/// left out.
#[must_use]
pub fn cut(page: &str, height: usize) -> String {
    let lines: Vec<&str> = page.lines().collect();
    if lines.len() < height {
        return page.to_owned();
    }
    let shown = height.saturating_sub(2);
    format!(
        "{}\n... and {} lines more (a larger terminal shows them)\n",
        lines[..shown].join("\n"),
        lines.len() - shown
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_only_where_they_must() {
        assert_eq!(wrap("one two three", None), "one two three");
        assert_eq!(wrap("one two three", Some(13)), "one two three");
        assert_eq!(wrap("one two three", Some(9)), "one two\n    three");
        assert_eq!(wrap("      one two three", Some(14)), "      one two\n      three");
        assert_eq!(wrap("unbreakable it is", Some(9)), "unbreakable\n    it is");
        assert!(fits("one\ntwo  ", Some(3)) && !fits("four", Some(3)) && fits("four", None));
    }

    #[test]
    fn a_page_that_is_too_high_says_how_much_is_missing() {
        assert_eq!(cut("1\n2\n3\n", 4), "1\n2\n3\n");
        assert_eq!(cut("1\n2\n3\n4\n", 4), "1\n2\n... and 2 lines more (a larger terminal shows them)\n");
    }
}
