//! Linux's ABI of sockets in the stack's terms. Every program whose sockets are the stack's gives
//! and expects these numbers and structures, so each replacement of kernel sockets converts them
//! here.
//!
//! | module | purpose |
//! |---|---|
//! | `errno` | the stack's errors as error numbers, and back |
//! | `sockaddr` | socket addresses: bytes to an endpoint with its scope, and back |
//! | `option` | socket options: what each changes in the stack, the value it has there, numbers |
//! | `membership` | options about multicast groups and their source filters (RFC 3678) |
//! | `tcp_info` | `struct tcp_info` |
//! | `ioctl` | the `ioctl` requests that the stack answers |
//! | `poll` | the events of `poll` and `epoll` |
//!
//! All functions are pure: no I/O, no system call. Bytes are a program's: they may have any length
//! and any content. Numbers and layouts are those of 64-bit Linux on x86 and Arm.
//!
//! Allowed dependencies: `tickwire-stack`, and libc's constants. The stack does not depend on this
//! crate; it knows no numbers of an operating system.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod errno;
pub mod ioctl;
pub mod membership;
pub mod option;
pub mod poll;
pub mod sockaddr;
pub mod tcp_info;
