//! Key establishment between client and server (NTS-KE, RFC 8915 §4): TLS 1.3, one request, one
//! response.
//!
//! It has a thread of its own for ten seconds at most, like a name lookup. The system's resolver
//! blocks, trusted certificates are read from disk, and verifying a chain takes milliseconds of
//! computing. None of that may delay a packet's timestamp, so even non-blocking TLS would need a
//! thread. Blocking TLS, with one deadline for all of it, needs no state machine.

use super::{Agreed, roots};
use crate::lookup::{Failure, resolve};
use crate::server_config::{PolledServer, host_name};
use rustls::client::Resumption;
use rustls::pki_types::ServerName;
use rustls::{CertificateError, ClientConfig, ClientConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickwire_ntp::nts::records::{self, NtsRefusal, Reader};
use tickwire_ntp::nts::{Agreement, Association, KEY, Key};

/// Timeout from the first packet to the last, however slowly the server sends.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the connection to one of several addresses.
const EACH: Duration = Duration::from_secs(3);

/// Establishes keys with a server. Addresses of the `avoided` host are tried last, for keys and for
/// time.
pub(crate) fn agree(server: &PolledServer, avoided: Option<SocketAddr>) -> Result<Agreed, Failure> {
    let roots = roots::roots(server.nts_ca.as_deref())?;
    let look_up = |host: &str, port| resolve(host, port).map(|all| last(all, avoided));
    let addresses = look_up(&server.host, server.nts_port)?;
    let until = Instant::now() + TIMEOUT;
    let mut stream = connect(&addresses, until)?;
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(|error| tls_failure(&error))?;
    let mut tls = tls.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![records::ALPN.to_vec()];
    // A session ticket would let the server recognise the client.
    tls.resumption = Resumption::disabled();
    // A link-local address includes the interface; the certificate does not.
    let host = server.host.split_once('%').map_or(&*server.host, |(address, _)| address);
    let name = ServerName::try_from(host.to_owned())
        .map_err(|error| Failure::new("the server's name can be in no certificate", error))?;
    let mut session = ClientConnection::new(Arc::new(tls), name).map_err(|error| tls_failure(&error))?;
    let agreement = converse(&mut session, &mut stream)?;
    let key = |context| {
        let bytes = session.export_keying_material([0; KEY], records::EXPORTER, Some(context));
        bytes.map(Key::new).map_err(|error| tls_failure(&error))
    };
    let (to_server, to_client) = (key(&records::TO_SERVER)?, key(&records::TO_CLIENT)?);
    let port = agreement.port.unwrap_or(server.port);
    let address = match &agreement.server {
        // The scope ID of a link-local address is kept.
        None => {
            let mut same = stream.peer;
            same.set_port(port);
            same
        }
        Some(other) => {
            host_name(other).map_err(|error| Failure::new("the server names a time server that is none", error))?;
            look_up(other, port)?[0]
        }
    };
    Ok(Agreed { address, association: Association::new(to_server, to_client, agreement) })
}

/// The same addresses, those of the `avoided` host last.
fn last(mut addresses: Vec<SocketAddr>, avoided: Option<SocketAddr>) -> Vec<SocketAddr> {
    addresses.sort_by_key(|address| avoided.is_some_and(|avoided| avoided.ip() == address.ip()));
    addresses
}

/// A connection to the first address that accepts one.
fn connect(addresses: &[SocketAddr], until: Instant) -> Result<Timed, Failure> {
    let mut last = None;
    for address in addresses {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(address, left.min(EACH)) {
            Ok(stream) => return Ok(Timed { peer: *address, stream, until }),
            Err(error) => last = Some(format!("{address}: {error}")),
        }
    }
    Err(Failure::new("the server for keys cannot be reached", last.unwrap_or_default()))
}

/// Sends the request, and reads the response.
fn converse(session: &mut ClientConnection, stream: &mut Timed) -> Result<Agreement, Failure> {
    let mut talk = rustls::Stream::new(session, stream);
    talk.write_all(&records::request()).and_then(|()| talk.flush()).map_err(|error| failure(&error))?;
    // RFC 8915 §4: a server of another protocol must not be taken for one of NTS-KE.
    if talk.conn.alpn_protocol() != Some(records::ALPN) {
        return Err(Failure::new("the server does not speak NTS-KE", ""));
    }
    let mut reader = Reader::default();
    let mut bytes = [0; 2048];
    loop {
        let length = match talk.read(&mut bytes) {
            Ok(0) => return Err(refused(NtsRefusal::Cut)),
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(failure(&error)),
        };
        if let Some(agreement) = reader.take(&bytes[..length]).map_err(refused)? {
            // Only a courtesy: the keys are valid without it.
            talk.conn.send_close_notify();
            let _ = talk.flush();
            return Ok(agreement);
        }
    }
}

fn refused(refusal: NtsRefusal) -> Failure {
    Failure::new(&refusal.to_string(), "")
}

fn tls_failure(error: &rustls::Error) -> Failure {
    match error {
        rustls::Error::InvalidCertificate(wrong) => certificate_failure(wrong),
        other => Failure::new("TLS: the conversation fails", other),
    }
}

/// Each of these needs another remedy, so each is counted and shown by itself.
fn certificate_failure(wrong: &CertificateError) -> Failure {
    use CertificateError as Wrong;
    match wrong {
        // Also of an issuer with a trusted one's name, but not its key.
        Wrong::UnknownIssuer | Wrong::BadSignature => {
            Failure::new("TLS: no trusted authority has signed the certificate", "")
        }
        Wrong::Expired | Wrong::ExpiredContext { .. } => Failure::new("TLS: the certificate has expired", wrong),
        Wrong::NotValidYet | Wrong::NotValidYetContext { .. } => {
            Failure::new("TLS: the certificate is not valid yet", wrong)
        }
        Wrong::NotValidForName | Wrong::NotValidForNameContext { .. } => {
            Failure::new("TLS: the certificate is for another name", wrong)
        }
        other => Failure::new("TLS: the certificate is not valid", other),
    }
}

fn failure(error: &io::Error) -> Failure {
    if let Some(error) = error.get_ref().and_then(|inner| inner.downcast_ref()) {
        return tls_failure(error);
    }
    match error.kind() {
        ErrorKind::TimedOut | ErrorKind::WouldBlock => Failure::new("the server takes too long to agree", ""),
        ErrorKind::UnexpectedEof => refused(NtsRefusal::Cut),
        _ => Failure::new("the connection to the server for keys breaks", error),
    }
}

/// A stream with one deadline for all reads and writes, also if each of them makes progress.
struct Timed {
    stream: TcpStream,
    peer: SocketAddr,
    until: Instant,
}

impl Timed {
    fn left(&self) -> io::Result<Option<Duration>> {
        let left = self.until.saturating_duration_since(Instant::now());
        // Zero would mean no timeout to the kernel.
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(Some(left)) }
    }
}

impl Read for Timed {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(self.left()?)?;
        self.stream.read(bytes)
    }
}

impl Write for Timed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(self.left()?)?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_was_silent_is_tried_last_at_whatever_port() {
        let all = ["[2001:db8::1]:4460", "192.0.2.1:4460", "192.0.2.2:4460"].map(|address| address.parse().unwrap());
        let order = |avoided: Option<&str>| -> Vec<usize> {
            let avoided = avoided.map(|address| address.parse().unwrap());
            last(all.to_vec(), avoided).iter().map(|one| all.iter().position(|other| other == one).unwrap()).collect()
        };
        let expected =
            [(None, vec![0, 1, 2]), (Some("[2001:db8::1]:123"), vec![1, 2, 0]), (Some("192.0.2.9:123"), vec![0, 1, 2])];
        for (avoided, expected) in expected {
            assert_eq!(order(avoided), expected, "{avoided:?}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_certificate_is_told_apart() {
        let why = |wrong| tls_failure(&rustls::Error::InvalidCertificate(wrong)).why;
        let all = [
            (CertificateError::UnknownIssuer, "no trusted authority"),
            (CertificateError::BadSignature, "no trusted authority"),
            (CertificateError::Expired, "expired"),
            (CertificateError::NotValidYet, "yet"),
            (CertificateError::NotValidForName, "name"),
            (CertificateError::BadEncoding, "is not valid"),
        ];
        for (wrong, word) in all {
            let why = why(wrong);
            assert!(why.starts_with("TLS: ") && why.contains(word), "{why}");
        }
    }
}
