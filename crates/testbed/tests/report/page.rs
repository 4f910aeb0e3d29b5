//! The visible content of the page, extracted from its HTML.

/// The part of the page below this heading, up to the next.
pub(crate) fn section<'a>(html: &'a str, heading: &str) -> &'a str {
    let start = format!("<h2>{heading}</h2>");
    let at = html.find(&start).unwrap_or_else(|| panic!("no section {heading}"));
    let rest = &html[at + start.len()..];
    &rest[..rest.find("<h2>").unwrap_or(rest.len())]
}

/// The cells of each row of the first table.
pub(crate) fn rows(html: &str) -> Vec<Vec<&str>> {
    let body = html.split("<tbody>").nth(1).expect("a table").split("</tbody>").next().unwrap_or_default();
    let cell = |text| -> &str { &text[str::find(text, '>').expect("the tag ends") + 1..] };
    body.split("<tr>")
        .skip(1)
        .map(|row| row.split("</td>").filter(|text| text.contains("<td")).map(cell).collect())
        .collect()
}

/// Whether all elements are closed in order; otherwise the offending tag.
pub(crate) fn balanced(html: &str) -> Result<(), String> {
    let mut open: Vec<&str> = Vec::new();
    // Within the style sheet there are no elements.
    let (head, rest) = html.split_once("<style>").expect("a style sheet");
    let rest = rest.split_once("</style>").expect("it ends").1;
    for tag in head.split('<').skip(1).chain(rest.split('<').skip(1)) {
        let (tag, _) = tag.split_once('>').ok_or_else(|| format!("<{tag}: does not end"))?;
        let name = tag.split_whitespace().next().unwrap_or_default();
        if let Some(closed) = name.strip_prefix('/') {
            let last = open.pop();
            if last != Some(closed) {
                return Err(format!("</{closed}> closes {last:?}"));
            }
        } else if !tag.ends_with('/') && !["!doctype", "meta", "link"].contains(&name) {
            open.push(name);
        }
    }
    if open.is_empty() { Ok(()) } else { Err(format!("{open:?} stay open")) }
}
