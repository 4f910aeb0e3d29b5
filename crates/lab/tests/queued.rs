//! A clock's request that waits in a queue of its own host: the driver stamps it later, and until
//! then nobody must wait for the socket.

use std::net::UdpSocket;
use std::time::{Duration, Instant};
use tickclock::{CounterKind, counter};
use tickwire_lab::{Host, Pair};
use tickwire_ntp::socket::{Quality, Received, Socket};
use tickwire_ntp::{Packet, Stamp};

const PATIENCE: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);

struct Exchange {
    server: UdpSocket,
    socket: Socket,
    /// Fills the queue.
    junk: UdpSocket,
}

impl Exchange {
    fn new(pair: &Pair) -> Self {
        let server = pair.b.within(|| UdpSocket::bind((pair.b_v4(), 123)).unwrap()).unwrap();
        server.set_read_timeout(Some(PATIENCE)).unwrap();
        let address = server.local_addr().unwrap();
        let (socket, junk) = pair
            .a
            .within(|| {
                let socket = Socket::open(address, CounterKind::MonotonicRaw, 1.0).unwrap();
                (socket, UdpSocket::bind("0.0.0.0:0").unwrap())
            })
            .unwrap();
        Self { server, socket, junk }
    }

    /// Two frames of junk, of which the second waits, and a request behind them.
    fn ask_behind_others(&mut self, number: u64) {
        let discard = format!("{}:9", self.server.local_addr().unwrap().ip());
        for _ in 0..2 {
            self.junk.send_to(&[0; 1400], &discard).unwrap();
        }
        self.socket.send(&Packet::request(Stamp(number)).to_bytes()).unwrap();
    }

    fn receive(&mut self) -> Option<Received> {
        let mut all = Vec::new();
        self.socket.receive(|_| true, |one| all.extend(one), |_| {});
        all.pop()
    }

    /// Sends the request back.
    fn answer(&mut self) -> Received {
        let mut bytes = [0; 100];
        let (length, client) = self.server.recv_from(&mut bytes).unwrap();
        self.server.send_to(&bytes[..length], client).unwrap();
        let begin = Instant::now();
        loop {
            match self.receive() {
                Some(received) => return received,
                None => assert!(begin.elapsed() < PATIENCE, "no answer came"),
            }
            std::thread::sleep(MS);
        }
    }
}

/// Its interface carries so much, a frame at once.
fn limit(host: &Host, what: &str, rate: &str) {
    let command = format!("tc qdisc {what} dev eth0 root tbf rate {rate} burst 1600 latency 10s");
    host.run(&command.split(' ').collect::<Vec<_>>()).unwrap();
}

#[test]
fn a_request_in_a_queue_is_leaving_until_the_driver_has_it() {
    let pair = Pair::new().unwrap();
    pair.a.run(&["ping", "-c1", &pair.b_v4()]).unwrap();
    let mut exchange = Exchange::new(&pair);
    // The kernel begins to stamp what comes some time after the first socket has asked for it.
    let begin = Instant::now();
    for number in 1.. {
        exchange.socket.send(&Packet::request(Stamp(number)).to_bytes()).unwrap();
        assert!(!exchange.socket.is_leaving(), "there is no queue");
        if exchange.answer().quality == Quality::Kernel {
            break;
        }
        assert!(begin.elapsed() < PATIENCE, "the kernel does not stamp");
    }

    // 50 ms for what is before it.
    limit(&pair.a, "add", "200kbit");
    let sent = counter::read(CounterKind::MonotonicRaw);
    exchange.ask_behind_others(1 << 32);
    assert!(exchange.socket.is_leaving());
    let received = exchange.answer();
    assert!(!exchange.socket.is_leaving());
    assert_eq!(received.quality, Quality::Kernel);
    let waited = received.sent.since(sent);
    assert!(waited > 20_000_000, "stamped after {waited} ns, which is before it left");

    // For ever: what does not leave is not waited for, but its socket is.
    std::thread::sleep(100 * MS);
    limit(&pair.a, "change", "1kbit");
    exchange.ask_behind_others(2 << 32);
    let begin = Instant::now();
    while exchange.socket.is_leaving() {
        assert!(begin.elapsed() < PATIENCE);
        std::thread::sleep(MS);
    }
    assert!(begin.elapsed() > 150 * MS && exchange.receive().is_none(), "{:?}", begin.elapsed());
}
