//! The types of Winsock's functions, as its documentation has them.

use std::ffi::c_void;
use windows_sys::Win32::Foundation::HWND;
use windows_sys::Win32::Networking::WinSock::{
    FD_SET, LPCONDITIONPROC, LPWSAOVERLAPPED_COMPLETION_ROUTINE, QOS, SOCKADDR, SOCKET, TIMEVAL, WSABUF, WSADATA,
    WSAEVENT, WSAMSG, WSANETWORKEVENTS, WSAPOLLFD, WSAPROTOCOL_INFOA, WSAPROTOCOL_INFOW,
};
use windows_sys::Win32::System::IO::OVERLAPPED;
use windows_sys::core::BOOL;

/// `WSAStartup`.
pub type WsaStartupFn = unsafe extern "system" fn(version: u16, data: *mut WSADATA) -> i32;

/// `WSACleanup`.
pub type WsaCleanupFn = unsafe extern "system" fn() -> i32;

/// `WSAGetLastError`.
pub type WsaGetLastErrorFn = unsafe extern "system" fn() -> i32;

/// `WSASetLastError`.
pub type WsaSetLastErrorFn = unsafe extern "system" fn(error: i32);

/// `socket`.
pub type SocketFn = unsafe extern "system" fn(family: i32, kind: i32, protocol: i32) -> SOCKET;

/// `WSASocketW`.
pub type WsaSocketWFn = unsafe extern "system" fn(
    family: i32,
    kind: i32,
    protocol: i32,
    info: *const WSAPROTOCOL_INFOW,
    group: u32,
    flags: u32,
) -> SOCKET;

/// `WSASocketA`.
pub type WsaSocketAFn = unsafe extern "system" fn(
    family: i32,
    kind: i32,
    protocol: i32,
    info: *const WSAPROTOCOL_INFOA,
    group: u32,
    flags: u32,
) -> SOCKET;

/// `WSADuplicateSocketW`.
pub type WsaDuplicateSocketWFn =
    unsafe extern "system" fn(socket: SOCKET, process: u32, info: *mut WSAPROTOCOL_INFOW) -> i32;

/// `WSADuplicateSocketA`.
pub type WsaDuplicateSocketAFn =
    unsafe extern "system" fn(socket: SOCKET, process: u32, info: *mut WSAPROTOCOL_INFOA) -> i32;

/// `closesocket`.
pub type CloseSocketFn = unsafe extern "system" fn(socket: SOCKET) -> i32;

/// `bind`.
pub type BindFn = unsafe extern "system" fn(socket: SOCKET, name: *const SOCKADDR, len: i32) -> i32;

/// `listen`.
pub type ListenFn = unsafe extern "system" fn(socket: SOCKET, backlog: i32) -> i32;

/// `accept`.
pub type AcceptFn = unsafe extern "system" fn(socket: SOCKET, name: *mut SOCKADDR, len: *mut i32) -> SOCKET;

/// `WSAAccept`.
pub type WsaAcceptFn = unsafe extern "system" fn(
    socket: SOCKET,
    name: *mut SOCKADDR,
    len: *mut i32,
    condition: LPCONDITIONPROC,
    context: usize,
) -> SOCKET;

/// `connect`.
pub type ConnectFn = unsafe extern "system" fn(socket: SOCKET, name: *const SOCKADDR, len: i32) -> i32;

/// `WSAConnect`.
pub type WsaConnectFn = unsafe extern "system" fn(
    socket: SOCKET,
    name: *const SOCKADDR,
    len: i32,
    caller_data: *const WSABUF,
    callee_data: *mut WSABUF,
    qos: *const QOS,
    group_qos: *const QOS,
) -> i32;

/// `shutdown`.
pub type ShutdownFn = unsafe extern "system" fn(socket: SOCKET, how: i32) -> i32;

/// `WSASendDisconnect`.
pub type WsaSendDisconnectFn = unsafe extern "system" fn(socket: SOCKET, data: *const WSABUF) -> i32;

/// `WSARecvDisconnect`.
pub type WsaRecvDisconnectFn = unsafe extern "system" fn(socket: SOCKET, data: *const WSABUF) -> i32;

/// `send`.
pub type SendFn = unsafe extern "system" fn(socket: SOCKET, data: *const u8, len: i32, flags: i32) -> i32;

/// `sendto`.
pub type SendToFn = unsafe extern "system" fn(
    socket: SOCKET,
    data: *const u8,
    len: i32,
    flags: i32,
    name: *const SOCKADDR,
    name_len: i32,
) -> i32;

/// `WSASend`.
pub type WsaSendFn = unsafe extern "system" fn(
    socket: SOCKET,
    buffers: *const WSABUF,
    count: u32,
    sent: *mut u32,
    flags: u32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32;

/// `WSASendTo`.
pub type WsaSendToFn = unsafe extern "system" fn(
    socket: SOCKET,
    buffers: *const WSABUF,
    count: u32,
    sent: *mut u32,
    flags: u32,
    name: *const SOCKADDR,
    name_len: i32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32;

/// `WSASendMsg`.
pub type WsaSendMsgFn = unsafe extern "system" fn(
    socket: SOCKET,
    message: *const WSAMSG,
    flags: u32,
    sent: *mut u32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32;

/// `recv`.
pub type RecvFn = unsafe extern "system" fn(socket: SOCKET, data: *mut u8, len: i32, flags: i32) -> i32;

/// `recvfrom`.
pub type RecvFromFn = unsafe extern "system" fn(
    socket: SOCKET,
    data: *mut u8,
    len: i32,
    flags: i32,
    name: *mut SOCKADDR,
    name_len: *mut i32,
) -> i32;

/// `WSARecv`.
pub type WsaRecvFn = unsafe extern "system" fn(
    socket: SOCKET,
    buffers: *const WSABUF,
    count: u32,
    received: *mut u32,
    flags: *mut u32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32;

/// `WSARecvFrom`.
pub type WsaRecvFromFn = unsafe extern "system" fn(
    socket: SOCKET,
    buffers: *const WSABUF,
    count: u32,
    received: *mut u32,
    flags: *mut u32,
    name: *mut SOCKADDR,
    name_len: *mut i32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32;

/// `getsockname`.
pub type GetSockNameFn = unsafe extern "system" fn(socket: SOCKET, name: *mut SOCKADDR, len: *mut i32) -> i32;

/// `getpeername`.
pub type GetPeerNameFn = unsafe extern "system" fn(socket: SOCKET, name: *mut SOCKADDR, len: *mut i32) -> i32;

/// `getsockopt`.
pub type GetSockOptFn =
    unsafe extern "system" fn(socket: SOCKET, level: i32, option: i32, value: *mut u8, len: *mut i32) -> i32;

/// `setsockopt`.
pub type SetSockOptFn =
    unsafe extern "system" fn(socket: SOCKET, level: i32, option: i32, value: *const u8, len: i32) -> i32;

/// `ioctlsocket`.
pub type IoctlSocketFn = unsafe extern "system" fn(socket: SOCKET, command: i32, argument: *mut u32) -> i32;

/// `WSAIoctl`.
pub type WsaIoctlFn = unsafe extern "system" fn(
    socket: SOCKET,
    code: u32,
    input: *const c_void,
    input_len: u32,
    output: *mut c_void,
    output_len: u32,
    returned: *mut u32,
    overlapped: *mut OVERLAPPED,
    routine: LPWSAOVERLAPPED_COMPLETION_ROUTINE,
) -> i32;

/// `select`. A program may have been compiled for larger sets than `FD_SET` is; the count in a set
/// tells how many sockets it has.
pub type SelectFn = unsafe extern "system" fn(
    ignored: i32,
    read: *mut FD_SET,
    write: *mut FD_SET,
    except: *mut FD_SET,
    timeout: *const TIMEVAL,
) -> i32;

/// `__WSAFDIsSet`, the function behind the macro `FD_ISSET`.
pub type WsaFdIsSetFn = unsafe extern "system" fn(socket: SOCKET, set: *mut FD_SET) -> i32;

/// `WSAPoll`.
pub type WsaPollFn = unsafe extern "system" fn(sockets: *mut WSAPOLLFD, count: u32, timeout_ms: i32) -> i32;

/// `WSAEventSelect`.
pub type WsaEventSelectFn = unsafe extern "system" fn(socket: SOCKET, event: WSAEVENT, events: i32) -> i32;

/// `WSAEnumNetworkEvents`.
pub type WsaEnumNetworkEventsFn =
    unsafe extern "system" fn(socket: SOCKET, event: WSAEVENT, events: *mut WSANETWORKEVENTS) -> i32;

/// `WSAAsyncSelect`.
pub type WsaAsyncSelectFn = unsafe extern "system" fn(socket: SOCKET, window: HWND, message: u32, events: i32) -> i32;

/// `WSAGetOverlappedResult`.
pub type WsaGetOverlappedResultFn = unsafe extern "system" fn(
    socket: SOCKET,
    overlapped: *const OVERLAPPED,
    transferred: *mut u32,
    wait: BOOL,
    flags: *mut u32,
) -> BOOL;
