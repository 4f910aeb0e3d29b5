//! Notification of changed interfaces, addresses and routes. Windows announces no changes of
//! neighbours: paths look at theirs again ([`crate::WindowsHost::update`]).

use crate::sys::{Announced, Event, Registrations, Signal};
use std::os::windows::io::{AsHandle, BorrowedHandle};
use std::sync::Arc;

/// Which tables have changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChangedTables {
    /// An interface: its state, MTU or metric.
    pub interfaces: bool,
    /// An address.
    pub addresses: bool,
    /// A route.
    pub routes: bool,
}

/// Announcements of changes. The handle is an event that wakes one thread when there are some.
///
/// An announcement says that a table is to be read again, not what has changed: that follows from
/// the comparison of [`crate::HostTables`].
#[derive(Debug)]
pub struct Changes {
    signal: Arc<Signal>,
    _registrations: Registrations,
}

impl Changes {
    /// Starts to receive announcements. `None` if this system announces nothing (Wine 8): then the
    /// caller reads the tables once a second and compares.
    #[must_use]
    pub fn start() -> Option<Self> {
        let signal = Arc::new(Signal::new(Event::new().ok()?));
        Some(Self { _registrations: Registrations::start(Arc::clone(&signal))?, signal })
    }

    /// What was announced since the last call. Does not wait.
    #[must_use]
    pub fn take(&self) -> ChangedTables {
        let bits = self.signal.take();
        let has = |table: Announced| bits & table as u32 != 0;
        ChangedTables {
            interfaces: has(Announced::Interfaces),
            addresses: has(Announced::Addresses),
            routes: has(Announced::Routes),
        }
    }
}

impl AsHandle for Changes {
    fn as_handle(&self) -> BorrowedHandle<'_> {
        self.signal.event.as_handle()
    }
}
