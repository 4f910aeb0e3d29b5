//! Network Time Security (RFC 8915): exchanges that nobody on the way can forge. No I/O, no clock,
//! no randomness of its own.
//!
//! | module | purpose |
//! |---|---|
//! | `records` | what client and server tell each other within TLS to agree on keys (NTS-KE, §4) |
//! | `association` | the keys and the cookies that came of it, and the extension fields of each exchange (§5) |
//! | `seal` | AEAD_AES_SIV_CMAC_256, the one cipher that everybody has (§5.1) |
//! | `retry` | when keys may be agreed on again (§4.2) |
//!
//! A request carries a number that nobody can guess, a cookie in which the server finds the keys
//! again, and an authenticator over all of it, transmit stamp included. An answer is believed if it
//! gives the number back and its own authenticator is right; it brings new cookies. Each cookie is
//! used once, so that nobody can tell by it that two requests come from one client.

mod association;
pub mod records;
pub mod retry;
mod seal;

pub use association::{Association, COOKIES, RANDOM, Unproven};
pub use records::Agreement;
pub use retry::Retry;
pub use seal::{KEY, Key};
