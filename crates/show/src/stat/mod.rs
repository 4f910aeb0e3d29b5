//! What is on the fast path, and why the rest is not.
//!
//! | module | purpose |
//! |---|---|
//! | `reading` | everything at one moment, as JSON has it |
//! | `page` | a reading as text for users |
//! | `rows` | rows of a lane's memory, and lists of figures, in a reading |

mod page;
mod reading;
mod rows;

pub use page::page;
pub use reading::{ClaimReading, Host, Interface, Lane, Polled, SocketReading, StatReading, Tcp};
pub use rows::{LANE_COUNTERS, REFUSALS, claim, interface, reason_text, socket, state_name};
