//! Sending: the send queue, and what of it is sent now.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `queue` | the send queue, by sequence number and by send time | 9293 §3.7, 6675 |
//! | `window` | the send window, which the peer sets | 9293 §3.8.6 |
//! | `scoreboard` | marks on the send queue: what has arrived, what is lost | 2018, 6675 |
//! | `multi_frame_segment` | segments that are longer than a frame |  |
//! | `output` | what windows and Nagle let out now | 9293 §3.7.4, §3.8.6.2.1, 896 |

pub(super) mod multi_frame_segment;
pub(super) mod output;
pub(super) mod queue;
mod scoreboard;
pub(super) mod window;
