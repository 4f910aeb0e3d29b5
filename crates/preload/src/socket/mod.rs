//! What calls on a socket do. It uses `base`, `table`, `lane` and `wait`.
//!
//! | file | purpose |
//! |---|---|
//! | `open`, `close`, `pending`, `flush` | the life of a socket, to the last acknowledgement |
//! | `leaving` | handing a connection over to the kernel |
//! | `kernel` | sockets that go back to the kernel or stay there, with the reason |
//! | `ops` | what the exported calls do with a descriptor of ours, for every kind |
//! | `tcp`, `udp` | the same for each kind |
//! | `opening` | `connect` and `listen` of TCP |
//! | `options`, `option_policy` | socket options, and the table of how each is treated |
//! | `inherited` | the options that a connection inherits from its listener |
//! | `egress_interface`, `multicast` | the interface that a socket names; group memberships |
//! | `ancillary` | control messages and names of datagrams |
//! | `descriptor` | `O_NONBLOCK`, `FIONREAD` and similar requests |
//! | `packet_sockets` | programs that capture packets |
//! | `rights` | sockets that are passed to another process over a Unix socket |

pub(crate) mod ancillary;
pub(crate) mod close;
pub(crate) mod descriptor;
pub(crate) mod egress_interface;
pub(crate) mod flush;
mod inherited;
pub(crate) mod kernel;
pub(crate) mod leaving;
pub(crate) mod multicast;
pub(crate) mod open;
pub(crate) mod opening;
pub(crate) mod ops;
pub(crate) mod option_policy;
pub(crate) mod options;
pub(crate) mod packet_sockets;
pub(crate) mod pending;
pub(crate) mod rights;
pub(crate) mod tcp;
pub(crate) mod udp;
