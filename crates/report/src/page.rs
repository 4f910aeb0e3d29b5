//! The file: headings, verdict, paragraphs, tables, lists, parts that are opened on demand.

use std::fmt::Write;

/// Whether a verdict or a figure is good or bad.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Neither.
    #[default]
    Plain,
    /// As promised.
    Good,
    /// Not as promised.
    Bad,
}

impl Tone {
    const fn class(self) -> &'static str {
        match self {
            Self::Plain => "",
            Self::Good => "good",
            Self::Bad => "bad",
        }
    }
}

/// A page, built from top to bottom. All text is escaped: names of streams and hosts are untrusted.
#[derive(Debug)]
pub struct ReportPage {
    html: String,
}

impl ReportPage {
    /// An empty page.
    #[must_use]
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        let style = include_str!("page.css");
        let html = format!(
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<h1>{title}</h1>\n"
        );
        Self { html }
    }

    /// The main result, for a reader with ten seconds.
    pub fn verdict(&mut self, tone: Tone, text: &str) {
        self.push(&format!("<p class=\"verdict {}\">{}</p>\n", tone.class(), escape(text)));
    }

    /// A heading.
    pub fn section(&mut self, heading: &str) {
        self.push(&format!("<h2>{}</h2>\n", escape(heading)));
    }

    /// A paragraph.
    pub fn paragraph(&mut self, text: &str) {
        self.push(&format!("<p>{}</p>\n", escape(text)));
    }

    /// A table; the first column holds names.
    pub fn table(&mut self, head: &[&str], rows: impl IntoIterator<Item = Vec<(String, Tone)>>) {
        let mut html = "<div class=\"wide\"><table>\n<thead><tr>".to_owned();
        for cell in head {
            let _ = write!(html, "<th>{}</th>", escape(cell));
        }
        html += "</tr></thead>\n<tbody>\n";
        for row in rows {
            html += "<tr>";
            for (cell, tone) in row {
                let _ = match tone {
                    Tone::Plain => write!(html, "<td>{}</td>", escape(&cell)),
                    tone => write!(html, "<td class=\"{}\">{}</td>", tone.class(), escape(&cell)),
                };
            }
            html += "</tr>\n";
        }
        html += "</tbody></table></div>\n";
        self.push(&html);
    }

    /// A list of sentences.
    pub fn list<T: AsRef<str>>(&mut self, items: impl IntoIterator<Item = T>) {
        let items: String = items.into_iter().map(|item| format!("<li>{}</li>\n", escape(item.as_ref()))).collect();
        // Not all readers accept an empty list.
        if !items.is_empty() {
            self.push(&format!("<ul>\n{items}</ul>\n"));
        }
    }

    /// Terms, each with its lines of description.
    pub fn definitions<'a>(&mut self, items: impl IntoIterator<Item = (&'a str, Vec<String>)>) {
        let mut html = "<dl>\n".to_owned();
        for (word, lines) in items.into_iter().filter(|(_, lines)| !lines.is_empty()) {
            let lines: String = lines.iter().map(|line| format!("<dd>{}</dd>", escape(line))).collect();
            let _ = writeln!(html, "<dt>{}</dt>{lines}", escape(word));
        }
        html += "</dl>\n";
        self.push(&html);
    }

    /// A part that is closed until the reader opens it, and open on paper.
    pub fn details(&mut self, summary: &str, content: impl FnOnce(&mut Self)) {
        self.push(&format!("<details>\n<summary>{}</summary>\n", escape(summary)));
        content(self);
        self.push("</details>\n");
    }

    /// The whole file.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.push("</body>\n</html>\n");
        self.html
    }

    pub(crate) fn push(&mut self, html: &str) {
        self.html += html;
    }
}

/// Escapes text for HTML, also inside an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // HTML does not allow control characters, not even escaped.
            c if c.is_control() && !c.is_whitespace() => escaped.push(char::REPLACEMENT_CHARACTER),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_from_outside_stays_text() {
        let mut page = ReportPage::new("<script>");
        page.verdict(Tone::Bad, "a & b\0\x1b[1m");
        page.table(&["name", "us"], [vec![("\"><img>".to_owned(), Tone::Plain), ("1.5".to_owned(), Tone::Good)]]);
        let html = page.finish();
        assert!(html.contains("<title>&lt;script&gt;</title>"));
        assert!(html.contains("<p class=\"verdict bad\">a &amp; b\u{FFFD}\u{FFFD}[1m</p>"));
        assert!(html.contains("<td>&quot;&gt;&lt;img&gt;</td><td class=\"good\">1.5</td>"));
        assert!(!html.contains("<script>") && !html.contains("<img>"));
    }

    #[test]
    fn lists_and_what_is_opened_on_demand_hold_text() {
        let mut page = ReportPage::new("page");
        page.details("more <b>", |page| page.list(["a < b", "c"]));
        page.definitions([("who", vec!["<one>".to_owned(), "two".to_owned()]), ("nobody", Vec::new())]);
        page.list([""; 0]);
        let html = page.finish();
        assert!(
            html.contains("<summary>more &lt;b&gt;</summary>\n<ul>\n<li>a &lt; b</li>\n<li>c</li>\n</ul>\n</details>")
        );
        assert!(html.contains("<dt>who</dt><dd>&lt;one&gt;</dd><dd>two</dd>\n</dl>"), "{html}");
        assert_eq!(html.matches("<ul>").count(), 1);
    }
}
