//! A port can be bound again as soon as the sockets on it have ended, as on Linux.

mod common;

use common::{Both, TIMEOUT, crossing, python, start, wait_until_listening};

/// Connects to one port after the other, sends something, and ends as the server requests.
const PEER: &str = r#"
import socket, struct, sys, time
def end(address, port):
    while True:
        try:
            s = socket.create_connection((address, port), timeout=10)
            break
        except ConnectionRefusedError:
            # Rarely, so that most connections begin when the lane has the port.
            time.sleep(0.03)
    try:
        s.sendall(b'said')
        how = s.recv(1)
    except OSError:
        # The server has reset it.
        how = b''
    if how == b'r': s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    if how == b'w':
        try:
            while s.recv(100): pass
        except OSError:
            pass
    s.close()
listener = socket.create_server((sys.argv[1], 9000))
first = int(sys.argv[3])
for port in range(first, first + 20): end(sys.argv[2], port)
for _ in range(2):
    s, _ = listener.accept()
    s.sendall(b'said')
    try:
        s.recv(1)
    except OSError:
        pass
    s.close()
"#;

/// For each way in which a connection ends: prints whether its listener's port, or its own, can be
/// bound as soon as both are closed.
const SERVER: &str = r#"
import errno, socket, struct, sys, time
own, other, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
def bind(port, reuse):
    s = socket.socket()
    if reuse: s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        s.bind((own, port))
        return 'free'
    except OSError as error:
        return errno.errorcode[error.errno]
    finally:
        s.close()
def abort(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    s.close()
def ends(s, how):
    if how == 'aborts': abort(s)
    if how == 'unread': s.close()
    if how in ('peer resets', 'peer closes'):
        s.send(b'r' if how == 'peer resets' else b'c')
        try:
            while s.recv(100): pass
        except OSError:
            pass
        s.close()
        # A moment for the last acknowledgement.
        time.sleep(0.05)
    if how == 'closes':
        s.recv(4)
        s.send(b'w')
        s.close()
        time.sleep(0.05)
for how in ('aborts', 'unread', 'peer resets', 'peer closes', 'closes'):
    for reuse in (False, True):
        for first in ('connection', 'listener'):
            listener = socket.socket()
            if reuse: listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((own, port))
            listener.listen()
            s, _ = listener.accept()
            # The peer's data has arrived.
            while len(s.recv(4, socket.MSG_PEEK)) < 4: pass
            if first == 'listener': listener.close()
            ends(s, how)
            listener.close()
            print(how, 'reuse' if reuse else '', first, 'first', bind(port, reuse), flush=True)
            port += 1
for how in ('aborts', 'unread'):
    s = socket.socket()
    s.bind((own, port))
    s.connect((other, 9000))
    while len(s.recv(4, socket.MSG_PEEK)) < 4: pass
    ends(s, how)
    print('client', how, bind(port, False), flush=True)
    port += 1
"#;

#[test]
fn a_port_is_free_again_as_soon_as_its_connections_have_ended_as_beside_the_kernel() {
    let both = Both::new();
    // The kernel keeps a port for a minute if it has closed first.
    let run = |accelerated: bool, first: &str| {
        let (own, other) = (both.pair.b_v4(), both.pair.a_v4());
        let mut peer = start(both.a(), false, &[python(), "-c", PEER, &other, &own, first]);
        wait_until_listening(both.a(), &mut peer, "tcp", 9000);
        let mut server = start(both.b(), accelerated, &[python(), "-c", SERVER, &own, &other, first]);
        let told = server.success(TIMEOUT);
        told.unwrap_or_else(|error| panic!("{error}\n{}{}{}", server.stdout(), server.stderr(), peer.stderr()))
    };
    let kernel = run(false, "9100");
    assert_eq!(kernel.lines().count(), 22, "{kernel}");
    assert_eq!(kernel.lines().filter(|line| line.ends_with("free")).count(), 20, "{kernel}");
    let lane = crossing(&both.b_service, 60, || run(true, "9200"));
    assert_eq!(lane, kernel);
}
