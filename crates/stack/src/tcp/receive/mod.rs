//! Receiving: from a segment to the bytes that the program reads, and when to acknowledge.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `input` | validation of a segment, and to what it belongs | 9293 §3.10.7, §3.10.7.1 |
//! | `established` | segments in the synchronized states | 9293 §3.10.7.4, 5961, 7323 §5 |
//! | `timestamps` | timestamps, and segments that they show to be old (PAWS) | 7323 |
//! | `answer_limit` | limits to answers that any host can provoke | 5961 §7 |
//! | `queue` | the receive queue, in order and out of order | 9293 §3.10.7.4, 2018, 2883 |
//! | `window` | the receive window, and how the receive buffer grows | 9293 §3.8.6 |
//! | `ack` | when to acknowledge | 9293 §3.8.6.3, 5681 §4.2 |
//! | `ack_thinning` | acknowledgements without a segment, to find losses early | 8985 §7.2 |
//! | `urgent` | urgent data, in both directions | 6093 §3 |

pub(super) mod ack;
mod ack_thinning;
pub(super) mod answer_limit;
mod established;
pub(super) mod input;
pub(super) mod queue;
pub(super) mod timestamps;
pub(super) mod urgent;
pub(super) mod window;
