//! Languages that bring an event loop of their own: what they make of sockets is not what a C program would. Each is accelerated against a peer on the kernel, the
//! other way round, and at both ends.

mod common;

use common::{Both, PATIENCE, bound, either_side, python, start, vouched};
use std::path::Path;

/// The same program is the server (`serve`) and the client (`ask`); it gets address and port. The client says when everything came back as it should.
fn talks(both: &Both, command: &[&str], server_more: &[&str], client_more: &[&str]) {
    let address = both.pair.b_v4();
    either_side(both, 150, |server, client, port| {
        let port_text = port.to_string();
        let role = |role| [command, &[role, &address, &port_text]].concat();
        let mut serving = start(both.b(), server, &[&role("serve")[..], server_more].concat());
        bound(both.b(), &mut serving, "tcp", port);
        let printed = start(both.a(), client, &[&role("ask")[..], client_more].concat()).success(PATIENCE);
        let printed = printed.unwrap_or_else(|e| panic!("{e:#}\nserver: {}{}", serving.stdout(), serving.stderr()));
        assert_eq!(printed, "all came back\n");
        assert!(serving.is_running().unwrap(), "{}", serving.stderr());
        serving.kill();
    });
}

fn source(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/runtimes").join(name).to_str().unwrap().to_owned()
}

#[test]
fn pythons_asyncio_speaks_tls() {
    let both = Both::new();
    let trusted = vouched(&both.pair);
    let path = |name: &str| both.b().directory().join(name).to_str().unwrap().to_owned();
    let keys = [path("certificate.pem"), path("key.pem")];
    let more: Vec<_> = keys.iter().map(String::as_str).collect();
    talks(&both, &[python(), &source("tls.py")], &more, &[&trusted]);
}

#[test]
fn javas_selectors_and_blocking_sockets_work() {
    let both = Both::new();
    // Small and quick to start: what it compiles is run for seconds.
    let java = ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx128m"];
    talks(&both, &[&java[..], &[&source("Echo.java")]].concat(), &[], &[]);
}

#[test]
fn nodes_event_loop_keeps_many_connections_busy() {
    let both = Both::new();
    talks(&both, &["node", &source("many.js")], &[], &[]);
}
