//! Which handles are sockets of IP, and what each is to this library.

use crate::real::Handle;
use crate::socket::Socket;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

static SOCKETS: RwLock<Option<HashMap<Handle, Arc<Socket>>>> = RwLock::new(None);

/// The socket of a handle.
pub(crate) fn get(handle: Handle) -> Option<Arc<Socket>> {
    let sockets = SOCKETS.read().unwrap_or_else(PoisonError::into_inner);
    sockets.as_ref()?.get(&handle).map(Arc::clone)
}

/// A socket has been made. One that had this handle before is forgotten: it was closed by a way
/// that is not known here.
pub(crate) fn insert(handle: Handle, socket: Socket) -> Option<Arc<Socket>> {
    let mut sockets = SOCKETS.write().unwrap_or_else(PoisonError::into_inner);
    sockets.get_or_insert_default().insert(handle, Arc::new(socket))
}

/// All sockets.
pub(crate) fn all() -> Vec<Arc<Socket>> {
    let sockets = SOCKETS.read().unwrap_or_else(PoisonError::into_inner);
    sockets.iter().flat_map(HashMap::values).map(Arc::clone).collect()
}

/// All sockets, which are forgotten.
pub(crate) fn take_all() -> Vec<Arc<Socket>> {
    let mut sockets = SOCKETS.write().unwrap_or_else(PoisonError::into_inner);
    sockets.take().unwrap_or_default().into_values().collect()
}

/// The handle is being closed.
pub(crate) fn remove(handle: Handle) -> Option<Arc<Socket>> {
    let mut sockets = SOCKETS.write().unwrap_or_else(PoisonError::into_inner);
    sockets.as_mut()?.remove(&handle)
}
