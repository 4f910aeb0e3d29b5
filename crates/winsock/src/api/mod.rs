//! The functions that programs call in place of Winsock's: arguments to safe values, results back.
//!
//! | module | functions |
//! |---|---|
//! | `making` | socket, bind, listen, accept, connect, shutdown, closesocket, and their kin |
//! | `moving` | send, recv, and their kin |
//! | `scattered` | `WSASend`, `WSARecv`, and their kin; `WSAConnect`, `WSAAccept` |
//! | `asking` | names, options, `ioctlsocket` |
//! | `waiting` | `select`, `WSAPoll` |
//! | `process_end` | what was sent before the process ends |

mod asking;
mod making;
mod moving;
mod process_end;
mod scattered;
mod waiting;

use crate::hook::boundary::{self, answer_or};
use crate::hook::{Hook, winsock};
use crate::lane::exit_gate;

/// Runs this library's part of a call, or else the original. While another thread ends the process,
/// the call does not return.
fn call<T>(failed: T, ours: impl FnOnce() -> boundary::Result<Option<T>>, original: impl FnOnce() -> T) -> T {
    let gated = || {
        let result = ours();
        exit_gate::pass();
        result
    };
    answer_or(failed, gated, original)
}

/// The functions that are hooked.
pub(crate) static HOOKS: &[Hook] = &[
    Hook::new(&winsock::SOCKET, making::socket),
    Hook::new(&winsock::WSA_SOCKET_W, making::wsa_socket_w),
    Hook::new(&winsock::WSA_SOCKET_A, making::wsa_socket_a),
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
    Hook::new(&winsock::WSA_CONNECT, scattered::wsa_connect),
    Hook::new(&winsock::WSA_ACCEPT, scattered::wsa_accept),
    Hook::new(&winsock::GET_SOCK_NAME, asking::get_sock_name),
    Hook::new(&winsock::GET_PEER_NAME, asking::get_peer_name),
    Hook::new(&winsock::IOCTL_SOCKET, asking::ioctl_socket),
    Hook::new(&winsock::GET_SOCK_OPT, asking::get_sock_opt),
    Hook::new(&winsock::SET_SOCK_OPT, asking::set_sock_opt),
    Hook::new(&winsock::SELECT, waiting::select),
    Hook::new(&winsock::WSA_POLL, waiting::wsa_poll),
    Hook::new(&winsock::WSA_EVENT_SELECT, waiting::wsa_event_select),
    Hook::new(&winsock::WSA_ASYNC_SELECT, waiting::wsa_async_select),
    Hook::new(&process_end::RTL_EXIT_USER_PROCESS, process_end::rtl_exit_user_process),
];
