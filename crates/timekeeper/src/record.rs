//! A record of all inputs of the clock, line by line as JSON, and its replay. The same state
//! machine over the same exchanges gives the same page, bit for bit.
//!
//! The first line is the clock's configuration. Exchanges, changed timeouts and breaks of the
//! counter follow, and the page as it was published after them, by which a replay checks itself.
//!
//! | module | purpose |
//! |---|---|
//! | `line` | the lines, as they are written |
//! | `recorder` | writes a record |
//! | `replay` | replays one |

mod line;
mod recorder;
mod replay;
#[cfg(test)]
mod tests;

pub use line::RecordedPage;
pub use recorder::ExchangeRecorder;
pub use replay::{ReplayError, Replayed, replay};

const SECOND: i64 = 1_000_000_000;
