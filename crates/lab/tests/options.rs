//! Sockets report their options like the kernel's own.

mod common;

use common::{Both, TIMEOUT, crossing, python, start};
use std::fs;

/// Sets each option on a listener, all together and each by itself, and prints the options of an
/// accepted connection.
const LISTENERS: &str = r#"
import errno, socket, struct, sys
I = lambda n: struct.pack("i", n)
T = lambda s: struct.pack("ll", s, 0)
SOCKETS = [(1, 2, I(1)), (1, 15, I(1)), (1, 20, T(2)), (1, 21, T(3)), (1, 6, I(1)), (1, 29, I(1)), (1, 35, I(1)),
    (1, 40, I(1)), (1, 12, I(3)), (1, 46, I(20)), (1, 69, I(1)), (1, 70, I(9)), (1, 11, I(1)), (1, 45, I(1)),
    (1, 49, I(0)), (1, 72, I(3)), (1, 74, I(0)), (1, 1, I(1)), (1, 9, I(1)), (1, 10, I(1)), (1, 13, struct.pack("ii", 1, 3)),
    (1, 7, I(100000)), (1, 8, I(100000)), (1, 25, b"eth0\0")]
V4 = [(0, 1, I(16)), (0, 2, I(33)), (0, 8, I(1)), (0, 12, I(1)), (0, 13, I(1)), (0, 10, I(0)), (0, 34, I(0)),
    (0, 49, I(0)), (0, 15, I(1)), (0, 24, I(1)), (0, 51, struct.pack("HH", 40000, 40010)), (0, 18, I(1))]
V6 = [(41, 16, I(33)), (41, 67, I(16)), (41, 23, I(0)), (41, 26, I(1)), (41, 49, I(1)), (41, 51, I(1)), (41, 66, I(1)),
    (41, 19, I(0)), (41, 29, I(0)), (41, 78, I(1)), (41, 70, I(0))]
TCP = [(6, 1, I(1)), (6, 3, I(0)), (6, 4, I(77)), (6, 5, I(7)), (6, 6, I(5)), (6, 8, I(17)), (6, 13, b"reno"),
    (6, 16, I(1)), (6, 17, I(1)), (6, 18, I(4321)), (6, 25, I(9999)), (6, 9, I(3)), (6, 23, I(5)), (6, 34, I(1))]
def connection(family, address, options):
    listener = socket.socket(family)
    refused = []
    for level, name, value in options:
        try: listener.setsockopt(level, name, value)
        except OSError as error: refused.append((level, name, errno.errorcode[error.errno]))
    # The port has not been used before.
    global port
    port += 1
    listener.bind((address, port))
    listener.listen()
    listening.write(b".")
    connection, _ = listener.accept()
    listener.close()
    return connection, refused
# The defaults of these differ between stacks.
OWN = [(1, 7), (1, 8), (6, 13)]
def tell(connection, options, given):
    told = []
    set = [(level, name) for level, name, _ in given]
    for level, name, _ in options:
        if (level, name) in OWN and (level, name) not in set: continue
        # Any processor number.
        if (level, name) == (1, 49): told.append(connection.getsockopt(1, 49) >= 0)
        try: told.append((level, name, name != 49 and connection.getsockopt(level, name, 16).hex()))
        except OSError as error: told.append((level, name, errno.errorcode[error.errno]))
    return told
port = 9000
listening = open(sys.argv[3], "ab", 0)
for family, address, own in [(2, sys.argv[1], V4), (10, sys.argv[2], V4 + V6)]:
    options = SOCKETS + own + TCP
    for given in [options] + [[option] for option in options]:
        accepted, refused = connection(family, address, given)
        print("given", len(given), given[0][:2], "refused", refused)
        for told in tell(accepted, options, given): print(told)
        accepted.close()
print("over", flush=True)
"#;

/// Connects to one port after the other when it is listened on, and waits for the end. A connection
/// that came before `listen` has returned would be the kernel's: the port is not claimed yet.
const CLIENT: &str = r#"
import itertools, os, socket, sys, time
def connected(port):
    while os.path.getsize(sys.argv[3]) < port - 9000: time.sleep(0.002)
    for address in itertools.cycle(sys.argv[1:3]):
        try: return socket.create_connection((address, port), 5)
        except OSError: time.sleep(0.002)
for port in itertools.count(9001):
    with connected(port) as connection:
        connection.send(b"for a listener that waits for data")
        try: connection.recv(1)
        except OSError: pass
"#;

#[test]
fn a_connection_tells_the_options_of_its_listener_as_on_the_kernel() {
    let both = Both::new();
    let addresses = [both.pair.b_v4(), both.pair.b_v6()];
    let run = |accelerated| {
        // As long as there are ports that are listened on.
        let listening = both.pair.b.directory().join(format!("listening-{accelerated}"));
        fs::write(&listening, "").unwrap();
        let words = |program| [python(), "-c", program, &addresses[0], &addresses[1], listening.to_str().unwrap()];
        let _client = start(both.a(), false, &words(CLIENT));
        start(both.b(), accelerated, &words(LISTENERS)).success(TIMEOUT).unwrap()
    };
    let kernel = run(false);
    let tickwire = crossing(&both.b_service, 100, || run(true));
    let differs: Vec<String> = kernel
        .lines()
        .zip(tickwire.lines())
        .filter(|(kernel, tickwire)| kernel != tickwire)
        .map(|(kernel, tickwire)| format!("kernel {kernel}, Tickwire {tickwire}"))
        .collect();
    assert!(differs.is_empty(), "{}", differs.join("\n"));
    assert_eq!(kernel.lines().count(), tickwire.lines().count());
    assert!(kernel.lines().count() > 5000 && kernel.ends_with("over\n"), "{kernel}");
}
