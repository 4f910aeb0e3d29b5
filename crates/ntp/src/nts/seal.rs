//! AEAD_AES_SIV_CMAC_256 (RFC 5297): 32 bytes of key, of which one half authenticates and the other
//! encrypts. A repeated nonce reveals only whether messages are equal.

use aes_siv::KeyInit;
use aes_siv::siv::Aes128Siv;
use core::fmt;

/// The length of a key in bytes.
pub const KEY: usize = 32;
/// Expansion of a sealed text in bytes: the synthetic IV, which is also the authenticator.
pub(super) const IV: usize = 16;

/// A key. Its bytes are never printed.
#[derive(Clone)]
pub struct Key([u8; KEY]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(..)")
    }
}

impl Key {
    /// From its bytes.
    #[must_use]
    pub const fn new(bytes: [u8; KEY]) -> Self {
        Self(bytes)
    }

    fn cipher(&self) -> Aes128Siv {
        Aes128Siv::new(&self.0.into())
    }

    /// Encrypts `text`, and authenticates it together with `open` and `nonce`.
    ///
    /// # Panics
    /// Never: the cipher refuses only more than 126 headers.
    #[must_use]
    pub fn seal(&self, open: &[u8], nonce: &[u8], text: &[u8]) -> Vec<u8> {
        self.cipher().encrypt([open, nonce], text).expect("two headers")
    }

    /// Decrypts `sealed`, if it, `open` and `nonce` are authentic.
    #[must_use]
    pub fn unseal(&self, open: &[u8], nonce: &[u8], sealed: &[u8]) -> Option<Vec<u8>> {
        self.cipher().decrypt([open, nonce], sealed).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        hex.as_bytes()
            .chunks(2)
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
            .collect()
    }

    #[test]
    fn the_vector_of_rfc_5297_appendix_a_2() {
        let key = bytes("7f7e7d7c7b7a79787776757473727170404142434445464748494a4b4c4d4e4f");
        let open = bytes("00112233445566778899aabbccddeeffdeaddadadeaddadaffeeddccbbaa99887766554433221100");
        let (second, nonce) = (bytes("102030405060708090a0"), bytes("09f911029d74e35bd84156c5635688c0"));
        let sealed = bytes(concat!(
            "7bdb6e3b432667eb06f4d14bff2fbd0fcb900f2fddbe404326601965c889bf17",
            "dba77ceb094fa663b7a3f748ba8af829ea64ad544a272e9c485b62a3fd5c0d"
        ));
        let key = Key::new(key.try_into().unwrap());
        let text = key.cipher().decrypt([&open, &second, &nonce], &sealed).unwrap();
        assert_eq!(text, b"this is some plaintext to encrypt using SIV-AES");
        assert_eq!(key.cipher().encrypt([&open, &second, &nonce], &text).unwrap(), sealed);
    }

    #[test]
    fn each_part_is_authenticated() {
        let key = Key::new([7; KEY]);
        let sealed = key.seal(b"open", b"nonce", b"");
        assert_eq!((sealed.len(), key.unseal(b"open", b"nonce", &sealed)), (IV, Some(Vec::new())));
        assert_eq!(key.unseal(b"Open", b"nonce", &sealed), None);
        assert_eq!(key.unseal(b"open", b"once", &sealed), None);
        assert_eq!(Key::new([8; KEY]).unseal(b"open", b"nonce", &sealed), None);
        assert_eq!(key.unseal(b"open", b"nonce", &sealed[1..]), None);
    }

    #[test]
    fn keys_are_not_shown() {
        assert_eq!(format!("{:?}", Key::new([7; KEY])), "Key(..)");
    }
}
