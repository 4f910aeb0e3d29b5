//! How a request has ended, as Windows writes it into the program's `OVERLAPPED`: an NTSTATUS. From
//! it Windows makes the errors of `GetOverlappedResult` and of completion ports; Winsock its own.

use crate::hook::boundary::WinsockError;
use windows_sys::Win32::Foundation::{
    NTSTATUS, STATUS_ACCESS_VIOLATION, STATUS_BUFFER_OVERFLOW, STATUS_CANCELLED, STATUS_CONNECTION_ABORTED,
    STATUS_CONNECTION_ACTIVE, STATUS_CONNECTION_REFUSED, STATUS_CONNECTION_RESET, STATUS_HOST_UNREACHABLE,
    STATUS_INSUFFICIENT_RESOURCES, STATUS_INVALID_CONNECTION, STATUS_INVALID_PARAMETER, STATUS_IO_TIMEOUT,
    STATUS_NETWORK_UNREACHABLE, STATUS_PIPE_DISCONNECTED, STATUS_PORT_UNREACHABLE, STATUS_SUCCESS,
    STATUS_UNEXPECTED_NETWORK_ERROR,
};
use windows_sys::Win32::Networking::WinSock::{
    WSA_OPERATION_ABORTED, WSAECONNABORTED, WSAECONNREFUSED, WSAECONNRESET, WSAEFAULT, WSAEHOSTDOWN, WSAEHOSTUNREACH,
    WSAEINVAL, WSAEISCONN, WSAEMSGSIZE, WSAENETDOWN, WSAENETUNREACH, WSAENOBUFS, WSAENOTCONN, WSAESHUTDOWN,
    WSAETIMEDOUT,
};

/// Errors and their status, in both directions: the first of several is the one that is found.
const TABLE: [(i32, NTSTATUS); 18] = [
    (0, STATUS_SUCCESS),
    (WSA_OPERATION_ABORTED, STATUS_CANCELLED),
    (WSAECONNRESET, STATUS_CONNECTION_RESET),
    (WSAECONNRESET, STATUS_PORT_UNREACHABLE),
    (WSAECONNABORTED, STATUS_CONNECTION_ABORTED),
    (WSAECONNREFUSED, STATUS_CONNECTION_REFUSED),
    (WSAETIMEDOUT, STATUS_IO_TIMEOUT),
    (WSAEHOSTUNREACH, STATUS_HOST_UNREACHABLE),
    (WSAEHOSTDOWN, STATUS_HOST_UNREACHABLE),
    (WSAENETUNREACH, STATUS_NETWORK_UNREACHABLE),
    (WSAENETDOWN, STATUS_UNEXPECTED_NETWORK_ERROR),
    (WSAENOTCONN, STATUS_INVALID_CONNECTION),
    (WSAEISCONN, STATUS_CONNECTION_ACTIVE),
    (WSAESHUTDOWN, STATUS_PIPE_DISCONNECTED),
    (WSAEMSGSIZE, STATUS_BUFFER_OVERFLOW),
    (WSAENOBUFS, STATUS_INSUFFICIENT_RESOURCES),
    (WSAEFAULT, STATUS_ACCESS_VIOLATION),
    (WSAEINVAL, STATUS_INVALID_PARAMETER),
];

/// The status of an error.
pub(crate) fn of_error(error: WinsockError) -> NTSTATUS {
    TABLE.iter().find(|(known, _)| *known == error.0).map_or(STATUS_INVALID_PARAMETER, |(_, status)| *status)
}

/// The error of Winsock for a status; `None` for success.
pub(crate) fn error(status: NTSTATUS) -> Option<WinsockError> {
    match TABLE.iter().find(|(_, known)| *known == status) {
        Some((0, _)) => None,
        Some((error, _)) => Some(WinsockError(*error)),
        // Warnings and informational values are no errors.
        None if status >= 0 => None,
        None => Some(WinsockError(WSAENETDOWN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_survive_the_way_through_a_status() {
        for code in [WSAECONNRESET, WSAECONNREFUSED, WSAETIMEDOUT, WSAEMSGSIZE, WSA_OPERATION_ABORTED, WSAENOTCONN] {
            assert_eq!(error(of_error(WinsockError(code))), Some(WinsockError(code)));
        }
        assert_eq!(error(STATUS_SUCCESS), None);
        assert_eq!(error(STATUS_PORT_UNREACHABLE), Some(WinsockError(WSAECONNRESET)));
        assert_eq!(error(i32::MIN), Some(WinsockError(WSAENETDOWN)), "an unknown error");
    }
}
