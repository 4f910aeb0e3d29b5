//! Functions of Windows are replaced by functions of this library (inline hooks), and the real
//! functions stay callable.
//!
//! | file | purpose |
//! |---|---|
//! | `original` | the real function behind a hook |
//! | `hook_entry` | a hook: original and replacement, of one type |
//! | `install` | all hooks of the loaded modules, or none |
//! | `late_modules` | hooks of modules that the program loads later |
//! | `attach` | what happens when the library is loaded |
//! | `minhook` | calls of MinHook, which patches code |
//! | `module` | modules of the process and their exports; the path of this library |
//! | [`boundary`] | panics and errors at the C boundary |
//! | [`reentrancy`] | calls of hooked functions that this library makes itself |
//! | [`last_error`] | the thread's last error |
//! | `tls_slot` | a word for each thread |
//! | [`child_processes`] | processes that the program starts |
//! | `loaded_event` | telling the launcher that the library is ready |
//! | [`winsock_types`], [`winsock`] | the functions of Winsock: their types, and the originals |
//! | [`ntdll`] | functions for files and completion ports: their types, and the originals |
//!
//! # When hooks go in
//! `DllMain` installs the hooks of modules that are mapped at that moment. If the library is the
//! first entry of a program's import table, these are all modules that the program imports:
//! Windows maps them before it initialises any. `ws2_32.dll` may be loaded later, for instance by
//! a plug-in or by an interpreter. The loader reports each module between mapping and
//! initialising it (`LdrRegisterDllNotification`), and its hooks go in then. So no call of a
//! late module escapes, and this library never loads a module inside `DllMain`.
//!
//! Two simpler ways are not taken. A static import of `ws2_32.dll` would load Winsock into
//! each child process, and rules out a replacement `ws2_32.dll` beside a program. A hook of
//! `LdrLoadDll` runs only after the initialisers of all modules that came along.
//!
//! # All or nothing
//! The modules that are there at first have all of their hooks, or none of them is changed. The
//! same holds for each late module by itself. See [`Original::is_hooked`].
//!
//! # Locks
//! The loader's lock comes before this room's lock: addresses are looked up before it is taken.
//! While other threads are suspended, MinHook uses no lock that one of them may hold.

mod attach;
pub mod boundary;
pub mod child_processes;
mod hook_entry;
mod install;
pub mod last_error;
mod late_modules;
mod loaded_event;
mod minhook;
mod module;
pub mod ntdll;
mod original;
pub mod reentrancy;
mod tls_slot;
pub mod winsock;
pub mod winsock_types;

pub use attach::{attach, attach_error, is_attached};
pub use hook_entry::Hook;
pub use install::{HookError, install};
pub use module::{KERNEL32, KERNELBASE, MSWSOCK, NTDLL, WS2_32, WSOCK32, own_path};
pub use original::Original;
