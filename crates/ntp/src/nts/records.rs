//! NTS-KE records, which establish keys within TLS (RFC 8915 §4): the client's request, and the
//! processing of the response.
//!
//! A record is a type, whose first bit is the critical bit, the length of its body, and the body. A
//! response arrives in pieces of any length, and is parsed incrementally. Its length is bounded,
//! and so is the stored state.

use super::association::{COOKIES, LONGEST_COOKIE};
use thiserror::Error;

/// The ALPN protocol ID (RFC 7301, RFC 8915 §7.2).
pub const ALPN: &[u8] = b"ntske/1";
/// The port of NTS-KE servers, over TCP.
pub const PORT: u16 = 4460;
/// The label of the TLS key exporter (RFC 8915 §5.1).
pub const EXPORTER: &[u8] = b"EXPORTER-network-time-security";
/// The exporter context of the client's key: protocol, algorithm, direction.
pub const TO_SERVER: [u8; 5] = [0, 0, 0, 15, 0];
/// The same for the server's key.
pub const TO_CLIENT: [u8; 5] = [0, 0, 0, 15, 1];
/// The longest response in all: eight cookies are a hundredth of it.
pub const LONGEST: usize = 65_536;

/// NTPv4 as next protocol.
const NTPV4: u16 = 0;
const AES_SIV_CMAC_256: u16 = 15;

const CRITICAL: u16 = 0x8000;
const END: u16 = 0;
const PROTOCOL: u16 = 1;
const ERROR: u16 = 2;
const WARNING: u16 = 3;
const ALGORITHM: u16 = 4;
const COOKIE: u16 = 5;
const SERVER: u16 = 6;
const NTP_PORT: u16 = 7;

/// The result of a key establishment; the keys themselves are exported from TLS.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Agreement {
    /// Cookies for the first requests, one each: 1 to 8.
    pub cookies: Vec<Vec<u8>>,
    /// The name or address of the NTP server, if it is not the NTS-KE server. Printable ASCII, 255
    /// bytes at most; the caller checks whether it is a valid name.
    pub server: Option<String>,
    /// Its port, if it is not the usual one.
    pub port: Option<u16>,
}

impl core::fmt::Debug for Agreement {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let (cookies, Self { server, port, .. }) = (self.cookies.len(), self);
        // Cookies are secret.
        f.debug_struct("Agreement").field("cookies", &cookies).field("server", server).field("port", port).finish()
    }
}

/// Why a response gives no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NtsRefusal {
    /// It is too long.
    #[error("the answer is longer than {LONGEST} bytes")]
    TooLong,
    /// The connection ends before the response is complete; reported by the code that reads it.
    #[error("the answer ends in the middle")]
    Cut,
    /// A critical record of an unknown type.
    #[error("the answer has a record that must be understood and is not known")]
    Unknown,
    /// A record does not have the format of its type.
    #[error("the answer has a record that is malformed")]
    Malformed,
    /// A record occurs twice that may occur once.
    #[error("the answer says something twice")]
    Twice,
    /// The server does not understand a critical record.
    #[error("the server does not understand the request (error 0)")]
    NotUnderstood,
    /// The server says that the request is bad.
    #[error("the server calls the request bad (error 1)")]
    BadRequest,
    /// The server has an internal error.
    #[error("the server has an internal error (error 2)")]
    Internal,
    /// Another error.
    #[error("the server tells an error that is not known")]
    OtherError,
    /// A warning. None is defined so far, and an unknown one is an error (RFC 8915 §4.1.4).
    #[error("the server tells a warning that is not known")]
    Warning,
    /// The keys are for another protocol, or for none.
    #[error("the server has no keys for NTPv4")]
    Protocol,
    /// The keys are for another cipher, or for none.
    #[error("the server has no AEAD_AES_SIV_CMAC_256")]
    Algorithm,
    /// Without a cookie no request can be sent.
    #[error("the server gives no cookie that can be used")]
    NoCookie,
}

/// The client's request: keys for NTPv4 and AEAD_AES_SIV_CMAC_256, and nothing else.
#[must_use]
pub fn request() -> Vec<u8> {
    let mut request = Vec::new();
    for (kind, body) in [(PROTOCOL, &NTPV4.to_be_bytes()[..]), (ALGORITHM, &AES_SIV_CMAC_256.to_be_bytes()), (END, &[])]
    {
        append(&mut request, CRITICAL | kind, body);
    }
    request
}

fn append(to: &mut Vec<u8>, kind: u16, body: &[u8]) {
    to.extend(kind.to_be_bytes());
    to.extend((body.len() as u16).to_be_bytes());
    to.extend(body);
}

/// Parses a response incrementally.
#[derive(Default)]
pub struct Reader {
    /// The beginning of an incomplete record.
    rest: Vec<u8>,
    /// Bytes received.
    length: usize,
    protocol: bool,
    algorithm: bool,
    found: Agreement,
}

impl core::fmt::Debug for Reader {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Reader").field("length", &self.length).field("found", &self.found).finish_non_exhaustive()
    }
}

impl Reader {
    /// Parses more bytes. Returns the agreement once the response is complete; bytes after it are
    /// ignored.
    ///
    /// # Errors
    /// Why there is no agreement. The error is final.
    pub fn take(&mut self, bytes: &[u8]) -> Result<Option<Agreement>, NtsRefusal> {
        self.rest.extend(bytes.iter().take(LONGEST - self.length));
        let all = std::mem::take(&mut self.rest);
        let mut rest = &all[..];
        while let Some((&[a, b, c, d], after)) = rest.split_first_chunk() {
            let (kind, length) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
            let Some((body, after)) = after.split_at_checked(length.into()) else { break };
            if self.record(kind, body)? {
                return self.complete().map(Some);
            }
            rest = after;
        }
        self.rest = rest.to_vec();
        self.length += bytes.len().min(LONGEST - self.length);
        if self.length == LONGEST { Err(NtsRefusal::TooLong) } else { Ok(None) }
    }

    /// Parses one record; `true`: it was the last.
    fn record(&mut self, kind: u16, body: &[u8]) -> Result<bool, NtsRefusal> {
        let number = <[u8; 2]>::try_from(body).ok().map(u16::from_be_bytes);
        match kind & !CRITICAL {
            END if body.is_empty() => return Ok(true),
            END => return Err(NtsRefusal::Malformed),
            PROTOCOL => {
                if std::mem::replace(&mut self.protocol, true) {
                    return Err(NtsRefusal::Twice);
                }
                // The requested protocol, or none.
                if number != Some(NTPV4) {
                    return Err(NtsRefusal::Protocol);
                }
            }
            ERROR => {
                return Err(match number {
                    Some(0) => NtsRefusal::NotUnderstood,
                    Some(1) => NtsRefusal::BadRequest,
                    Some(2) => NtsRefusal::Internal,
                    _ => NtsRefusal::OtherError,
                });
            }
            WARNING => return Err(NtsRefusal::Warning),
            ALGORITHM => {
                if std::mem::replace(&mut self.algorithm, true) {
                    return Err(NtsRefusal::Twice);
                }
                if number != Some(AES_SIV_CMAC_256) {
                    return Err(NtsRefusal::Algorithm);
                }
            }
            COOKIE => self.keep(body),
            SERVER => {
                let printable = body.iter().all(u8::is_ascii_graphic);
                let name = str::from_utf8(body).ok().filter(|_| printable && (1..=255).contains(&body.len()));
                let name = name.ok_or(NtsRefusal::Malformed)?.to_owned();
                if self.found.server.replace(name).is_some() {
                    return Err(NtsRefusal::Twice);
                }
            }
            NTP_PORT => {
                let port = number.filter(|&port| port != 0).ok_or(NtsRefusal::Malformed)?;
                if self.found.port.replace(port).is_some() {
                    return Err(NtsRefusal::Twice);
                }
            }
            _ if kind & CRITICAL != 0 => return Err(NtsRefusal::Unknown),
            _ => {}
        }
        Ok(false)
    }

    /// Stores a cookie. A surplus one, or one that fits no request, is no error: the others
    /// suffice.
    fn keep(&mut self, cookie: &[u8]) {
        if self.found.cookies.len() < COOKIES && (1..=LONGEST_COOKIE).contains(&cookie.len()) {
            self.found.cookies.push(cookie.to_vec());
        }
    }

    fn complete(&mut self) -> Result<Agreement, NtsRefusal> {
        match (self.protocol, self.algorithm, self.found.cookies.is_empty()) {
            (false, ..) => Err(NtsRefusal::Protocol),
            (_, false, _) => Err(NtsRefusal::Algorithm),
            (_, _, true) => Err(NtsRefusal::NoCookie),
            _ => Ok(std::mem::take(&mut self.found)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn answer(records: &[(u16, &[u8])]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (kind, body) in records {
            append(&mut bytes, *kind, body);
        }
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Option<Agreement>, NtsRefusal> {
        Reader::default().take(bytes)
    }

    const PROTOCOL_OK: (u16, &[u8]) = (CRITICAL | PROTOCOL, &[0, 0]);
    const ALGORITHM_OK: (u16, &[u8]) = (ALGORITHM, &[0, 15]);
    const COOKIE_OK: (u16, &[u8]) = (COOKIE, &[7; 100]);
    const END_OK: (u16, &[u8]) = (CRITICAL | END, &[]);

    #[test]
    fn the_request_is_as_the_rfc_lays_it_out() {
        assert_eq!(request(), [0x80, 1, 0, 2, 0, 0, 0x80, 4, 0, 2, 0, 15, 0x80, 0, 0, 0]);
    }

    #[test]
    fn an_answer_is_understood_in_pieces_of_any_length() {
        let unknown = (0x4000, &[1, 2, 3][..]);
        let records = [PROTOCOL_OK, ALGORITHM_OK, unknown, COOKIE_OK, COOKIE_OK];
        let more = [(SERVER, &b"ntp.example"[..]), (NTP_PORT, &[0, 124][..]), END_OK];
        let bytes = answer(&[&records[..], &more[..]].concat());
        let expected =
            Agreement { cookies: vec![vec![7; 100]; 2], server: Some("ntp.example".into()), port: Some(124) };
        for piece in [1, 2, 3, 7, 64, bytes.len()] {
            let mut reader = Reader::default();
            let mut pieces = bytes.chunks(piece).map(|piece| reader.take(piece).unwrap());
            assert_eq!(pieces.by_ref().flatten().next(), Some(expected.clone()), "{piece}");
            assert_eq!(pieces.next(), None, "nothing is left");
        }
        assert_eq!(read(&bytes[..bytes.len() - 1]), Ok(None));
    }

    #[test]
    fn each_refusal_has_its_reason() {
        let all = |records: &[(u16, &[u8])]| read(&answer(records)).unwrap_err();
        for (records, refusal) in [
            (&[END_OK][..], NtsRefusal::Protocol),
            (&[PROTOCOL_OK, COOKIE_OK, END_OK], NtsRefusal::Algorithm),
            (&[PROTOCOL_OK, ALGORITHM_OK, END_OK], NtsRefusal::NoCookie),
            (&[PROTOCOL_OK, ALGORITHM_OK, (COOKIE, &[0; 2000]), END_OK], NtsRefusal::NoCookie),
            (&[PROTOCOL_OK, ALGORITHM_OK, (COOKIE, &[]), END_OK], NtsRefusal::NoCookie),
            (&[PROTOCOL_OK, PROTOCOL_OK], NtsRefusal::Twice),
            (&[ALGORITHM_OK, ALGORITHM_OK], NtsRefusal::Twice),
            (&[(SERVER, b"a"), (SERVER, b"b")], NtsRefusal::Twice),
            (&[(NTP_PORT, &[0, 1]), (NTP_PORT, &[0, 1])], NtsRefusal::Twice),
            (&[(PROTOCOL, &[0x80, 0])], NtsRefusal::Protocol),
            (&[(PROTOCOL, &[])], NtsRefusal::Protocol),
            (&[(ALGORITHM, &[0, 17])], NtsRefusal::Algorithm),
            (&[(ALGORITHM, &[])], NtsRefusal::Algorithm),
            (&[(ALGORITHM, &[0, 15, 0, 17])], NtsRefusal::Algorithm),
            (&[(CRITICAL | ERROR, &[0, 0])], NtsRefusal::NotUnderstood),
            (&[(CRITICAL | ERROR, &[0, 1])], NtsRefusal::BadRequest),
            (&[(CRITICAL | ERROR, &[0, 2])], NtsRefusal::Internal),
            (&[(ERROR, &[9, 9])], NtsRefusal::OtherError),
            (&[(ERROR, &[])], NtsRefusal::OtherError),
            (&[(CRITICAL | WARNING, &[0, 0])], NtsRefusal::Warning),
            (&[(CRITICAL | 0x4000, &[])], NtsRefusal::Unknown),
            (&[(CRITICAL | END, &[0])], NtsRefusal::Malformed),
            (&[(SERVER, b"")], NtsRefusal::Malformed),
            (&[(SERVER, b"a b")], NtsRefusal::Malformed),
            (&[(SERVER, &[b'a'; 256])], NtsRefusal::Malformed),
            (&[(NTP_PORT, &[0, 0])], NtsRefusal::Malformed),
            (&[(NTP_PORT, &[1])], NtsRefusal::Malformed),
        ] {
            assert_eq!(all(records), refusal, "{records:?}");
        }
    }

    #[test]
    fn an_answer_without_end_ends() {
        let mut reader = Reader::default();
        let record = answer(&[(0x4000, &[0; 1000])]);
        let mut taken = 0;
        while reader.take(&record) == Ok(None) {
            taken += record.len();
            assert!(reader.rest.len() < 4 + usize::from(u16::MAX), "only the beginning of a record is kept");
        }
        assert!((LONGEST - record.len()..LONGEST).contains(&taken), "{taken}");
        assert_eq!(read(&answer(&[(COOKIE, &[1; 65_535])])), Err(NtsRefusal::TooLong));
        let many: Vec<_> = [PROTOCOL_OK, ALGORITHM_OK].into_iter().chain([COOKIE_OK; 100]).chain([END_OK]).collect();
        assert_eq!(read(&answer(&many)).unwrap().unwrap().cookies.len(), COOKIES);
    }

    #[test]
    fn cookies_are_not_shown() {
        let agreement = Agreement { cookies: vec![vec![77; 4]], ..Agreement::default() };
        assert!(!format!("{agreement:?}").contains("77"), "{agreement:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived_however_they_come(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
            pieces in proptest::collection::vec(1usize..100, 1..20),
        ) {
            let whole = read(&bytes);
            let mut reader = Reader::default();
            let (mut rest, mut last) = (&bytes[..], Ok(None));
            for length in pieces.into_iter().cycle() {
                let (piece, after) = rest.split_at(length.min(rest.len()));
                last = reader.take(piece);
                rest = after;
                if rest.is_empty() || last != Ok(None) {
                    break;
                }
            }
            prop_assert_eq!(last, whole);
        }
    }
}
