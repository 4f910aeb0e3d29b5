//! What calls on a socket do. It uses `base`, `table`, `lane` and `wait`.
//!
//! | file | purpose |
//! |---|---|
//! | `open`, `close`, `pending`, `flush` | the life of a socket from `socket` to the last acknowledgement |
//! | `kernel` | sockets that go back to the kernel or stay there, with the reason |
//! | `ops` | what the exported calls do with a descriptor of ours, whatever its kind |
//! | `tcp`, `udp` | the same for each kind |
//! | `opening` | `connect` and `listen` of TCP |
//! | `options`, `treatment` | socket options, and what becomes of each, in one table |
//! | `inherited` | the options that a connection has of its listener |
//! | `via`, `multicast` | the interface that a socket names; group memberships |
//! | `ancillary` | what comes beside a datagram |
//! | `descriptor` | `O_NONBLOCK`, `FIONREAD` and the like |
//! | `packet_sockets` | programs that read the wire |
//! | `rights` | sockets that are passed to another process over a Unix socket |

pub(crate) mod ancillary;
pub(crate) mod close;
pub(crate) mod descriptor;
pub(crate) mod flush;
mod inherited;
pub(crate) mod kernel;
pub(crate) mod leaving;
pub(crate) mod multicast;
pub(crate) mod open;
pub(crate) mod opening;
pub(crate) mod ops;
pub(crate) mod options;
pub(crate) mod packet_sockets;
pub(crate) mod pending;
pub(crate) mod rights;
pub(crate) mod tcp;
pub(crate) mod treatment;
pub(crate) mod udp;
pub(crate) mod via;
