//! Winsock's extension functions, which programs ask for by number
//! (`SIO_GET_EXTENSION_FUNCTION_POINTER`).

use crate::hook::{MSWSOCK, Original, winsock};
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::AtomicPtr;
use std::sync::atomic::Ordering::{Acquire, Release};
use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::Networking::WinSock::{
    LPWSAOVERLAPPED_COMPLETION_ROUTINE, SIO_GET_EXTENSION_FUNCTION_POINTER, SOCKADDR, SOCKET, TRANSMIT_FILE_BUFFERS,
    TRANSMIT_PACKETS_ELEMENT, WSAID_ACCEPTEX, WSAID_CONNECTEX, WSAID_DISCONNECTEX, WSAID_GETACCEPTEXSOCKADDRS,
    WSAID_TRANSMITFILE, WSAID_TRANSMITPACKETS, WSAID_WSARECVMSG, WSAMSG,
};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::core::{BOOL, GUID};

/// `AcceptEx`.
pub(crate) type AcceptExFn =
    unsafe extern "system" fn(SOCKET, SOCKET, *mut c_void, u32, u32, u32, *mut u32, *mut OVERLAPPED) -> BOOL;
/// `GetAcceptExSockaddrs`.
pub(crate) type GetAcceptExSockaddrsFn =
    unsafe extern "system" fn(*mut c_void, u32, u32, u32, *mut *mut SOCKADDR, *mut i32, *mut *mut SOCKADDR, *mut i32);
/// `ConnectEx`.
pub(crate) type ConnectExFn =
    unsafe extern "system" fn(SOCKET, *const SOCKADDR, i32, *mut u8, u32, *mut u32, *mut OVERLAPPED) -> BOOL;
/// `DisconnectEx`.
pub(crate) type DisconnectExFn = unsafe extern "system" fn(SOCKET, *mut OVERLAPPED, u32, u32) -> BOOL;
/// `TransmitFile`.
pub(crate) type TransmitFileFn =
    unsafe extern "system" fn(SOCKET, HANDLE, u32, u32, *mut OVERLAPPED, *const TRANSMIT_FILE_BUFFERS, u32) -> BOOL;
/// `TransmitPackets`.
pub(crate) type TransmitPacketsFn =
    unsafe extern "system" fn(SOCKET, *const TRANSMIT_PACKETS_ELEMENT, u32, u32, *mut OVERLAPPED, u32) -> BOOL;
/// `WSARecvMsg`.
pub(crate) type WsaRecvMsgFn = unsafe extern "system" fn(
    SOCKET,
    *mut WSAMSG,
    *mut u32,
    *mut OVERLAPPED,
    LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32;

/// An extension function of type `F`. Some are exports of `mswsock.dll`, too.
pub(crate) struct Extension<F: 'static> {
    id: GUID,
    function: AtomicPtr<c_void>,
    export: Option<&'static Original<F>>,
}

impl<F: Copy> Extension<F> {
    /// # Safety
    /// `F` is the type of a pointer to the function of this number.
    const unsafe fn new(id: GUID, export: Option<&'static Original<F>>) -> Self {
        Self { id, function: AtomicPtr::new(null_mut()), export }
    }

    /// Whether it is the one of this number.
    pub(crate) fn is(&self, id: &GUID) -> bool {
        let key = |id: &GUID| (id.data1, id.data2, id.data3, id.data4);
        key(&self.id) == key(id)
    }

    /// The real function, as Winsock has it for a socket. `None` if it has none.
    pub(crate) fn real(&self, socket: SOCKET) -> Option<F> {
        self.known().or_else(|| {
            self.note(look_up(socket, &self.id)?);
            self.known()
        })
    }

    /// The real function, if Winsock was asked for it before.
    pub(crate) fn known(&self) -> Option<F> {
        let function = self.function.load(Acquire);
        if function.is_null() {
            return None;
        }
        // SAFETY: as `new` demands, this is the type of a pointer to this function.
        Some(unsafe { std::mem::transmute_copy(&function) })
    }

    /// Winsock has this function. If it is the export, and that is hooked, the real one is behind
    /// the hook.
    pub(crate) fn note(&self, function: *mut c_void) {
        let behind = self.export.filter(|export| export.is_hooked() && export.is_at(function)).map(|export| {
            let behind = export.get();
            // SAFETY: as `new` demands, this is a pointer to a function.
            unsafe { std::mem::transmute_copy::<F, *mut c_void>(&behind) }
        });
        self.function.store(behind.unwrap_or(function), Release);
    }
}

/// Asks Winsock.
fn look_up(socket: SOCKET, id: &GUID) -> Option<*mut c_void> {
    let (mut function, mut size) = (null_mut::<c_void>(), 0);
    // SAFETY: a number, and room for a pointer.
    let result = unsafe {
        winsock::WSA_IOCTL.get()(
            socket,
            SIO_GET_EXTENSION_FUNCTION_POINTER,
            (&raw const *id).cast(),
            size_of::<GUID>() as u32,
            (&raw mut function).cast(),
            size_of::<*mut c_void>() as u32,
            &raw mut size,
            null_mut(),
            None,
        )
    };
    (result == 0 && !function.is_null()).then_some(function)
}

/// Declares exports of `mswsock.dll`.
macro_rules! exports {
    ($( $name:ident: $function:ty = $export:literal; )*) => {$(
        #[doc = concat!("The export of type [`", stringify!($function), "`].")]
        // SAFETY: the type is the one that the documentation has.
        pub(crate) static $name: Original<$function> = unsafe { Original::new(MSWSOCK, $export) };
    )*};
}

exports! {
    EXPORTED_ACCEPT_EX: AcceptExFn = c"AcceptEx";
    EXPORTED_GET_ACCEPT_EX_SOCKADDRS: GetAcceptExSockaddrsFn = c"GetAcceptExSockaddrs";
    EXPORTED_TRANSMIT_FILE: TransmitFileFn = c"TransmitFile";
}

/// Declares extension functions.
macro_rules! extensions {
    ($( $name:ident: $function:ty = $id:ident, $export:expr; )*) => {$(
        #[doc = concat!("The function of type [`", stringify!($function), "`].")]
        // SAFETY: the type is the one that the documentation has.
        pub(crate) static $name: Extension<$function> = unsafe { Extension::new($id, $export) };
    )*};
}

extensions! {
    ACCEPT_EX: AcceptExFn = WSAID_ACCEPTEX, Some(&EXPORTED_ACCEPT_EX);
    GET_ACCEPT_EX_SOCKADDRS: GetAcceptExSockaddrsFn = WSAID_GETACCEPTEXSOCKADDRS, Some(&EXPORTED_GET_ACCEPT_EX_SOCKADDRS);
    CONNECT_EX: ConnectExFn = WSAID_CONNECTEX, None;
    DISCONNECT_EX: DisconnectExFn = WSAID_DISCONNECTEX, None;
    TRANSMIT_FILE: TransmitFileFn = WSAID_TRANSMITFILE, Some(&EXPORTED_TRANSMIT_FILE);
    TRANSMIT_PACKETS: TransmitPacketsFn = WSAID_TRANSMITPACKETS, None;
    WSA_RECV_MSG: WsaRecvMsgFn = WSAID_WSARECVMSG, None;
}
