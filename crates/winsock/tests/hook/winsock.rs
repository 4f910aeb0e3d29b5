//! Functions of Winsock, as `std::net` calls them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicU32, Ordering};
use tickwire_winsock::hook::winsock::{RECV, SOCKET as REAL_SOCKET, WSA_SOCKET_W};
use tickwire_winsock::hook::{Hook, install};
use windows_sys::Win32::Networking::WinSock::{INVALID_SOCKET, SOCKET, WSAPROTOCOL_INFOW, socket as exported_socket};

static SOCKETS: AtomicU32 = AtomicU32::new(0);
static OLD_SOCKETS: AtomicU32 = AtomicU32::new(0);
static RECEIVED: AtomicU32 = AtomicU32::new(0);

unsafe extern "system" fn wsa_socket(
    family: i32,
    kind: i32,
    protocol: i32,
    info: *const WSAPROTOCOL_INFOW,
    group: u32,
    flags: u32,
) -> SOCKET {
    SOCKETS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the arguments are passed on.
    unsafe { WSA_SOCKET_W.get()(family, kind, protocol, info, group, flags) }
}

unsafe extern "system" fn socket(family: i32, kind: i32, protocol: i32) -> SOCKET {
    OLD_SOCKETS.fetch_add(1, Ordering::Relaxed);
    // SAFETY: the arguments are passed on.
    unsafe { REAL_SOCKET.get()(family, kind, protocol) }
}

unsafe extern "system" fn recv(socket: SOCKET, data: *mut u8, len: i32, flags: i32) -> i32 {
    // SAFETY: the arguments are passed on.
    let received = unsafe { RECV.get()(socket, data, len, flags) };
    RECEIVED.fetch_add(received.max(0).cast_unsigned(), Ordering::Relaxed);
    received
}

#[test]
fn calls_of_the_standard_library_are_seen() {
    static TABLES: &[&[Hook]] =
        &[&[Hook::new(&WSA_SOCKET_W, wsa_socket), Hook::new(&REAL_SOCKET, socket)], &[Hook::new(&RECV, recv)]];
    install(TABLES).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let sender = std::thread::spawn(move || listener.accept().unwrap().0.write_all(b"hello").unwrap());
    let mut stream = TcpStream::connect(address).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    sender.join().unwrap();
    assert_eq!(text, "hello");
    assert!(SOCKETS.load(Ordering::Relaxed) >= 2);
    assert_eq!(RECEIVED.load(Ordering::Relaxed), 5);
    // SAFETY: no memory is passed.
    assert_eq!(unsafe { exported_socket(-1, -1, -1) }, INVALID_SOCKET);
    assert_eq!(OLD_SOCKETS.load(Ordering::Relaxed), 1);
}
