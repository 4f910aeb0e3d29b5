//! Which build a file is of: what a program and its library must have in common with the service.
//! A library has the mark as data, so it can be read from the file.

use crate::control::VERSION;
use tickwire_stack::Memory;

/// Bytes of a mark.
pub const MARK_BYTES: usize = 48;

/// The version of this build, and that of a lane's memory and messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuildMark([u8; MARK_BYTES]);

/// The version for users, behind that of memory and messages.
const TEXT: usize = 10;

impl BuildMark {
    /// This build's.
    pub const OWN: Self = {
        let mut bytes = [0; MARK_BYTES];
        copy(&mut bytes, 0, &Memory::LAYOUT_HASH.to_le_bytes());
        copy(&mut bytes, 8, &VERSION.to_le_bytes());
        copy(&mut bytes, TEXT, env!("CARGO_PKG_VERSION").as_bytes());
        Self(bytes)
    };

    /// A mark that was read from a file.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; MARK_BYTES]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &[u8; MARK_BYTES] {
        &self.0
    }

    /// The version for users; anything else than the characters of a version is left out.
    #[must_use]
    pub fn version(&self) -> String {
        let is_of_version = |byte: &&u8| byte.is_ascii_alphanumeric() || b".-+".contains(byte);
        self.0.iter().skip(TEXT).take_while(is_of_version).map(|byte| char::from(*byte)).collect()
    }
}

const fn copy(to: &mut [u8; MARK_BYTES], at: usize, from: &[u8]) {
    let mut n = 0;
    // A text that is too long is cut.
    while n < from.len() && at + n < MARK_BYTES {
        to[at + n] = from[n];
        n += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_says_the_version_and_differs_with_memory_and_messages() {
        let own = BuildMark::OWN;
        assert_eq!(own.version(), env!("CARGO_PKG_VERSION"));
        for at in [0, 8] {
            let mut other = *own.bytes();
            other[at] ^= 1;
            assert_ne!(BuildMark::from_bytes(other), own);
            assert_eq!(BuildMark::from_bytes(other).version(), own.version());
        }
        assert_eq!(BuildMark::from_bytes([0x1b; MARK_BYTES]).version(), "");
    }
}
