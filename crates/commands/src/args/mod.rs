//! The options of the subcommands. It does not depend on what these do, because the man pages are
//! generated from it alone.
//!
//! | module | purpose |
//! |---|---|
//! | [`clock`], [`capture`] | the options of the command of that name |
//! | [`values`] | parsers for values of options, which other commands have, too |

pub mod capture;
pub mod clock;
pub mod values;
