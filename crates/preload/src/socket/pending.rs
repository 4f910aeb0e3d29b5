//! Connections that the program has closed and the stack has not finished with (FIN-WAIT, TIME-WAIT): their flows stay claimed until it
//! has, so that the last acknowledgements reach the stack and the port stays taken.

use crate::base::locked::{Lock, Locked};
use crate::lane::{Access, Lane};
use tickwire_stack::addr::Endpoint;
use tickwire_stack::table;

/// A closed connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Closed {
    /// Its row among those of TCP.
    pub(crate) index: u32,
    pub(crate) local: Endpoint,
    pub(crate) remote: Endpoint,
    pub(crate) claim: u64,
    /// The claim is a listener's.
    pub(crate) shared: bool,
    /// That listener has closed: the claim covers single flows now.
    pub(crate) converted: bool,
}

static CLOSED: Lock<Vec<Closed>> = Lock::new(Vec::new());

/// The list, locked; also held across fork.
pub(crate) fn list() -> Locked<'static, Vec<Closed>> {
    CLOSED.lock()
}

/// Makes room for all connections that a lane can have: one may be closed in a signal handler that has interrupted the allocator.
pub(crate) fn make_room(connections: u32) {
    let mut list = list();
    let missing = (connections as usize).saturating_sub(list.len());
    list.reserve(missing);
}

/// Remembers a closed connection, if its claim is to be released some day.
pub(crate) fn add(closed: Closed) {
    list().push(closed);
    crate::base::bell::ring();
}

/// A listener's claim covers single flows from now on: those of closed connections are marked, as many as there is room to name. Says how many.
pub(crate) fn convert(claim: u64, remotes: &mut [Endpoint]) -> usize {
    let mut list = list();
    let found = list.iter_mut().filter(|c| c.claim == claim && !c.converted);
    let named = found.zip(remotes).map(|(closed, remote)| {
        closed.converted = true;
        *remote = closed.remote;
    });
    named.count()
}

/// Whether any connection is left.
pub(crate) fn is_empty() -> bool {
    list().is_empty()
}

/// Forgets everything (in a forked child: the parent sees to it).
pub(crate) fn clear() {
    list().clear();
}

/// As [`clear`], in a child before whose birth the list may have been locked for ever, which is told.
pub(crate) fn abandon() -> bool {
    CLOSED.try_lock().map(|mut list| list.clear()).is_some()
}

/// Whether the stack still has the connection.
pub(crate) fn lives(access: &Access<'_>, closed: &Closed) -> bool {
    access.tcp_row(closed.index).is_some_and(|row| {
        row.kind.get() == table::kind::TCP && row.local.get() == closed.local && row.remote.get() == closed.remote
    })
}

/// Whether data or FIN of a connection is still unacknowledged: the program may not end yet.
pub(crate) fn unfinished(access: &Access<'_>) -> bool {
    // FIN-WAIT-1, CLOSING, LAST-ACK, and anything with bytes in the queue, as Linux numbers states.
    list().iter().filter(|c| lives(access, c)).any(|c| {
        access.tcp_row(c.index).is_some_and(|row| row.tx_queue.get() > 0 || matches!(row.state.get(), 4 | 9 | 11))
    })
}

/// Releases the claims of connections that have ended.
pub(crate) fn sweep(lane: &'static Lane) {
    let mut over = Vec::new();
    let swept = lane.with_quietly(|access| {
        list().retain(|closed| {
            let alive = lives(access, closed);
            if !alive {
                over.push(*closed);
            }
            alive
        });
        Ok(())
    });
    if swept.is_err() {
        return clear();
    }
    for closed in over {
        match (closed.shared, closed.converted) {
            (false, _) => lane.release(closed.claim, Endpoint::default()),
            (true, true) => lane.release(closed.claim, closed.remote),
            // The listener lives and keeps its claim.
            (true, false) => {}
        }
    }
}
