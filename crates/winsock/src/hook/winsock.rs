//! The real functions of `ws2_32.dll`.

use super::module::WS2_32;
use super::original::Original;
use super::winsock_types::*;

/// Declares originals in `ws2_32.dll`.
macro_rules! originals {
    ($( $name:ident: $function:ty = $export:literal; )*) => {$(
        #[doc = concat!("The function of type [`", stringify!($function), "`].")]
        // SAFETY: the type is the one that the documentation of this export has.
        pub static $name: Original<$function> = unsafe { Original::new(WS2_32, $export) };
    )*};
}

originals! {
    WSA_STARTUP: WsaStartupFn = c"WSAStartup";
    WSA_CLEANUP: WsaCleanupFn = c"WSACleanup";
    WSA_GET_LAST_ERROR: WsaGetLastErrorFn = c"WSAGetLastError";
    WSA_SET_LAST_ERROR: WsaSetLastErrorFn = c"WSASetLastError";
    SOCKET: SocketFn = c"socket";
    WSA_SOCKET_W: WsaSocketWFn = c"WSASocketW";
    WSA_SOCKET_A: WsaSocketAFn = c"WSASocketA";
    WSA_DUPLICATE_SOCKET_W: WsaDuplicateSocketWFn = c"WSADuplicateSocketW";
    WSA_DUPLICATE_SOCKET_A: WsaDuplicateSocketAFn = c"WSADuplicateSocketA";
    CLOSE_SOCKET: CloseSocketFn = c"closesocket";
    BIND: BindFn = c"bind";
    LISTEN: ListenFn = c"listen";
    ACCEPT: AcceptFn = c"accept";
    WSA_ACCEPT: WsaAcceptFn = c"WSAAccept";
    CONNECT: ConnectFn = c"connect";
    WSA_CONNECT: WsaConnectFn = c"WSAConnect";
    SHUTDOWN: ShutdownFn = c"shutdown";
    WSA_SEND_DISCONNECT: WsaSendDisconnectFn = c"WSASendDisconnect";
    WSA_RECV_DISCONNECT: WsaRecvDisconnectFn = c"WSARecvDisconnect";
    SEND: SendFn = c"send";
    SEND_TO: SendToFn = c"sendto";
    WSA_SEND: WsaSendFn = c"WSASend";
    WSA_SEND_TO: WsaSendToFn = c"WSASendTo";
    WSA_SEND_MSG: WsaSendMsgFn = c"WSASendMsg";
    RECV: RecvFn = c"recv";
    RECV_FROM: RecvFromFn = c"recvfrom";
    WSA_RECV: WsaRecvFn = c"WSARecv";
    WSA_RECV_FROM: WsaRecvFromFn = c"WSARecvFrom";
    GET_SOCK_NAME: GetSockNameFn = c"getsockname";
    GET_PEER_NAME: GetPeerNameFn = c"getpeername";
    GET_SOCK_OPT: GetSockOptFn = c"getsockopt";
    SET_SOCK_OPT: SetSockOptFn = c"setsockopt";
    IOCTL_SOCKET: IoctlSocketFn = c"ioctlsocket";
    WSA_IOCTL: WsaIoctlFn = c"WSAIoctl";
    SELECT: SelectFn = c"select";
    WSA_FD_IS_SET: WsaFdIsSetFn = c"__WSAFDIsSet";
    WSA_POLL: WsaPollFn = c"WSAPoll";
    WSA_EVENT_SELECT: WsaEventSelectFn = c"WSAEventSelect";
    WSA_ENUM_NETWORK_EVENTS: WsaEnumNetworkEventsFn = c"WSAEnumNetworkEvents";
    WSA_ASYNC_SELECT: WsaAsyncSelectFn = c"WSAAsyncSelect";
    WSA_GET_OVERLAPPED_RESULT: WsaGetOverlappedResultFn = c"WSAGetOverlappedResult";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_originals_are_found() {
        assert!(WSA_GET_OVERLAPPED_RESULT.if_present().is_some() && SOCKET.if_present().is_some());
        // SAFETY: no such function, so the type does not matter.
        static MISSING: Original<WsaCleanupFn> = unsafe { Original::new(WS2_32, c"no such function") };
        assert!(MISSING.if_present().is_none() && !SOCKET.is_hooked());
        assert!(std::panic::catch_unwind(|| MISSING.get()).is_err());
    }
}
