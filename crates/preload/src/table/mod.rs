//! Which descriptors are ours and what they refer to. It uses `base`; `socket` and `wait` decide
//! what a call does.
//!
//! | file | purpose |
//! |---|---|
//! | `fd` | the descriptor table of this process, the first lookup of every call |
//! | `desc` | descriptions: what all descriptors of a socket share, in every process |
//! | `counts` | how many descriptors of this process each description has |
//! | `moved` | which kernel sockets have replaced others |
//! | `streams` | C's streams over sockets of ours |
//! | `ports` | ephemeral ports that the lane holds unused |
//! | `protect` | the lane's own descriptors, out of the program's reach |

pub(crate) mod counts;
pub(crate) mod desc;
pub(crate) mod fd;
pub(crate) mod moved;
pub(crate) mod ports;
pub(crate) mod protect;
pub(crate) mod streams;
