//! Programs are started with a library, in processes of their own. A program is this file again,
//! which does what its environment says before `main` runs (see `program`). The library is one of
//! Windows that this program does not load by itself.
#![cfg(windows)]

mod failures;
mod lifetime;
mod loading;
mod program;
mod texts;
