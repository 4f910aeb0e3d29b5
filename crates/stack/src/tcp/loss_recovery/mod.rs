//! Loss recovery: which segments are lost, and how the window follows.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `feedback` | what an acknowledgement reports: segments, round trip | 2018, 7323 §4 |
//! | `recovery` | from acknowledgements to retransmissions and window | 6675 §5, 6582, 8985 |
//! | `rack` | loss detection by send time | 8985 §6 |
//! | `prr` | proportional rate reduction | 6937, 9937 |
//! | `spurious` | undoing a spurious reduction (Eifel, DSACK) | 3522, 3708 |
//! | `frto` | detection of spurious timeouts (F-RTO) | 5682 |

mod feedback;
pub(super) mod frto;
pub(super) mod prr;
pub(super) mod rack;
pub(super) mod recovery;
pub(super) mod spurious;
