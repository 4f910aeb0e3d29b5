//! Network Time Security (RFC 8915) with one server: key establishment, use of the keys, and
//! renewal. Without keys no request is sent; a server with NTS is never polled without it.
//!
//! | module | purpose |
//! |---|---|
//! | `agreement` | key establishment (NTS-KE), in a thread of its own |
//! | `roots` | the trusted certificates |

#[cfg(feature = "nts")]
mod agreement;
#[cfg(feature = "nts")]
mod roots;

use crate::lookup::Failure;
use crate::random;
use crate::report::NtsReport;
use crate::server_config::PolledServer;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use tickwire_ntp::NtpPacket;
use tickwire_ntp::nts::{Association, RANDOM, Retry, Unproven};

/// Whether this program is built with NTS.
pub(crate) const BUILT_IN: bool = cfg!(feature = "nts");

/// The time server to poll, and the association with it.
#[derive(Debug)]
pub(crate) struct Agreed {
    /// The time server's address: that of the server that gave the keys, if it has named no other.
    pub(crate) address: SocketAddr,
    pub(crate) association: Association,
}

/// Establishes keys with a server; takes ten seconds at most, plus the time of the resolver.
#[cfg(feature = "nts")]
pub(crate) use agreement::agree;

/// A program without NTS never sends a request for keys.
#[cfg(not(feature = "nts"))]
pub(crate) fn agree(_: &PolledServer, _: Option<SocketAddr>) -> Result<Agreed, Failure> {
    Err(Failure::new("this program is built without NTS", ""))
}

/// Checks that this file, or the host's store if none is named, holds a trusted certificate.
#[cfg(feature = "nts")]
pub(crate) fn check_roots(file: Option<&Path>) -> Result<(), Failure> {
    roots::roots(file).map(|_| ())
}

/// Nothing to check: without NTS [`TimekeeperConfig::check`](crate::TimekeeperConfig::check)
/// rejects such a server.
#[cfg(not(feature = "nts"))]
pub(crate) fn check_roots(_: Option<&Path>) -> Result<(), Failure> {
    Ok(())
}

/// The state of one server.
#[derive(Debug)]
pub(crate) struct Nts {
    association: Option<Association>,
    retry: Retry,
    agreed: u64,
    failed: BTreeMap<String, u64>,
}

impl Nts {
    /// The initial state; `None` for a server without NTS.
    pub(crate) fn of(server: &PolledServer, now: i64) -> Option<Self> {
        let new = Self { association: None, retry: Retry::new(now), agreed: 0, failed: BTreeMap::new() };
        server.nts.then_some(new)
    }

    /// The earliest time at which keys may be established.
    pub(crate) const fn next(&self) -> i64 {
        self.retry.next()
    }

    /// Key establishment starts at `now`.
    pub(crate) const fn began(&mut self, now: i64) {
        self.retry.began(now);
    }

    /// Key establishment has failed.
    pub(crate) fn failed(&mut self, failure: &Failure) {
        *self.failed.entry(failure.why.clone()).or_default() += 1;
    }

    /// Key establishment has given these keys; the previous ones are discarded (RFC 8915 §5.7).
    pub(crate) fn agreed(&mut self, association: Association) {
        self.agreed += 1;
        self.retry.agreed();
        self.association = Some(association);
    }

    /// Discards the keys: their server is not polled any more.
    pub(crate) fn forget(&mut self) {
        self.association = None;
    }

    /// Whether a request can be made.
    pub(crate) fn can_ask(&self) -> bool {
        self.association.as_ref().is_some_and(|association| association.cookies() > 0)
    }

    /// Whether new keys are needed, and may be established at `now`.
    pub(crate) fn wants(&self, now: i64) -> bool {
        self.association.as_ref().is_none_or(Association::is_spent) && now >= self.retry.next()
    }

    /// The request with its NTS fields; `None` without a key or cookie.
    pub(crate) fn protect(&mut self, request: &NtpPacket) -> Option<Vec<u8>> {
        self.association.as_mut()?.protect(request, &random::bytes::<RANDOM>())
    }

    /// Authenticates a reply.
    pub(crate) fn prove(&mut self, answer: &[u8]) -> Result<(), Unproven> {
        self.association.as_mut().ok_or(Unproven::Unasked)?.prove(answer)?;
        self.retry.proved();
        Ok(())
    }

    pub(crate) fn report(&self) -> NtsReport {
        NtsReport {
            cookies: self.association.as_ref().map(Association::cookies),
            agreed: self.agreed,
            failed: self.failed.clone(),
        }
    }
}
