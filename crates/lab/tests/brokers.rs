//! Programs through which others exchange data: a multi-threaded cache, a message broker, a
//! messaging library with its own threads. Each is accelerated against a peer on the kernel, the
//! other way round, and at both ends.

mod common;

use common::{Both, TIMEOUT, either_side, pattern, python, start, wait_until_listening};
use tickwire_lab::{LabHost, Process, tools};

const MEMCACHED_CLIENT: &str = include_str!("brokers/memcached.py");
const ZEROMQ_SERVER: &str = include_str!("brokers/zeromq_server.py");
const ZEROMQ_CLIENT: &str = include_str!("brokers/zeromq_client.py");

/// A listening thread hands connections to four others; all of them receive datagrams from one
/// socket.
#[test]
fn memcached_serves_connections_and_datagrams_in_its_threads() {
    let both = Both::new();
    let address = both.pair.b_v4();
    either_side(&both, 500, |server, client, port| {
        let port_text = port.to_string();
        let memcached =
            ["memcached", "-u", "root", "-l", &address, "-p", &port_text, "-U", &port_text, "-t", "4", "-m", "64"];
        let mut memcached = start(both.b(), server, &memcached);
        wait_until_listening(both.b(), &mut memcached, "udp", port);
        wait_until_listening(both.b(), &mut memcached, "tcp", port);
        let ask = [python(), "-c", MEMCACHED_CLIENT, &address, &port_text];
        assert_eq!(start(both.a(), client, &ask).success(TIMEOUT).unwrap(), "all came back\n");
        memcached.stop(TIMEOUT).unwrap();
    });
}

/// Subscribes on host a, and waits until the broker has answered: it then sends the topic's
/// retained message.
fn subscriber(host: &LabHost, accelerated: bool, command: &[&str]) -> Process {
    let mut subscriber = start(host, accelerated, command);
    subscriber.wait_for("subscribed", TIMEOUT).unwrap();
    subscriber
}

#[test]
fn mosquitto_hands_on_messages_in_order_and_once() {
    let both = Both::new();
    let address = both.pair.b_v4();
    let image = both.a().directory().join("image");
    let content = pattern(700_000);
    std::fs::write(&image, &content).unwrap();
    let numbers: String = (1..=300).map(|number| format!("{number}\n")).collect();
    either_side(&both, 100, |server, client, port| {
        let config = both.b().directory().join("mosquitto.conf");
        let lines = format!("listener {port} {address}\nallow_anonymous true\nuser root\npersistence false\n");
        std::fs::write(&config, lines).unwrap();
        let mut broker = start(both.b(), server, &["mosquitto", "-c", config.to_str().unwrap()]);
        wait_until_listening(both.b(), &mut broker, "tcp", port);

        let port = port.to_string();
        let publish = |topic: &str, arguments: &[&str]| {
            let command = ["mosquitto_pub", "-h", &address, "-p", &port, "-q", "2", "-t", topic];
            start(both.a(), client, &[&command[..], arguments].concat()).success(TIMEOUT).unwrap()
        };
        let subscribe = ["mosquitto_sub", "-h", &address, "-p", &port, "-q", "2", "-t"];
        for topic in ["numbers", "image", "alive"] {
            publish(topic, &["-r", "-m", "subscribed"]);
        }

        let mut listening = subscriber(both.a(), client, &[&subscribe[..], &["numbers", "-C", "301"]].concat());
        let all = format!("seq 300 | mosquitto_pub -h {address} -p {port} -q 2 -t numbers -l");
        start(both.a(), client, &["sh", "-c", &all]).success(TIMEOUT).unwrap();
        assert_eq!(listening.success(TIMEOUT).unwrap(), format!("subscribed\n{numbers}"));

        let copy = both.a().directory().join("copy");
        let into = format!("{} image -C 2 -N | tee {}", subscribe.join(" "), copy.display());
        let mut listening = subscriber(both.a(), client, &["sh", "-c", &into]);
        publish("image", &["-f", image.to_str().unwrap()]);
        listening.success(TIMEOUT).unwrap();
        let copy = std::fs::read(copy).unwrap();
        assert!(copy.strip_prefix(b"subscribed") == Some(&content), "the image differs ({} bytes)", copy.len());

        // The broker notices a killed client at once, not only after the keepalive timeout of a
        // silent one.
        let mut watching = subscriber(both.a(), client, &[&subscribe[..], &["alive", "-C", "2"]].concat());
        let will = ["--will-topic", "alive", "--will-payload", "gone", "--will-qos", "2"];
        let mut dying = subscriber(both.a(), client, &[&subscribe[..], &["alive", "-k", "600"], &will].concat());
        dying.kill();
        assert_eq!(watching.success(TIMEOUT).unwrap(), "subscribed\ngone\n");

        broker.stop(TIMEOUT).unwrap();
    });
}

/// Sockets of the library's own kind, whose traffic is handled by one of its threads; the program
/// waits on an event descriptor.
#[test]
fn zeromq_carries_requests_streams_and_subscriptions() {
    let both = Both::new();
    let address = both.pair.b_v4();
    either_side(&both, 200, |server, client, port| {
        let port_text = port.to_string();
        let mut serving = start(both.b(), server, &[python(), "-c", ZEROMQ_SERVER, &address, &port_text]);
        (port..port + 3).for_each(|port| wait_until_listening(both.b(), &mut serving, "tcp", port));
        let ask = [python(), "-c", ZEROMQ_CLIENT, &address, &port_text];
        let printed = start(both.a(), client, &ask).success(TIMEOUT);
        let printed = printed.unwrap_or_else(|e| panic!("{e:#}\nserver: {}", serving.stderr()));
        assert_eq!(printed, "all came\n");
        tools::until("the server has ended", TIMEOUT, || !serving.is_running().unwrap()).unwrap();
    });
}
