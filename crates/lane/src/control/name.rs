//! Short texts in messages: names of programs and interfaces.

use std::fmt;

/// A name of at most [`Name::MAX`] bytes of UTF-8 without control characters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Name {
    bytes: [u8; Name::MAX],
    len: u8,
}

impl Name {
    /// The longest name, in bytes. Longer texts are cut.
    pub const MAX: usize = 63;

    /// The name `text`, cut to [`Name::MAX`] bytes at a character's border; control characters
    /// become `?`, so that a name is safe to print on a terminal.
    #[must_use]
    pub fn new(text: &str) -> Self {
        let mut name = Self { bytes: [0; Self::MAX], len: 0 };
        for mut c in text.chars() {
            if c.is_control() {
                c = '?';
            }
            let at = usize::from(name.len);
            let Some(room) = name.bytes.get_mut(at..at + c.len_utf8()) else { break };
            c.encode_utf8(room);
            name.len += c.len_utf8() as u8;
        }
        name
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Only whole characters are ever put in; the fallback is never taken.
        std::str::from_utf8(&self.bytes[..usize::from(self.len)]).unwrap_or_default()
    }

    /// Reads a name as it lies in a message: its length, then [`Name::MAX`] bytes. `None` unless
    /// [`Name::new`] could have made it.
    pub(super) fn from_wire(len: u8, bytes: &[u8; Self::MAX]) -> Option<Self> {
        let (text, rest) = bytes.split_at_checked(usize::from(len))?;
        let name = Self::new(std::str::from_utf8(text).ok()?);
        (name.as_str().as_bytes() == text && rest.iter().all(|&b| b == 0)).then_some(name)
    }

    /// The name as it lies in a message.
    pub(super) const fn to_wire(self) -> (u8, [u8; Self::MAX]) {
        (self.len, self.bytes)
    }
}

impl Default for Name {
    fn default() -> Self {
        Self::new("")
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_between_characters_and_control_characters_do_not_pass() {
        assert_eq!(Name::new("nginx").as_str(), "nginx");
        assert_eq!(Name::new("a\x1b[2Jb").as_str(), "a?[2Jb");
        let long = Name::new(&"é".repeat(40));
        assert_eq!(long.as_str(), "é".repeat(31));
        let (len, bytes) = long.to_wire();
        assert_eq!(Name::from_wire(len, &bytes), Some(long));
    }

    #[test]
    fn hostile_names_are_refused() {
        let mut bytes = [0; Name::MAX];
        assert_eq!(Name::from_wire(64, &bytes), None);
        bytes[..2].copy_from_slice(&[0xc3, 0x28]);
        assert_eq!(Name::from_wire(2, &bytes), None);
        bytes[..2].copy_from_slice(b"\x1bc");
        assert_eq!(Name::from_wire(2, &bytes), None);
        bytes[..2].copy_from_slice(b"ab");
        assert_eq!(Name::from_wire(1, &bytes), None, "bytes behind the end");
    }
}
