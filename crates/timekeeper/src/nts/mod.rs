//! Network Time Security (RFC 8915) of one server: agreeing on keys, spending them, and agreeing
//! anew. Without keys nothing is asked; a server that is to be asked with NTS is never asked
//! without.
//!
//! | module | purpose |
//! |---|---|
//! | `agreement` | the conversation in which keys are agreed on, in a thread of its own |
//! | `roots` | who may vouch for a server |

#[cfg(feature = "nts")]
mod agreement;
#[cfg(feature = "nts")]
mod roots;

use crate::config::Server;
use crate::report::NtsReport;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use thiserror::Error;
use tickwire_ntp::Packet;
use tickwire_ntp::nts::{Association, RANDOM, Retry, Unproven};

/// Whether this program can do it.
pub(crate) const BUILT_IN: bool = cfg!(feature = "nts");

/// Whom to ask for the time, and how.
#[derive(Debug)]
pub(crate) struct Agreed {
    /// The time server's address: that of the server that gave the keys, if it has named no other.
    pub(crate) address: SocketAddr,
    pub(crate) association: Association,
}

/// Why there are no keys.
#[derive(Debug, Error)]
#[error("{why}{}{detail}", if detail.is_empty() { "" } else { ": " })]
pub(crate) struct Failure {
    /// In words of our own, which are few, so that each can be counted.
    pub(crate) why: String,
    /// What the system or a library says beside.
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(why: &str, detail: impl ToString) -> Self {
        Self { why: why.into(), detail: detail.to_string() }
    }
}

/// Agrees on keys with a server; takes some seconds at most, beside what the resolver takes.
#[cfg(feature = "nts")]
pub(crate) use agreement::agree;

/// Nobody is asked by a program that cannot.
#[cfg(not(feature = "nts"))]
pub(crate) fn agree(_: &Server, _: Option<SocketAddr>) -> Result<Agreed, Failure> {
    Err(Failure::new("this program is built without NTS", ""))
}

/// Whether somebody is trusted by this file, or by the host if none is named.
#[cfg(feature = "nts")]
pub(crate) fn check_roots(file: Option<&Path>) -> Result<(), Failure> {
    roots::roots(file).map(|_| ())
}

/// Nobody is.
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
    /// Of a server that is to be asked with it.
    pub(crate) fn of(server: &Server, now: i64) -> Option<Self> {
        let new = Self { association: None, retry: Retry::new(now), agreed: 0, failed: BTreeMap::new() };
        server.nts.then_some(new)
    }

    /// The earliest time at which keys may be agreed on.
    pub(crate) const fn next(&self) -> i64 {
        self.retry.next()
    }

    /// A conversation begins at `now`.
    pub(crate) const fn began(&mut self, now: i64) {
        self.retry.began(now);
    }

    /// It gave no keys.
    pub(crate) fn failed(&mut self, failure: &Failure) {
        *self.failed.entry(failure.why.clone()).or_default() += 1;
    }

    /// It gave these; what was agreed on before is forgotten (RFC 8915 §5.7).
    pub(crate) fn agreed(&mut self, association: Association) {
        self.agreed += 1;
        self.retry.agreed();
        self.association = Some(association);
    }

    /// The keys are for nobody any more.
    pub(crate) fn forget(&mut self) {
        self.association = None;
    }

    /// Whether a request can be made.
    pub(crate) fn can_ask(&self) -> bool {
        self.association.as_ref().is_some_and(|association| association.cookies() > 0)
    }

    /// Whether new keys are wanted, and may be agreed on at `now`.
    pub(crate) fn wants(&self, now: i64) -> bool {
        self.association.as_ref().is_none_or(Association::is_spent) && now >= self.retry.next()
    }

    /// The request as it goes out; `None`: it does not.
    pub(crate) fn protect(&mut self, request: &Packet) -> Option<Vec<u8>> {
        let mut random = [0; RANDOM];
        // It fails on no Linux that has started; without it there is no safe request.
        getrandom::fill(&mut random).expect("the kernel's random numbers");
        self.association.as_mut()?.protect(request, &random)
    }

    /// Proves an answer.
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
