//! Hooks in this process. They stay, so each test hooks functions of its own; and tests that load
//! the library itself do so in processes of their own.
#![cfg(windows)]

mod all_or_nothing;
mod boundaries;
mod children;
mod functions;
mod library;
mod threads;
mod winsock;
