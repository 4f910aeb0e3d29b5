//! The extension fields of one association (RFC 8915 §5): fields that make a request's reply
//! verifiable, and the verification.

use super::records::Agreement;
use super::seal::{IV, Key};
use crate::extension::{BadExtension, Extension, Extensions, append, length};
use crate::kiss::Kiss;
use crate::packet::{HEADER, MalformedPacket, NtpPacket};
use core::fmt;
use std::collections::VecDeque;
use thiserror::Error;

/// Cookies kept: this many requests in a row may be lost (RFC 8915 §5.7).
pub const COOKIES: usize = 8;
/// Random bytes for a request: its unique identifier and its nonce.
pub const RANDOM: usize = IDENTIFIER + NONCE;

const IDENTIFIER: usize = 32;
const NONCE: usize = 16;

/// The longest request. It must pass every path unfragmented (IPv6 guarantees 1280 bytes with its
/// own header and UDP's), as must the reply, which is as long.
const LONGEST: usize = 1232;
/// Length of a request without cookies and placeholders.
const OTHERWISE: usize = HEADER + length(IDENTIFIER) + length(AUTHENTICATOR + NONCE + IV);
/// A longer cookie fits no request.
pub(super) const LONGEST_COOKIE: usize = LONGEST - OTHERWISE - length(0);

/// The two lengths in an authenticator.
const AUTHENTICATOR: usize = 4;

const UNIQUE_IDENTIFIER: u16 = 0x0104;
const COOKIE: u16 = 0x0204;
const PLACEHOLDER: u16 = 0x0304;
const SEALED: u16 = 0x0404;

/// Why a message is not verified as the server's reply to the last request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Unproven {
    /// Not an NTP message.
    #[error("garbage: {0}")]
    Malformed(#[from] MalformedPacket),
    /// Its extension fields are invalid.
    #[error("garbage in the extension fields")]
    Fields(#[from] BadExtension),
    /// No request is pending.
    #[error("answers nothing that was asked")]
    Unasked,
    /// It does not return the request's unique identifier.
    #[error("NTS: it does not give the request's identifier back")]
    Identifier,
    /// It is not authenticated.
    #[error("NTS: not authenticated")]
    Bare,
    /// It was not authenticated by the server, or was changed on the way.
    #[error("NTS: the authenticator is wrong")]
    Forged,
    /// The server does not know the cookie or its key. This is not authenticated, so a genuine
    /// reply is accepted until the next request is due (RFC 8915 §5.7).
    #[error("NTS: {}", Kiss::NtsNak)]
    Nak,
}

/// Keys and cookies that were established with one server.
pub struct Association {
    to_server: Key,
    to_client: Key,
    cookies: VecDeque<Vec<u8>>,
    /// The unique identifier of the last request, until it is answered.
    asked: Option<[u8; IDENTIFIER]>,
    /// An unauthenticated NTS NAK arrived, and no verified reply since.
    doubted: bool,
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A cookie identifies the client of the next request, so it is not printed.
        let (cookies, doubted) = (self.cookies.len(), self.doubted);
        f.debug_struct("Association").field("cookies", &cookies).field("doubted", &doubted).finish_non_exhaustive()
    }
}

impl Association {
    /// From the keys exported from TLS, for requests and for replies, and the cookies from the same
    /// handshake.
    #[must_use]
    pub fn new(to_server: Key, to_client: Key, agreement: Agreement) -> Self {
        Self { to_server, to_client, cookies: agreement.cookies.into(), asked: None, doubted: false }
    }

    /// How many requests can be sent before a reply must arrive.
    #[must_use]
    pub fn cookies(&self) -> usize {
        self.cookies.len()
    }

    /// Whether new keys are needed before the next request: the server says that it does not know
    /// these, or no cookie is left.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.doubted || self.cookies.is_empty()
    }

    /// The request with the fields of NTS, or `None` if no cookie is left. It asks for as many
    /// cookies as are missing. `random` must be unpredictable.
    pub fn protect(&mut self, request: &NtpPacket, random: &[u8; RANDOM]) -> Option<Vec<u8>> {
        let cookie = self.cookies.pop_front()?;
        let (identifier, nonce) = random.split_first_chunk::<IDENTIFIER>().expect("as long as both");
        self.asked = Some(*identifier);
        let mut message = request.to_bytes().to_vec();
        append(&mut message, UNIQUE_IDENTIFIER, identifier);
        append(&mut message, COOKIE, &cookie);
        let room = (LONGEST - OTHERWISE - length(cookie.len())) / length(cookie.len());
        // The reply also replaces the cookie of the request itself.
        for _ in 0..(COOKIES - 1 - self.cookies.len()).min(room) {
            append(&mut message, PLACEHOLDER, &vec![0; cookie.len()]);
        }
        let sealed = self.to_server.seal(&message, nonce, &[]);
        append(&mut message, SEALED, &authenticator(nonce, &sealed));
        Some(message)
    }

    /// Verifies that a message is the server's reply to the last request, except for bytes after
    /// the authenticator, and stores its cookies. A second reply to the same request is rejected.
    ///
    /// # Errors
    /// Why it is not verified. That changes no state, except that a NAK for unknown keys makes them
    /// [spent](Self::is_spent).
    pub fn prove(&mut self, message: &[u8]) -> Result<(), Unproven> {
        let (packet, rest) = NtpPacket::parse(message)?;
        let asked = self.asked.ok_or(Unproven::Unasked)?;
        let (mut identified, mut sealed) = (false, None);
        for field in Extensions::without_mac(rest) {
            let field = field?;
            match field.kind {
                UNIQUE_IDENTIFIER if field.body != asked => return Err(Unproven::Identifier),
                UNIQUE_IDENTIFIER => identified = true,
                SEALED => {
                    sealed = Some(field);
                    // Later fields are not authenticated.
                    break;
                }
                _ => {}
            }
        }
        let Some(sealed) = sealed else {
            let nak = identified && packet.stratum == 0 && Kiss::from_reference(packet.reference_id) == Kiss::NtsNak;
            self.doubted |= nak;
            return Err(if nak { Unproven::Nak } else { Unproven::Bare });
        };
        if !identified {
            return Err(Unproven::Identifier);
        }
        let text = self.unseal(message, &sealed).ok_or(Unproven::Forged)?;
        (self.asked, self.doubted) = (None, false);
        // The plaintext is authentic, so its fields are taken up to the first invalid one.
        for field in Extensions::without_mac(&text).map_while(Result::ok) {
            if field.kind == COOKIE && self.cookies.len() < COOKIES && field.body.len() <= LONGEST_COOKIE {
                self.cookies.push_back(field.body.to_vec());
            }
        }
        Ok(())
    }

    /// Decrypts a field, if it and all bytes before it are authentic.
    fn unseal(&self, message: &[u8], field: &Extension<'_>) -> Option<Vec<u8>> {
        let (&[a, b, c, d], rest) = field.body.split_first_chunk()?;
        let [nonce, sealed] = [[a, b], [c, d]].map(|length| usize::from(u16::from_be_bytes(length)));
        let (with_padding, rest) = rest.split_at_checked(nonce.next_multiple_of(4))?;
        self.to_client.unseal(&message[..HEADER + field.at], &with_padding[..nonce], rest.get(..sealed)?)
    }
}

/// The body of an authenticator (RFC 8915 §5.6). The nonce has the required N_REQ = 16 bytes, so no
/// Additional Padding is needed.
fn authenticator(nonce: &[u8], sealed: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    for part in [nonce, sealed] {
        body.extend((part.len() as u16).to_be_bytes());
    }
    for part in [nonce, sealed] {
        body.extend(part);
        body.resize(body.len().next_multiple_of(4), 0);
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Mode;
    use crate::stamp::Stamp;

    const TO_SERVER: [u8; 32] = [1; 32];
    const TO_CLIENT: [u8; 32] = [2; 32];

    fn association(cookies: usize, length: usize) -> Association {
        let cookies = (0..cookies).map(|number| vec![number as u8; length]).collect();
        let agreement = Agreement { cookies, ..Agreement::default() };
        Association::new(Key::new(TO_SERVER), Key::new(TO_CLIENT), agreement)
    }

    fn ask(association: &mut Association, number: u8) -> Vec<u8> {
        association.protect(&NtpPacket::request(Stamp(number.into())), &[number; RANDOM]).unwrap()
    }

    /// The fields of a message: type and body.
    fn fields(message: &[u8]) -> Vec<(u16, Vec<u8>)> {
        let all = Extensions::without_mac(&message[HEADER..]);
        all.map(|field| field.map(|field| (field.kind, field.body.to_vec())).unwrap()).collect()
    }

    /// A server's reply: it checks the request, and gives a cookie for each cookie and placeholder
    /// of the request.
    fn serve(request: &[u8]) -> Vec<u8> {
        let fields = fields(request);
        let (kind, body) = fields.last().unwrap();
        assert_eq!(*kind, SEALED);
        assert_eq!(body[..4], [0, 16, 0, 16]);
        let open = &request[..request.len() - 4 - body.len()];
        assert_eq!(Key::new(TO_SERVER).unseal(open, &body[4..20], &body[20..]), Some(vec![]), "the request is signed");
        let cookies = fields.iter().filter(|(kind, _)| [COOKIE, PLACEHOLDER].contains(kind));
        let mut text = Vec::new();
        for (number, (_, body)) in cookies.enumerate() {
            append(&mut text, COOKIE, &vec![100 + number as u8; body.len()]);
        }
        let (question, _) = NtpPacket::parse(request).unwrap();
        let answer =
            NtpPacket { mode: Mode::Server, stratum: 1, origin_timestamp: question.transmit_timestamp, ..question };
        let mut message = answer.to_bytes().to_vec();
        append(&mut message, UNIQUE_IDENTIFIER, &fields[0].1);
        let sealed = Key::new(TO_CLIENT).seal(&message, &[9; 16], &text);
        append(&mut message, SEALED, &authenticator(&[9; 16], &sealed));
        message
    }

    fn nak(request: &[u8]) -> Vec<u8> {
        let (question, _) = NtpPacket::parse(request).unwrap();
        let reference_id = Kiss::NtsNak.to_reference();
        let answer =
            NtpPacket { mode: Mode::Server, reference_id, origin_timestamp: question.transmit_timestamp, ..question };
        let mut message = answer.to_bytes().to_vec();
        append(&mut message, UNIQUE_IDENTIFIER, &fields(request)[0].1);
        message
    }

    #[test]
    fn a_request_carries_one_cookie_and_room_for_what_is_wanting() {
        let mut association = association(8, 100);
        for lost in 0..8 {
            let request = ask(&mut association, lost);
            let fields = fields(&request);
            assert_eq!(fields[0], (UNIQUE_IDENTIFIER, vec![lost; 32]));
            assert_eq!(fields[1], (COOKIE, vec![lost; 100]), "each is used once");
            let room = fields.iter().filter(|(kind, body)| *kind == PLACEHOLDER && *body == vec![0; 100]).count();
            assert_eq!((room, association.cookies()), (lost.into(), 7 - usize::from(lost)));
            assert!(request.len() <= LONGEST && serve(&request).len() <= request.len(), "{}", request.len());
        }
        assert!(association.is_spent());
        assert_eq!(association.protect(&NtpPacket::request(Stamp(1)), &[0; RANDOM]), None);
    }

    #[test]
    fn cookies_of_every_length_fit_and_come_back() {
        for length in [1, 12, 13, 16, 20, 100, 256, LONGEST_COOKIE] {
            let mut association = association(1, length);
            let request = ask(&mut association, 1);
            assert!(request.len() <= LONGEST, "{length}: {}", request.len());
            association.prove(&serve(&request)).unwrap();
            assert!((1..=COOKIES).contains(&association.cookies()), "{length}");
            assert!(length > 100 || association.cookies() == COOKIES, "{length}");
        }
    }

    #[test]
    fn an_answer_is_proved_once_and_brings_cookies() {
        let mut association = association(8, 100);
        ask(&mut association, 1);
        let request = ask(&mut association, 2);
        let answer = serve(&request);
        association.prove(&answer).unwrap();
        assert_eq!(association.cookies(), 8);
        assert_eq!(association.prove(&answer), Err(Unproven::Unasked), "doubled");
        let next = ask(&mut association, 3);
        assert_eq!(association.prove(&answer), Err(Unproven::Identifier), "replayed");
        association.prove(&serve(&next)).unwrap();
    }

    #[test]
    fn what_was_forged_stripped_or_changed_is_not_proved_and_does_no_harm() {
        let mut association = association(8, 100);
        let before = serve(&ask(&mut association, 1));
        association.prove(&before).unwrap();
        let request = ask(&mut association, 2);
        let answer = serve(&request);
        let cookies = association.cookies();
        assert_eq!(association.prove(&answer[..HEADER]), Err(Unproven::Bare), "stripped of all");
        let signature = answer.len() - fields(&answer).last().unwrap().1.len() - 4;
        assert_eq!(association.prove(&answer[..signature]), Err(Unproven::Bare), "stripped of the signature");
        let mut mixed = answer[..signature].to_vec();
        mixed.extend(&before[signature..]);
        assert_eq!(association.prove(&mixed), Err(Unproven::Forged), "with the signature of another");
        let text_and_padding = signature + 4 + AUTHENTICATOR;
        for at in 0..answer.len() {
            let mut changed = answer.clone();
            changed[at] ^= 0x40;
            assert!(association.prove(&changed).is_err(), "byte {at}, of {text_and_padding}");
            assert!(association.prove(&answer[..at]).is_err(), "cut at {at}");
        }
        assert_eq!(association.prove(&request), Err(Unproven::Forged), "reflected");
        assert_eq!(association.cookies(), cookies);
        assert!(!association.is_spent());
        association.prove(&answer).unwrap();
    }

    #[test]
    fn what_follows_the_signature_is_not_looked_at() {
        let mut association = association(1, 100);
        let mut answer = serve(&ask(&mut association, 1));
        append(&mut answer, COOKIE, &[66; 100]);
        append(&mut answer, UNIQUE_IDENTIFIER, &[66; 32]);
        association.prove(&answer).unwrap();
        assert!(association.cookies.iter().all(|cookie| cookie[0] != 66));
    }

    #[test]
    fn a_nak_is_believed_only_until_an_answer_proves_the_contrary() {
        let mut association = association(8, 100);
        let request = ask(&mut association, 1);
        let refusal = nak(&request);
        assert_eq!(association.prove(&refusal[..HEADER]), Err(Unproven::Bare));
        assert!(!association.is_spent(), "it does not give the number back");
        assert_eq!(association.prove(&refusal), Err(Unproven::Nak));
        assert!(association.is_spent());
        association.prove(&serve(&request)).unwrap();
        assert!(!association.is_spent(), "that was not the server");
        assert_eq!(association.prove(&refusal), Err(Unproven::Unasked));
        assert!(!association.is_spent());
    }

    #[test]
    fn nothing_secret_is_shown() {
        let association = association(3, 100);
        let text = format!("{association:?}");
        assert_eq!(text, "Association { cookies: 3, doubted: false, .. }");
    }
}
