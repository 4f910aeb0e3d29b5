//! Nodes as a controller sees them, over loopback: a consumer and its producers, bad orders, and
//! foreign traffic.

use std::io::{BufReader, PipeReader, PipeWriter, Read, Write, pipe};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;
use tickclock::{Count, CounterKind, Leap, Nanos, Parameters, Scale, Status, Writer};
use tickwire_node::protocol::{
    LONGEST_LINE, LONGEST_ORDER, NodeReport, NodeRole, Order, Prepare, Sent, Start, StreamDestination, StreamResult,
    VERSION,
};
use tickwire_node::stream::{Stream, Transport};
use tickwire_node::usage::Usage;
use tickwire_node::{NodeClock, NodeError, lines, serve};

const SECOND: u64 = 1_000_000_000;

/// A node in a thread, and the controller's side of it.
struct Node {
    orders: PipeWriter,
    news: BufReader<PipeReader>,
    thread: JoinHandle<Result<(), NodeError>>,
}

impl Node {
    fn start() -> Self {
        let (input, orders) = pipe().unwrap();
        let (news, output) = pipe().unwrap();
        let thread = std::thread::spawn(move || serve(BufReader::new(input), output));
        let mut node = Self { orders, news: BufReader::new(news), thread };
        assert!(matches!(node.hear(), Some(NodeReport::Hello { version: VERSION, .. })));
        node
    }

    fn ready(prepare: Prepare) -> Self {
        let mut node = Self::start();
        node.say(&Order::Prepare(prepare));
        let news = node.hear();
        assert!(matches!(news, Some(NodeReport::Ready { .. })), "{news:?}");
        node
    }

    fn say(&mut self, order: &Order) {
        lines::write(&mut self.orders, order).unwrap();
    }

    /// The next report, except progress.
    fn hear(&mut self) -> Option<NodeReport> {
        loop {
            match lines::read(&mut self.news, LONGEST_LINE).unwrap() {
                Some(NodeReport::Progress { .. }) => {}
                other => return other,
            }
        }
    }

    fn sent(&mut self) -> Vec<Sent> {
        match self.hear() {
            Some(NodeReport::Sent { streams, .. }) => streams,
            other => panic!("{other:?}"),
        }
    }

    fn received(&mut self) -> (Vec<StreamResult>, Usage) {
        match self.hear() {
            Some(NodeReport::Received { streams, usage, .. }) => (streams, usage),
            other => panic!("{other:?}"),
        }
    }

    /// It reports a fatal error and ends; returns the text.
    fn failed(mut self) -> String {
        let Some(NodeReport::Failed { why }) = self.hear() else { panic!("it goes on") };
        assert!(self.hear().is_none());
        assert_eq!(self.thread.join().unwrap().unwrap_err().to_string(), why);
        why
    }

    /// Closes its input; the node ends without a message.
    fn end(self) {
        drop(self.orders);
        let mut rest = String::new();
        { self.news }.read_to_string(&mut rest).unwrap();
        assert!(!rest.contains("failed"), "{rest}");
        self.thread.join().unwrap().unwrap();
    }
}

/// An address of this process alone, so that its ports are free.
fn address() -> Ipv4Addr {
    let [.., high, low] = std::process::id().to_be_bytes();
    Ipv4Addr::new(127, 78, high, low.max(1))
}

/// A port that no other test of this process uses. Multicast ports are bound on all addresses, so
/// they also differ between processes, as far as possible.
fn port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    20_000 + (std::process::id() % 120 * 100) as u16 + NEXT.fetch_add(1, Ordering::Relaxed)
}

fn channel(id: u32, transport: Transport, size: u32, period_ms: u64) -> StreamDestination {
    let stream = Stream {
        id,
        producer: 1,
        transport,
        size,
        period: Duration::from_millis(period_ms),
        deadline: Duration::from_secs(60),
        phase: Some(Duration::from_millis(u64::from(id) % period_ms)),
    };
    let to = if transport == Transport::UdpMulticast { Ipv4Addr::new(239, 255, 78, 1) } else { address() };
    StreamDestination { stream, to: SocketAddr::from((to, port())) }
}

fn prepare(role: NodeRole, streams: &[StreamDestination]) -> Prepare {
    Prepare { role, address: address().into(), streams: streams.to_vec(), time: NodeClock::Machine, watch_ns: 0 }
}

/// 0.1 s of warm-up and 0.3 s that count, in a second.
fn soon() -> Start {
    let now = NodeClock::Machine.open().unwrap().now_ns().unwrap();
    Start { at_ns: now + SECOND as i64, warm_up_ns: SECOND / 10, duration_ns: 3 * SECOND / 10 }
}

/// Checks that the consumer received all messages of these producers, and besides only `corrupt`
/// corrupt ones.
fn run(
    channels: &[StreamDestination],
    mut consumer: Node,
    mut producers: Vec<(Node, Vec<StreamDestination>)>,
    corrupt: &[u64],
) {
    let start = soon();
    consumer.say(&Order::Start(start));
    for (producer, _) in &mut producers {
        producer.say(&Order::Start(start));
    }
    let mut sent = Vec::new();
    for (producer, channels) in &mut producers {
        let streams = producer.sent();
        for (sent, channel) in streams.iter().zip(channels) {
            let (first, last) = start.numbers(&channel.stream);
            assert_eq!((sent.messages, &sent.fault), (last, &None), "{channel:?}");
            assert_eq!(sent.release.iter().map(|&(_, count)| count).sum::<u64>(), last - first);
        }
        sent.extend(streams.iter().map(|sent| sent.messages));
    }
    consumer.say(&Order::Finish { sent });
    let (streams, usage) = consumer.received();
    assert_eq!(streams.len(), channels.len());
    for ((received, channel), &corrupt) in streams.into_iter().zip(channels).zip(corrupt) {
        let (first, last) = start.numbers(&channel.stream);
        assert!(first < last);
        assert_eq!(received.latency.iter().map(|&(_, count)| count).sum::<u64>(), last - first, "{channel:?}");
        // Linux timestamps them, but messages from one call share one timestamp. Windows does not.
        let stamped = received.waited.iter().map(|&(_, count)| count).sum::<u64>();
        let expected = if cfg!(windows) { 0..=0 } else { 1..=last - first };
        assert!(expected.contains(&stamped), "{channel:?}: {received:?}");
        let slowest = received.latency.last().map_or(0, |&(ns, _)| ns);
        assert!(received.slowest_waited_ns.is_none_or(|ns| ns <= slowest), "{channel:?}: {received:?}");
        let expected = StreamResult {
            messages: last - first,
            corrupt,
            latency: received.latency.clone(),
            waited: received.waited.clone(),
            slowest_waited_ns: received.slowest_waited_ns,
            ..StreamResult::default()
        };
        assert_eq!(received, expected, "{channel:?}");
    }
    assert!(usage.elapsed_ns > 0);
    producers.into_iter().for_each(|(producer, _)| producer.end());
    consumer.say(&Order::Stop);
    consumer.end();
}

#[test]
fn all_that_is_sent_comes() {
    let channels = [
        channel(10, Transport::Tcp, 300_000, 20),
        channel(11, Transport::LowLatencyTcp, 10, 5),
        channel(12, Transport::Udp, 4_000, 20),
        channel(23, Transport::UdpMulticast, 100, 20),
        channel(24, Transport::Udp, 10, 20),
    ];
    let consumer = Node::ready(prepare(NodeRole::Consumer, &channels));
    let producers = [&channels[..3], &channels[3..]]
        .map(|channels| (Node::ready(prepare(NodeRole::Producer, channels)), channels.to_vec()));
    run(&channels, consumer, producers.into(), &[0; 5]);
}

#[test]
fn all_that_is_sent_comes_by_ipv6() {
    let mut channels = [channel(10, Transport::Tcp, 3_000, 20), channel(11, Transport::Udp, 100, 20)];
    for channel in &mut channels {
        channel.to.set_ip(Ipv6Addr::LOCALHOST.into());
    }
    let prepare = |role| Prepare { address: Ipv6Addr::LOCALHOST.into(), ..prepare(role, &channels) };
    let consumer = Node::ready(prepare(NodeRole::Consumer));
    let producer = (Node::ready(prepare(NodeRole::Producer)), channels.to_vec());
    run(&channels, consumer, vec![producer], &[0; 2]);
}

#[test]
fn what_others_send_is_counted_and_breaks_nothing() {
    let channels = [channel(10, Transport::Udp, 100, 10), channel(11, Transport::Tcp, 100, 10)];
    let consumer = Node::ready(prepare(NodeRole::Consumer, &channels));
    let stranger = UdpSocket::bind((address(), 0)).unwrap();
    for length in [0, 1, 9, 10, 99, 100, 101, 65_507] {
        stranger.send_to(&vec![0xa5; length], channels[0].to).unwrap();
    }
    // Foreign connections before the producer's: one sends nothing, one too little, one something
    // else.
    for length in [0, 7, 350] {
        TcpStream::connect(channels[1].to).unwrap().write_all(&vec![0xa5; length]).unwrap();
    }
    let producer = Node::ready(prepare(NodeRole::Producer, &channels));
    run(&channels, consumer, vec![(producer, channels.to_vec())], &[8, 1 + 4]);
}

#[test]
fn what_does_not_come_is_not_waited_for_for_ever() {
    let channels = [channel(10, Transport::Udp, 100, 10), channel(11, Transport::Tcp, 100, 10)];
    let mut consumer = Node::ready(prepare(NodeRole::Consumer, &channels));
    consumer.say(&Order::Start(soon()));
    consumer.say(&Order::Finish { sent: vec![5, 5] });
    let (streams, _) = consumer.received();
    assert_eq!(streams[0], StreamResult::default());
    assert!(streams[1].fault.as_ref().unwrap().contains("no producer"), "{:?}", streams[1]);
    consumer.end();
}

#[test]
fn a_producer_that_cannot_send_is_stopped() {
    let channels = [channel(10, Transport::Tcp, 16 << 20, 1)];
    let deaf = TcpListener::bind(channels[0].to).unwrap();
    let mut producer = Node::ready(prepare(NodeRole::Producer, &channels));
    let _kept = deaf.accept().unwrap();
    producer.say(&Order::Start(soon()));
    // It has reported progress, so it is sending, or trying to.
    assert!(matches!(lines::read(&mut producer.news, LONGEST_LINE), Ok(Some(NodeReport::Progress { .. }))));
    producer.say(&Order::Stop);
    let sent = producer.sent();
    assert!(sent[0].fault.as_ref().unwrap().contains("stopped"), "{sent:?}");
    assert!(sent[0].messages < 400);
    producer.end();
}

#[test]
fn a_consumer_that_is_stopped_tells_what_came() {
    let channels = [channel(10, Transport::Udp, 100, 10)];
    let mut consumer = Node::ready(prepare(NodeRole::Consumer, &channels));
    consumer.say(&Order::Start(soon()));
    consumer.say(&Order::Stop);
    assert_eq!(consumer.received(), (vec![StreamResult::default()], Usage::default()));
    consumer.end();
}

#[test]
fn a_connection_that_ends_inside_a_message_is_told() {
    let channels = [channel(10, Transport::Tcp, 1 << 20, 1)];
    let mut consumer = Node::ready(prepare(NodeRole::Consumer, &channels));
    let mut producer = Node::ready(prepare(NodeRole::Producer, &channels));
    // The consumer does not read yet, so the producer fills the buffers, which do not end at a
    // message boundary.
    producer.say(&Order::Start(soon()));
    let far = |news| match news {
        Ok(Some(NodeReport::Progress { streams })) => streams[0].messages,
        other => panic!("{other:?}"),
    };
    let mut before = 0;
    loop {
        let now = far(lines::read(&mut producer.news, LONGEST_LINE));
        if now > 0 && now == before {
            break;
        }
        before = now;
    }
    producer.say(&Order::Stop);
    let sent = producer.sent()[0].messages;
    producer.end();
    consumer.say(&Order::Start(Start { warm_up_ns: 0, ..soon() }));
    consumer.say(&Order::Finish { sent: vec![sent + 1] });
    let received = consumer.received().0.remove(0);
    assert_eq!((received.messages, received.corrupt), (sent, 0));
    assert!(received.fault.as_ref().unwrap().contains("inside a message"), "{:?}", received.fault);
    consumer.end();
}

#[test]
fn a_port_that_is_taken_is_named() {
    for transport in [Transport::Udp, Transport::Tcp, Transport::UdpMulticast] {
        let channels = [channel(10, Transport::Udp, 100, 10), channel(77, transport, 100, 10)];
        let port = channels[1].to.port();
        let taken = (UdpSocket::bind((address(), port)).unwrap(), TcpListener::bind((address(), port)).unwrap());
        let mut consumer = Node::start();
        consumer.say(&Order::Prepare(prepare(NodeRole::Consumer, &channels)));
        let why = consumer.failed();
        assert!(why.contains("stream 77") && why.contains(&format!(":{port}: ")), "{why}");
        // `WSAEADDRINUSE` has other words in each language of Windows.
        assert!(why.contains(if cfg!(windows) { "(os error 10048)" } else { "in use" }), "{why}");
        drop(taken);
    }
}

#[test]
fn a_consumer_that_does_not_listen_is_named() {
    let channels = [channel(10, Transport::Udp, 100, 10), channel(77, Transport::Tcp, 100, 10)];
    let mut producer = Node::start();
    producer.say(&Order::Prepare(prepare(NodeRole::Producer, &channels)));
    let why = producer.failed();
    assert!(why.starts_with(&format!("stream 77: cannot connect to {}: ", channels[1].to)), "{why}");
}

#[test]
fn a_clock_that_is_not_there_is_named() {
    let channels = [channel(10, Transport::Udp, 100, 10)];
    for role in [NodeRole::Producer, NodeRole::Consumer] {
        let mut node = Node::start();
        let time = NodeClock::Page { path: Some("/nowhere/clock".into()) };
        node.say(&Order::Prepare(Prepare { time, ..prepare(role, &channels) }));
        let why = node.failed();
        assert!(why.contains("/nowhere/clock"), "{why}");
    }
}

/// A clock page with the time of `CLOCK_MONOTONIC_RAW`.
fn parameters(bound: u64) -> Parameters {
    let scale = Scale::from_period(1.0).unwrap();
    Parameters {
        status: Status::SYNCHRONISED | Status::TAI_KNOWN,
        at: Count(1),
        time: Nanos(37 * SECOND as i64 + 1),
        local: scale,
        difference: scale,
        error: 20,
        bound,
        fresh_until: Count(u64::MAX / 2),
        leap: Leap { offset: 37, step: 0, at: Nanos(0) },
        ..Parameters::UNKNOWN
    }
}

#[test]
fn a_node_tells_the_greatest_bound_that_its_clock_had_and_whether_it_has_lost_the_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("clock");
    let writer = Writer::create(&path, CounterKind::MonotonicRaw).unwrap();
    let told = |role, during: Parameters, at_end: Parameters| {
        writer.publish(&parameters(500));
        let channels = [channel(10, Transport::Udp, 100, 10)];
        let mut node =
            Node::ready(Prepare { time: NodeClock::Page { path: Some(path.clone()) }, ..prepare(role, &channels) });
        node.say(&Order::Start(Start { duration_ns: 1_000 * SECOND, ..soon() }));
        writer.publish(&during);
        // The first report may be older than that.
        for _ in 0..2 {
            let news = lines::read(&mut node.news, LONGEST_LINE);
            assert!(matches!(news, Ok(Some(NodeReport::Progress { .. }))), "{news:?}");
        }
        writer.publish(&at_end);
        node.say(&Order::Stop);
        match node.hear() {
            Some(NodeReport::Sent { bound_ns, .. } | NodeReport::Received { bound_ns, .. }) => bound_ns,
            other => panic!("{other:?}"),
        }
    };
    for role in [NodeRole::Producer, NodeRole::Consumer] {
        assert_eq!(told(role, parameters(7_000_000), parameters(500)), Some(7_000_000), "{role:?}");
        let lost = Parameters { bound: u64::MAX, ..parameters(0) };
        assert_eq!(told(role, parameters(500), lost), Some(u64::MAX), "{role:?}");
    }
}

#[test]
fn orders_have_their_order() {
    let channels = [channel(10, Transport::Udp, 100, 10)];
    let finish = Order::Finish { sent: vec![1] };
    for order in [Order::Start(soon()), finish.clone()] {
        let mut node = Node::start();
        node.say(&order);
        assert!(node.failed().contains("`prepare` was expected"));
    }
    for role in [NodeRole::Producer, NodeRole::Consumer] {
        for order in [Order::Prepare(prepare(role, &channels)), finish.clone()] {
            let mut node = Node::ready(prepare(role, &channels));
            node.say(&order);
            assert!(node.failed().contains("`start` was expected"));
        }
        let mut node = Node::ready(prepare(role, &channels));
        node.say(&Order::Start(soon()));
        node.say(&Order::Start(soon()));
        let why = node.failed();
        assert!(why.contains("said `start`") && why.contains("`stop` was expected"), "{why}");

        let mut node = Node::ready(prepare(role, &channels));
        node.say(&Order::Start(Start { at_ns: 1, ..soon() }));
        assert!(node.failed().contains("ago"));

        for mut node in [Node::start(), Node::ready(prepare(role, &channels))] {
            node.say(&Order::Stop);
            node.end();
        }
    }
    let mut consumer = Node::ready(prepare(NodeRole::Consumer, &channels));
    consumer.say(&Order::Start(soon()));
    consumer.say(&Order::Finish { sent: vec![1, 2] });
    assert!(consumer.failed().contains("2 streams"));
}

#[test]
fn what_is_no_order_ends_a_node() {
    let long = vec![b' '; LONGEST_ORDER as usize + 2];
    for (line, words) in [
        (b"nonsense\n".as_slice(), "expected"),
        (b"{\"prepare\":{}}\n", "role"),
        (b"{\"start\":{\"at_ns\":1,\"warm_up_ns\":-1,\"duration_ns\":1}}\n", "-1"),
        (b"{\"stop\":1}\n", "unit"),
        (b"\xff\xfe\n", ""),
        (b"\n", ""),
        (&long, "longer than 4194304 bytes"),
    ] {
        let mut node = Node::start();
        // The node does not read the end of a line that is too long.
        let _ = node.orders.write_all(line);
        let why = node.failed();
        assert!(why.contains("cannot be understood") && why.contains(words), "{why}");
    }
}

#[test]
fn a_node_ends_with_its_input_wherever_it_is() {
    Node::start().end();
    let channels = [channel(10, Transport::Udp, 100, 10)];
    for role in [NodeRole::Producer, NodeRole::Consumer] {
        Node::ready(prepare(role, &channels)).end();
        let mut node = Node::ready(prepare(role, &channels));
        node.say(&Order::Start(Start { duration_ns: 1_000 * SECOND, ..soon() }));
        node.end();
    }
}
