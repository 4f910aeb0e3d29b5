//! Network Time Security (RFC 8915): exchanges that no host on the path can forge. No I/O, no
//! clock, no randomness of its own.
//!
//! | module | purpose |
//! |---|---|
//! | `records` | the messages within TLS that establish keys (NTS-KE, §4) |
//! | `association` | the resulting keys and cookies, extension fields of each exchange (§5) |
//! | `seal` | AEAD_AES_SIV_CMAC_256, the mandatory cipher (§5.1) |
//! | `retry` | backoff of key establishment (§4.2) |
//!
//! A request carries an unpredictable unique identifier, a cookie from which the server recovers
//! the keys, and an authenticator over all of it, transmit timestamp included. A reply is accepted
//! if it returns the identifier and its own authenticator is right; it brings new cookies. Each
//! cookie is used once, so that an observer cannot link two requests to one client.

mod association;
pub mod records;
pub mod retry;
mod seal;

pub use association::{Association, COOKIES, RANDOM, Unproven};
pub use records::Agreement;
pub use retry::Retry;
pub use seal::{KEY, Key};
