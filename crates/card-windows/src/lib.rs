//! Network cards on Windows, as drivers give them to the service. A driver's library is loaded at
//! run time.
//!
//! | module | purpose |
//! |---|---|
//! | [`card`] | what every driver has to offer |
//! | [`windivert`] | the driver WinDivert |
//! | [`xdp`] | the driver XDP for Windows |
//! | `lab` | the card of the test lab, under Wine |
//! | `event` | events of Windows |
//! | [`without_driver`] | no driver: a card that has no packets |
//! | `open` | opens a card by the name of its driver and interface (Windows) |
//!
//! Unsafe code is in `lab`, `event` and in some modules of [`windivert`] and [`xdp`] only.

pub mod card;
#[cfg(windows)]
mod event;
#[cfg(windows)]
pub mod lab;
#[cfg(windows)]
pub mod open;
pub mod windivert;
pub mod without_driver;
pub mod xdp;
