//! Polls of the driver of sockets (`IOCTL_AFD_POLL`): programs wait by them for sockets, past
//! Winsock. mio, wepoll and libuv do.
//!
//! | module | purpose |
//! |---|---|
//! | `layout` | the records of input and output |
//! | `timeout` | when a poll ends though nothing is the case |
//! | `judgement` | what a poll says of one socket |
//! | `pending` | a poll that waits |
//! | `exclusive` | polls that end earlier ones |
//! | `of_kernel` | sockets that only the kernel has |
//! | `index` | the numbers of polls by handle |
//! | `waiting` | the polls that wait |
//! | `polls` | they begin, are looked at, and end |
//!
//! A poll is judged at once. If nothing is the case it waits, and each of its sockets is looked at
//! again when something has happened there (`socket::events`). If some of its sockets are the
//! kernel's, the kernel polls those by a request of this library's own. Whichever comes first ends
//! the poll.

mod exclusive;
mod index;
mod judgement;
mod layout;
mod of_kernel;
mod pending;
mod polls;
mod timeout;
mod waiting;

pub(crate) use layout::PollInput;
pub(crate) use of_kernel::POLL;
pub(crate) use polls::{NewPoll, begin, cancel, closing, look, on_alarm};
pub(crate) use waiting::{Which, is_any};
