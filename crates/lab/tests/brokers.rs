//! What other programs exchange data through: a cache with threads. Each is accelerated against
//! a peer on the kernel, the other way round, and at both ends.

mod common;

use common::{Both, PATIENCE, bound, either_side, python, start};

const MEMCACHED_CLIENT: &str = include_str!("brokers/memcached.py");

/// Connections are handed from a listening thread to four others; datagrams are taken by all of them from one socket.
#[test]
fn memcached_serves_connections_and_datagrams_in_its_threads() {
    let both = Both::new();
    let address = both.pair.b_v4();
    either_side(&both, 500, |server, client, port| {
        let port_text = port.to_string();
        let memcached =
            ["memcached", "-u", "root", "-l", &address, "-p", &port_text, "-U", &port_text, "-t", "4", "-m", "64"];
        let mut memcached = start(both.b(), server, &memcached);
        bound(both.b(), &mut memcached, "udp", port);
        bound(both.b(), &mut memcached, "tcp", port);
        let ask = [python(), "-c", MEMCACHED_CLIENT, &address, &port_text];
        assert_eq!(start(both.a(), client, &ask).success(PATIENCE).unwrap(), "all came back\n");
        memcached.stop(PATIENCE).unwrap();
    });
}
