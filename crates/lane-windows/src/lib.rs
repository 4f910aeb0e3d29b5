//! A lane on Windows, as both of its sides see it. On other systems this crate is empty.
//!
//! What is the same on every operating system is in `tickwire-lane`: messages, layout, and the
//! discipline of rings. Here are the calls of Windows under it.
//!
//! | module | purpose |
//! |---|---|
//! | `control` | the connection between program and service |
//! | `port` | the program's side of a lane, coupled to a stack |
//! | `lane_memory` | the rings of a lane in two sections |
//! | `lane_snapshot` | a copy of its counters and rows, for a tool that shows them |
//! | `stack_memory` | the memory of a program's stack |
//! | `security_descriptor`, `sys` | helpers for calls of Windows |
//! | `private_object` | which rights to these a program cannot give itself |
//! | `section`, `event` | memory that processes share; what they wake each other by |
//! | `event_watch` | does something when one of many events is set |
//! | `pulled_socket` | a program's socket, in the service |
//! | `process_user` | the user of a process |
//! | `clock` | the time of lanes |
//! | `thread_priority` | the priority of a thread that moves packets |
//!
//! May depend on `tickwire-lane`, the stack and on the operating system (Windows). It makes no
//! policy: the service decides which programs may have a lane, and which flows.
//!
//! `unsafe` is allowed here, for calls of Windows and for mapped memory; every block says why it is
//! sound. Nothing that another process can write (messages, handle values) is trusted.
#![cfg(windows)]

pub mod clock;
pub mod control;
pub mod event;
pub mod event_watch;
pub mod lane_memory;
pub mod lane_snapshot;
pub mod port;
mod private_object;
pub mod process_user;
pub mod pulled_socket;
pub mod section;
mod security_descriptor;
pub mod stack_memory;
mod sys;
pub mod thread_priority;
