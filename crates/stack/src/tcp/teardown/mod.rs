//! How a connection ends, or leaves for another stack.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `closing` | FIN, TIME-WAIT, resets, orphans | 9293 §3.6, 1337, 6191, 2525 §2.17 |
//! | `leaving` | handing a live connection over to another stack of the host |  |

pub(super) mod closing;
pub(super) mod leaving;
