//! Workers that share a socket which each of them makes a listener.

mod common;

use common::{Both, TIMEOUT, crossing, python, start};

/// Workers that listen on one inherited socket, each by itself, and accept at once.
const EACH_LISTENS: &str = r#"
import os, signal, socket, sys
signal.alarm(25)
for port in range(9100, 9120):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((sys.argv[1], port))
    workers = []
    for _ in range(4):
        worker = os.fork()
        if worker == 0:
            signal.alarm(20)
            s.listen(16)
            c, _ = s.accept()
            c.sendall(b'served')
            c.recv(1)
            os._exit(0)
        workers.append(worker)
    s.close()
    for worker in workers: assert os.waitpid(worker, 0)[1] == 0, port
"#;

/// Connects to each port until all of its workers have answered.
const ASKS_EACH: &str = r#"
import signal, socket, sys, time
signal.alarm(25)
for port in range(9100, 9120):
    served = 0
    while served < 4:
        try:
            c = socket.create_connection((sys.argv[1], port), timeout=10)
        except ConnectionRefusedError:
            time.sleep(0.02)
            continue
        answer = b''
        while len(answer) < 6:
            some = c.recv(6)
            assert some, port
            answer += some
        c.close()
        served += 1
print('done')
"#;

#[test]
fn workers_that_each_listen_and_accept_at_once_do_not_wait_for_each_other() {
    let both = Both::new();
    let own = both.pair.b_v4();
    crossing(&both.b_service, 100, || {
        let mut server = start(both.b(), true, &[python(), "-c", EACH_LISTENS, &own]);
        let asked = start(both.a(), false, &[python(), "-c", ASKS_EACH, &own]).success(TIMEOUT);
        let told = server.success(TIMEOUT);
        assert_eq!((asked.unwrap().trim(), told.unwrap().as_str()), ("done", ""), "{}", server.stderr());
    });
}
