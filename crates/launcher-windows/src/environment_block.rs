//! The environment of a new process: `NAME=value` texts, each ended by a zero, in the order of
//! their names, and one more zero.

use crate::error::TextError;

const EQUALS: u16 = b'=' as u16;

/// A variable in UTF-16: its name, and its value.
pub type Variable = (Vec<u16>, Vec<u16>);

/// A change: a variable's name, and its value, or `None` to remove it.
pub type Change = (Vec<u16>, Option<Vec<u16>>);

/// The block of these variables, changed. Windows does not tell upper from lower case in names; for
/// those of the changes this is so for ASCII letters.
///
/// # Errors
/// If a name of the changes is none, or a value contains a zero.
pub fn environment_block(
    variables: impl IntoIterator<Item = Variable>,
    changes: &[Change],
) -> Result<Vec<u16>, TextError> {
    for (name, value) in changes {
        if name.is_empty() || name.contains(&EQUALS) {
            return Err(TextError::Name);
        }
        if name.contains(&0) || value.as_ref().is_some_and(|value| value.contains(&0)) {
            return Err(TextError::Zero);
        }
    }
    let is_changed = |name: &[u16]| changes.iter().any(|(changed, _)| folded(changed).eq(folded(name)));
    let mut all: Vec<Variable> = variables.into_iter().filter(|(name, _)| !is_changed(name)).collect();
    // The last change of a name counts.
    for (at, (name, value)) in changes.iter().enumerate() {
        let is_last = !changes.iter().skip(at + 1).any(|(later, _)| folded(later).eq(folded(name)));
        if let Some(value) = value.as_ref().filter(|_| is_last) {
            all.push((name.clone(), value.clone()));
        }
    }
    all.sort_by(|(a, _), (b, _)| folded(a).cmp(folded(b)));
    let mut block = Vec::new();
    for (name, value) in all {
        block.extend(name);
        block.push(EQUALS);
        block.extend(value);
        block.push(0);
    }
    // An empty block is two zeros.
    if block.is_empty() {
        block.push(0);
    }
    block.push(0);
    Ok(block)
}

/// A name with its ASCII letters in upper case.
fn folded(name: &[u16]) -> impl Iterator<Item = u16> {
    name.iter().map(|unit| u8::try_from(*unit).map_or(*unit, |byte| byte.to_ascii_uppercase().into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(text: &str) -> Vec<u16> {
        text.encode_utf16().collect()
    }

    fn block(variables: &[(&str, &str)], changes: &[(&str, Option<&str>)]) -> Result<String, TextError> {
        let changes: Vec<_> = changes.iter().map(|(name, value)| (wide(name), value.map(wide))).collect();
        let variables = variables.iter().map(|(name, value)| (wide(name), wide(value)));
        environment_block(variables, &changes).map(|block| String::from_utf16(&block).unwrap())
    }

    #[test]
    fn changes_replace_add_and_remove() {
        let variables = [("=C:", "C:\\x"), ("Path", "a;b"), ("Q", "1"), ("Z", "")];
        assert_eq!(block(&variables, &[]).unwrap(), "=C:=C:\\x\0Path=a;b\0Q=1\0Z=\0\0");
        let changes = [("PATH", Some("c")), ("q", None), ("r", Some("=2"))];
        assert_eq!(block(&variables, &changes).unwrap(), "=C:=C:\\x\0PATH=c\0r==2\0Z=\0\0");
        assert_eq!(block(&[], &[("a", Some("1")), ("A", Some("2"))]).unwrap(), "A=2\0\0");
        assert_eq!(block(&[], &[("a", Some("1")), ("A", None)]).unwrap(), "\0\0");
    }

    #[test]
    fn what_is_no_variable_is_an_error() {
        assert_eq!(block(&[], &[("", Some("1"))]), Err(TextError::Name));
        assert_eq!(block(&[], &[("a=b", None)]), Err(TextError::Name));
        assert_eq!(block(&[], &[("a\0", None)]), Err(TextError::Zero));
        assert_eq!(block(&[], &[("a", Some("\0"))]), Err(TextError::Zero));
    }
}
