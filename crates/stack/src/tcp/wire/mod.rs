//! The wire format: what a TCP header and its options mean, as values.
//!
//! | file | content | RFC |
//! |---|---|---|
//! | `seq` | sequence numbers, compared modulo 2^32 | 9293 §3.4 |
//! | `header` | a header, parsed from a packet and written in front of its payload | 9293 §3.1 |
//! | `options` | the options of a header | 9293 §3.2, 7323, 2018 |

pub(super) mod header;
pub(super) mod options;
pub(super) mod seq;
