//! Kiss-o'-Death: a server's refusal (RFC 5905 §7.4; NTSN: RFC 8915 §5.7).

use core::fmt;

/// The kiss code: four letters in a reply of stratum 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kiss {
    /// `DENY`: access denied; stop.
    Deny,
    /// `RSTR`: access denied by local policy; stop.
    Restricted,
    /// `RATE`: reduce the poll rate.
    Rate,
    /// `NTSN`: the cookie or its key is unknown; establish new keys.
    NtsNak,
    /// Any other code; requires no action of the client.
    Other([u8; 4]),
}

impl Kiss {
    /// From the reference ID field.
    #[must_use]
    pub const fn from_reference(reference: u32) -> Self {
        match &reference.to_be_bytes() {
            b"DENY" => Self::Deny,
            b"RSTR" => Self::Restricted,
            b"RATE" => Self::Rate,
            b"NTSN" => Self::NtsNak,
            other => Self::Other(*other),
        }
    }

    /// The reference ID field.
    #[must_use]
    pub const fn to_reference(self) -> u32 {
        u32::from_be_bytes(match self {
            Self::Deny => *b"DENY",
            Self::Restricted => *b"RSTR",
            Self::Rate => *b"RATE",
            Self::NtsNak => *b"NTSN",
            Self::Other(letters) => letters,
        })
    }
}

impl fmt::Display for Kiss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Deny => f.write_str("the server denies service (DENY)"),
            Self::Restricted => f.write_str("the server's access rules shut this host out (RSTR)"),
            Self::Rate => f.write_str("the server is asked too often (RATE)"),
            Self::NtsNak => f.write_str("the server does not know the keys any more (NTSN)"),
            Self::Other(letters) => write!(f, "the server says {:?}", String::from_utf8_lossy(letters)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_there_and_back() {
        for letters in [b"DENY", b"RSTR", b"RATE", b"NTSN", b"XYZ\0"] {
            let reference = u32::from_be_bytes(*letters);
            assert_eq!(Kiss::from_reference(reference).to_reference(), reference);
        }
        assert_eq!(Kiss::Other(*b"A\x1bB\0").to_string(), "the server says \"A\\u{1b}B\\0\"");
    }
}
