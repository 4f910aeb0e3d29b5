//! Inspection by tests and simulations; not part of a lane.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `invariants` | invariants of connections and listeners |  |
//! | `seq_snapshot` | the sequence numbers of a connection, to compare both ends |  |

mod invariants;
pub(super) mod seq_snapshot;
