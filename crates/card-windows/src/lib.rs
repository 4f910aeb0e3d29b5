//! Network cards on Windows, as drivers give them to the service. A driver's library is loaded at
//! run time.
//!
//! | module | purpose |
//! |---|---|
//! | [`card`] | what every driver has to offer |
//! | `lab` | the card of the test lab, under Wine |
//!
//! Unsafe code is in `lab` only.

pub mod card;
#[cfg(windows)]
pub mod lab;
