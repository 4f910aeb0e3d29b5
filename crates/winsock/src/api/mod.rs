//! The functions that programs call in place of Winsock's: arguments to safe values, results back.
//!
//! | module | functions |
//! |---|---|
//! | `making` | socket, bind, listen, accept, connect, shutdown, closesocket, and their kin |
//! | `moving` | send, recv, and their kin |
//! | `scattered` | `WSASend`, `WSARecv`, and their kin; `WSAConnect`, `WSAAccept` |
//! | `overlapped` | beginning overlapped requests, their results, their cancellation |
//! | `accepting` | `AcceptEx`, `ConnectEx`, `DisconnectEx` |
//! | `transmitting` | `TransmitFile`, `TransmitPackets` |
//! | `ports` | completion ports |
//! | `afd` | receiving and polling by system calls, past Winsock |
//! | `files` | a socket's handle as a file: `ReadFile`, `WriteFile`; closing handles |
//! | `asking` | names, options |
//! | `ioctl` | `WSAIoctl`, `ioctlsocket` |
//! | `select_sets` | the sets of `select` |
//! | `waiting` | `select`, `WSAPoll` |
//! | `kernel_waiting` | the same where the kernel has all of the sockets |
//! | `noticing` | `WSAEventSelect`, `WSAEnumNetworkEvents`, `WSAAsyncSelect` |
//! | `process_end` | what was sent before the process ends |

mod accepting;
mod afd;
mod asking;
mod files;
mod ioctl;
mod kernel_waiting;
mod making;
mod moving;
mod noticing;
mod overlapped;
mod ports;
mod process_end;
mod scattered;
mod select_sets;
mod transmitting;
mod waiting;

use crate::hook::boundary::{self, WinsockError, answer_or};
use crate::hook::{Hook, ntdll, reentrancy, winsock};
use crate::lane::{exit_gate, lane_if_begun};
use crate::socket::{Socket, table};
use crate::{extensions, real};
use std::sync::Arc;
use windows_sys::Win32::Networking::WinSock::SOCKET;

/// Runs this library's part of a call, or else the original. While another thread ends the process,
/// the call does not return.
fn call<T>(failed: T, ours: impl FnOnce() -> boundary::Result<Option<T>>, original: impl FnOnce() -> T) -> T {
    let gated = || {
        let result = ours();
        if let Some(lane) = lane_if_begun() {
            lane.deliver();
        }
        exit_gate::pass();
        result
    };
    answer_or(failed, gated, || reentrancy::original(original))
}

/// As [`call`], for calls that receive or accept. What the kernel has for its half of a socket the
/// original takes, and that half does not block. If another thread was faster, a socket that blocks
/// waits again.
fn call_waiting<T: Copy + PartialEq>(
    socket: SOCKET,
    failed: T,
    ours: impl Fn() -> boundary::Result<Option<T>>,
    original: impl Fn() -> T,
) -> T {
    loop {
        let result = call(failed, &ours, &original);
        if result != failed || real::last() != WinsockError::WOULD_BLOCK || !waits_again(socket) {
            return result;
        }
    }
}

/// Whether a call on this socket waits although the kernel's socket does not block.
fn waits_again(socket: SOCKET) -> bool {
    let waits = |known: Arc<Socket>| known.has_kernel_half() && !known.is_nonblocking();
    boundary::caught(false, || table::get(socket).is_some_and(waits))
}

/// The functions that are hooked.
pub(crate) static HOOKS: &[Hook] = &[
    Hook::new(&winsock::SOCKET, making::socket),
    Hook::new(&winsock::WSA_SOCKET_W, making::wsa_socket_w),
    Hook::new(&winsock::WSA_SOCKET_A, making::wsa_socket_a),
    Hook::new(&winsock::WSA_DUPLICATE_SOCKET_W, making::wsa_duplicate_socket_w),
    Hook::new(&winsock::WSA_DUPLICATE_SOCKET_A, making::wsa_duplicate_socket_a),
    Hook::new(&winsock::CLOSE_SOCKET, making::close_socket),
    Hook::new(&winsock::BIND, making::bind),
    Hook::new(&winsock::LISTEN, making::listen),
    Hook::new(&winsock::ACCEPT, making::accept),
    Hook::new(&winsock::CONNECT, making::connect),
    Hook::new(&winsock::SHUTDOWN, making::shutdown),
    Hook::new(&winsock::SEND, moving::send),
    Hook::new(&winsock::SEND_TO, moving::send_to),
    Hook::new(&winsock::RECV, moving::recv),
    Hook::new(&winsock::RECV_FROM, moving::recv_from),
    Hook::new(&winsock::WSA_SEND, scattered::wsa_send),
    Hook::new(&winsock::WSA_SEND_TO, scattered::wsa_send_to),
    Hook::new(&winsock::WSA_RECV, scattered::wsa_recv),
    Hook::new(&winsock::WSA_RECV_FROM, scattered::wsa_recv_from),
    Hook::if_present(&winsock::WSA_SEND_MSG, scattered::wsa_send_msg),
    Hook::new(&winsock::WSA_GET_OVERLAPPED_RESULT, overlapped::wsa_get_overlapped_result),
    Hook::new(&winsock::WSA_CONNECT, scattered::wsa_connect),
    Hook::new(&winsock::WSA_ACCEPT, scattered::wsa_accept),
    Hook::new(&winsock::GET_SOCK_NAME, asking::get_sock_name),
    Hook::new(&winsock::GET_PEER_NAME, asking::get_peer_name),
    Hook::new(&winsock::IOCTL_SOCKET, ioctl::ioctl_socket),
    Hook::new(&winsock::WSA_IOCTL, ioctl::wsa_ioctl),
    Hook::new(&winsock::GET_SOCK_OPT, asking::get_sock_opt),
    Hook::new(&winsock::SET_SOCK_OPT, asking::set_sock_opt),
    Hook::new(&winsock::SELECT, waiting::select),
    Hook::new(&winsock::WSA_POLL, waiting::wsa_poll),
    Hook::new(&winsock::WSA_EVENT_SELECT, noticing::wsa_event_select),
    Hook::new(&winsock::WSA_ENUM_NETWORK_EVENTS, noticing::wsa_enum_network_events),
    Hook::new(&winsock::WSA_ASYNC_SELECT, noticing::wsa_async_select),
    Hook::if_present(&extensions::EXPORTED_ACCEPT_EX, accepting::accept_ex),
    Hook::if_present(&extensions::EXPORTED_GET_ACCEPT_EX_SOCKADDRS, accepting::get_accept_ex_sockaddrs),
    Hook::if_present(&extensions::EXPORTED_TRANSMIT_FILE, transmitting::transmit_file),
    Hook::new(&ntdll::GET_OVERLAPPED_RESULT, overlapped::get_overlapped_result),
    Hook::if_present(&ntdll::GET_OVERLAPPED_RESULT_EX, overlapped::get_overlapped_result_ex),
    Hook::new(&ntdll::NT_CANCEL_IO_FILE, overlapped::nt_cancel_io_file),
    Hook::new(&ntdll::NT_CANCEL_IO_FILE_EX, overlapped::nt_cancel_io_file_ex),
    Hook::new(&ntdll::NT_DEVICE_IO_CONTROL_FILE, afd::nt_device_io_control_file),
    Hook::new(&ntdll::NT_READ_FILE, files::nt_read_file),
    Hook::new(&ntdll::NT_WRITE_FILE, files::nt_write_file),
    Hook::new(&ntdll::NT_CLOSE, files::nt_close),
    Hook::new(&ntdll::NT_SET_INFORMATION_FILE, ports::nt_set_information_file),
    Hook::new(&ntdll::NT_REMOVE_IO_COMPLETION, ports::nt_remove_io_completion),
    Hook::new(&ntdll::NT_REMOVE_IO_COMPLETION_EX, ports::nt_remove_io_completion_ex),
    Hook::new(&process_end::RTL_EXIT_USER_PROCESS, process_end::rtl_exit_user_process),
];
