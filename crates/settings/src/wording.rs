//! Errors of the TOML reader, in terms that the author of a configuration file knows.

/// Rewrites a message without the names of Rust types. `key` is that of the value in question, if
/// there is one.
pub(crate) fn of_person(message: &str, key: Option<&str>) -> String {
    let message = message.split('\n').filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    if let Some(rest) = message.strip_prefix("unknown field ") {
        return format!("unknown key {rest}");
    }
    if let Some(rest) = message.strip_prefix("missing field ") {
        return format!("the key {rest} is missing");
    }
    if let Some(rest) = message.strip_prefix("unknown variant ") {
        return format!("unknown value {rest}");
    }
    if let Some(wanted) = message.strip_prefix("wanted ") {
        return format!("expected {}", wanted_words(wanted));
    }
    if message == "invalid socket address syntax" {
        return "this is no socket address; expected one such as \"127.0.0.1:9100\"".to_owned();
    }
    let mismatch = message.strip_prefix("invalid type: ").or_else(|| message.strip_prefix("invalid value: "));
    match mismatch.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, wanted)) => {
            let subject = key.map_or("found".to_owned(), |key| format!("{key} is"));
            format!("{subject} {}; expected {}", found_words(found), wanted_words(wanted))
        }
        None => message,
    }
}

fn found_words(found: &str) -> String {
    const KINDS: [(&str, &str); 4] = [
        ("integer ", "the number "),
        ("floating point ", "the number "),
        ("string ", "the text "),
        ("boolean ", "the truth value "),
    ];
    match KINDS.iter().find_map(|(theirs, ours)| Some((ours, found.strip_prefix(theirs)?))) {
        Some((kind, value)) => format!("{kind}{}", value.trim_matches('`')),
        None => match found {
            "sequence" => "a list".to_owned(),
            "map" => "a table".to_owned(),
            other => other.to_owned(),
        },
    }
}

fn wanted_words(wanted: &str) -> String {
    match wanted {
        "u32" => "a whole number that is not negative",
        "u8" => "a whole number from 0 to 255",
        "u16" => "a whole number from 0 to 65535",
        "i32" | "i64" => "a whole number",
        "f64" => "a number",
        "a boolean" => "true or false",
        "socket address" => "a socket address, such as \"127.0.0.1:9100\"",
        // It fits every such key: interfaces, addresses, networks.
        "a sequence" => "a list in brackets, such as [\"a\", \"b\"]",
        "a string" | "path string" => "text in quotes",
        "a map" => "a table of names and values",
        // The reader's error for an enum. `attach` is the only one; the others are read as strings.
        "string or table" => "one of \"auto\", \"native\", \"generic\", \"tc\"",
        wanted if wanted.starts_with("struct ") => "a table of settings, such as [limits]",
        other => other,
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::of_person;

    #[test]
    fn types_of_rust_become_things_of_a_configuration_file() {
        for (theirs, ours) in [
            ("unknown field `x`, expected `a` or `b`", "unknown key `x`, expected `a` or `b`"),
            (
                "invalid type: string \"eth0\", expected a sequence",
                "found the text \"eth0\"; expected a list in brackets, such as [\"a\", \"b\"]",
            ),
            (
                "invalid value: integer `-1`, expected u32",
                "found the number -1; expected a whole number that is not negative",
            ),
            ("invalid type: floating point `1.5`, expected i64", "found the number 1.5; expected a whole number"),
            ("invalid type: map, expected a string", "found a table; expected text in quotes"),
            ("something new\nabout it\n", "something new; about it"),
        ] {
            assert_eq!(of_person(theirs, None), ours);
        }
        let theirs = "invalid type: string \"yes\", expected a boolean";
        assert_eq!(of_person(theirs, Some("a.b")), "a.b is the text \"yes\"; expected true or false");
    }
}
