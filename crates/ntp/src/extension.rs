//! Extension fields after the header (RFC 7822).
//!
//! Each is a type, its total length, and a body padded to words. The last 4, 20 or 24 bytes of a
//! message may be a MAC instead; this crate requests none.

use thiserror::Error;

/// The fixed part: type and length.
const FIXED: usize = 4;
/// RFC 7822 §7.5: the least length of a field is 16, and 28 for the last one. NTS's fields obey the
/// former (RFC 8915 §5.7 lifts the latter).
const LEAST: usize = 16;

/// One field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its type.
    pub kind: u16,
    /// Its body, with padding.
    pub body: &'a [u8],
    /// Its offset from the beginning of the fields: the data covered by an authenticator ends here.
    pub at: usize,
}

/// Why bytes after a header are not valid fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum BadExtension {
    /// The length is invalid: too short, not a multiple of a word, or beyond the end.
    #[error("an extension field of {0} bytes")]
    Length(usize),
    /// Bytes are left over that are neither a field nor a MAC.
    #[error("{0} bytes after the extension fields")]
    Rest(usize),
}

/// Iterator over the fields after a header; ends after the first invalid one.
#[derive(Clone, Debug)]
pub struct Extensions<'a> {
    rest: &'a [u8],
    at: usize,
    mac: bool,
}

impl<'a> Extensions<'a> {
    /// Parses the bytes after a header.
    #[must_use]
    pub const fn new(rest: &'a [u8]) -> Self {
        Self { rest, at: 0, mac: true }
    }

    /// The same where no MAC can follow: a field of a MAC's length is a field.
    #[must_use]
    pub const fn without_mac(rest: &'a [u8]) -> Self {
        Self { rest, at: 0, mac: false }
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, BadExtension>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.rest);
        match rest.len() {
            0 => return None,
            4 | 20 | 24 if self.mac => return None,
            1..LEAST => return Some(Err(BadExtension::Rest(rest.len()))),
            _ => {}
        }
        let kind = u16::from_be_bytes([rest[0], rest[1]]);
        let length = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        if length < LEAST || length % 4 != 0 || length > rest.len() {
            return Some(Err(BadExtension::Length(length)));
        }
        let (field, after) = rest.split_at(length);
        let extension = Extension { kind, body: &field[FIXED..], at: self.at };
        self.rest = after;
        self.at += length;
        Some(Ok(extension))
    }
}

/// The total length of a field with a body of `body` bytes.
#[must_use]
pub const fn length(body: usize) -> usize {
    let length = (FIXED + body).next_multiple_of(4);
    if length < LEAST { LEAST } else { length }
}

/// Appends a field, padded with zeros.
///
/// # Panics
/// If the body is longer than a field can be (65,532 bytes): all bodies are built by this crate's
/// users, not received.
pub fn append(message: &mut Vec<u8>, kind: u16, body: &[u8]) {
    let length = length(body.len());
    message.extend(kind.to_be_bytes());
    message.extend(u16::try_from(length).expect("a field's length").to_be_bytes());
    message.extend(body);
    message.resize(message.len() + length - FIXED - body.len(), 0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_end_where_a_mac_may_begin() {
        let mut bytes = Vec::new();
        append(&mut bytes, 0x0104, &[7; 32]);
        append(&mut bytes, 0x0204, &[1]);
        bytes.extend([9; 20]);
        let fields: Vec<_> = Extensions::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(fields.len(), 2);
        assert_eq!((fields[0].kind, fields[0].body, fields[0].at), (0x0104, &[7; 32][..], 0));
        assert_eq!((fields[1].kind, fields[1].body[0], fields[1].body.len(), fields[1].at), (0x0204, 1, 12, 36));
        let mut bytes = Vec::new();
        append(&mut bytes, 0x0204, &[1; 16]);
        assert_eq!(Extensions::new(&bytes).count(), 0, "it may be a MAC");
        assert_eq!(
            Extensions::without_mac(&bytes).map(Result::unwrap).map(|field| field.body.len()).sum::<usize>(),
            16
        );
    }

    #[test]
    fn lengths_that_lie_are_told() {
        assert_eq!(
            Extensions::new(&[0, 1, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).next(),
            Some(Err(BadExtension::Length(8)))
        );
        assert_eq!(
            Extensions::new(&[0, 1, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).next(),
            Some(Err(BadExtension::Length(20)))
        );
        assert_eq!(Extensions::new(&[0; 5]).next(), Some(Err(BadExtension::Rest(5))));
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived_and_end(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let fields: Vec<_> = Extensions::new(&bytes).collect();
            prop_assert!(fields.len() <= bytes.len() / LEAST + 1);
        }
    }
}
