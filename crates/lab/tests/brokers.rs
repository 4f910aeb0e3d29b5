//! What other programs exchange data through: a cache with threads, a message broker, a messaging
//! library with threads of its own. Each is accelerated against a peer on the kernel, the other way
//! round, and at both ends.

mod common;

use common::{Both, PATIENCE, bound, either_side, pattern, python, start};
use tickwire_lab::{Host, Process, tools};

const MEMCACHED_CLIENT: &str = include_str!("brokers/memcached.py");
const ZEROMQ_SERVER: &str = include_str!("brokers/zeromq_server.py");
const ZEROMQ_CLIENT: &str = include_str!("brokers/zeromq_client.py");

/// Connections are handed from a listening thread to four others; datagrams are taken by all of
/// them from one socket.
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

/// Subscribes on host a, and waits until the broker has answered: it then sends what has been kept
/// for the topic.
fn subscriber(host: &Host, accelerated: bool, command: &[&str]) -> Process {
    let mut subscriber = start(host, accelerated, command);
    subscriber.wait_for("subscribed", PATIENCE).unwrap();
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
        bound(both.b(), &mut broker, "tcp", port);

        let port = port.to_string();
        let publish = |topic: &str, arguments: &[&str]| {
            let command = ["mosquitto_pub", "-h", &address, "-p", &port, "-q", "2", "-t", topic];
            start(both.a(), client, &[&command[..], arguments].concat()).success(PATIENCE).unwrap()
        };
        let subscribe = ["mosquitto_sub", "-h", &address, "-p", &port, "-q", "2", "-t"];
        for topic in ["numbers", "image", "alive"] {
            publish(topic, &["-r", "-m", "subscribed"]);
        }

        let mut listening = subscriber(both.a(), client, &[&subscribe[..], &["numbers", "-C", "301"]].concat());
        let all = format!("seq 300 | mosquitto_pub -h {address} -p {port} -q 2 -t numbers -l");
        start(both.a(), client, &["sh", "-c", &all]).success(PATIENCE).unwrap();
        assert_eq!(listening.success(PATIENCE).unwrap(), format!("subscribed\n{numbers}"));

        let copy = both.a().directory().join("copy");
        let into = format!("{} image -C 2 -N | tee {}", subscribe.join(" "), copy.display());
        let mut listening = subscriber(both.a(), client, &["sh", "-c", &into]);
        publish("image", &["-f", image.to_str().unwrap()]);
        listening.success(PATIENCE).unwrap();
        let copy = std::fs::read(copy).unwrap();
        assert!(copy.strip_prefix(b"subscribed") == Some(&content), "the image differs ({} bytes)", copy.len());

        // Who is killed is missed at once, not when the broker's patience with a silent client is
        // over.
        let mut watching = subscriber(both.a(), client, &[&subscribe[..], &["alive", "-C", "2"]].concat());
        let will = ["--will-topic", "alive", "--will-payload", "gone", "--will-qos", "2"];
        let mut dying = subscriber(both.a(), client, &[&subscribe[..], &["alive", "-k", "600"], &will].concat());
        dying.kill();
        assert_eq!(watching.success(PATIENCE).unwrap(), "subscribed\ngone\n");

        broker.stop(PATIENCE).unwrap();
    });
}

/// Sockets of its own kind, whose traffic is the business of a thread of the library; the program
/// waits on an event descriptor.
#[test]
fn zeromq_carries_requests_streams_and_subscriptions() {
    let both = Both::new();
    let address = both.pair.b_v4();
    either_side(&both, 200, |server, client, port| {
        let port_text = port.to_string();
        let mut serving = start(both.b(), server, &[python(), "-c", ZEROMQ_SERVER, &address, &port_text]);
        (port..port + 3).for_each(|port| bound(both.b(), &mut serving, "tcp", port));
        let ask = [python(), "-c", ZEROMQ_CLIENT, &address, &port_text];
        let printed = start(both.a(), client, &ask).success(PATIENCE);
        let printed = printed.unwrap_or_else(|e| panic!("{e:#}\nserver: {}", serving.stderr()));
        assert_eq!(printed, "all came\n");
        tools::until("the server has ended", PATIENCE, || !serving.is_running().unwrap()).unwrap();
    });
}
