//! A request of the clock that waits in a queue of its own host: the driver timestamps it late, and
//! until then no caller has to wait for the socket.

use std::net::UdpSocket;
use std::time::{Duration, Instant};
use tickclock::{CounterKind, counter};
use tickwire_lab::{LabHost, LabPair};
use tickwire_ntp::socket::{NtpSocket, ReceivedReply};
use tickwire_ntp::{NtpPacket, Stamp};
use tickwire_stamping::Quality;

const TIMEOUT: Duration = Duration::from_secs(10);
const MS: Duration = Duration::from_millis(1);

struct Exchange {
    server: UdpSocket,
    socket: NtpSocket,
    /// Fills the queue.
    junk: UdpSocket,
}

impl Exchange {
    fn new(pair: &LabPair) -> Self {
        let server = pair.b.within(|| UdpSocket::bind((pair.b_v4(), 123)).unwrap()).unwrap();
        server.set_read_timeout(Some(TIMEOUT)).unwrap();
        let address = server.local_addr().unwrap();
        let (socket, junk) = pair
            .a
            .within(|| {
                let socket = NtpSocket::open(address, CounterKind::MonotonicRaw, 1.0).unwrap();
                (socket, UdpSocket::bind("0.0.0.0:0").unwrap())
            })
            .unwrap();
        Self { server, socket, junk }
    }

    /// Sends two frames of junk, of which the second waits, and a request behind them.
    fn ask_behind_others(&mut self, number: u64) {
        let discard = format!("{}:9", self.server.local_addr().unwrap().ip());
        for _ in 0..2 {
            self.junk.send_to(&[0; 1400], &discard).unwrap();
        }
        self.socket.send(&NtpPacket::request(Stamp(number)).to_bytes()).unwrap();
    }

    fn receive(&mut self) -> Option<ReceivedReply> {
        let mut all = Vec::new();
        self.socket.receive(|_| true, |one| all.extend(one), |_| {});
        all.pop()
    }

    /// Echoes the request.
    fn answer(&mut self) -> ReceivedReply {
        let mut bytes = [0; 100];
        let (length, client) = self.server.recv_from(&mut bytes).unwrap();
        self.server.send_to(&bytes[..length], client).unwrap();
        let begin = Instant::now();
        loop {
            match self.receive() {
                Some(received) => return received,
                None => assert!(begin.elapsed() < TIMEOUT, "no answer came"),
            }
            std::thread::sleep(MS);
        }
    }
}

/// Limits the rate of the host's interface, one frame at a time.
fn limit(host: &LabHost, what: &str, rate: &str) {
    let command = format!("tc qdisc {what} dev eth0 root tbf rate {rate} burst 1600 latency 10s");
    host.run(&command.split(' ').collect::<Vec<_>>()).unwrap();
}

#[test]
fn a_request_in_a_queue_is_leaving_until_the_driver_has_it() {
    let pair = LabPair::new().unwrap();
    pair.a.run(&["ping", "-c1", &pair.b_v4()]).unwrap();
    let mut exchange = Exchange::new(&pair);
    // The kernel begins to timestamp received packets some time after the first socket has
    // requested it.
    let begin = Instant::now();
    for number in 1.. {
        exchange.socket.send(&NtpPacket::request(Stamp(number)).to_bytes()).unwrap();
        assert!(!exchange.socket.is_leaving(), "there is no queue");
        if exchange.answer().quality == Quality::Kernel {
            break;
        }
        assert!(begin.elapsed() < TIMEOUT, "the kernel does not stamp");
    }

    // 50 ms for the frames before it.
    limit(&pair.a, "add", "200kbit");
    let sent = counter::read(CounterKind::MonotonicRaw);
    exchange.ask_behind_others(1 << 32);
    assert!(exchange.socket.is_leaving());
    let received = exchange.answer();
    assert!(!exchange.socket.is_leaving());
    assert_eq!(received.quality, Quality::Kernel);
    let waited = received.sent.since(sent);
    assert!(waited > 20_000_000, "stamped after {waited} ns, which is before it left");

    // The frame practically never leaves: the socket waits for its timestamp for a limited time
    // only.
    std::thread::sleep(100 * MS);
    limit(&pair.a, "change", "1kbit");
    exchange.ask_behind_others(2 << 32);
    let begin = Instant::now();
    while exchange.socket.is_leaving() {
        assert!(begin.elapsed() < TIMEOUT);
        std::thread::sleep(MS);
    }
    assert!(begin.elapsed() > 150 * MS && exchange.receive().is_none(), "{:?}", begin.elapsed());
}
