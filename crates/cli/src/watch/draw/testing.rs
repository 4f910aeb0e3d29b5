//! Snapshots for tests.

use super::super::snapshot::{Snapshot, Watched};
use std::collections::BTreeMap;
use std::time::Duration;
use tickwire_show::stat::{Host, Interface, Lane, SocketReading, StatReading, Tcp};
use tickwire_testbed::controller::{Live, LiveStream, RunProgress};
use tickwire_testbed::live::Shown;
use tickwire_testbed::outcome::{Carrier, StreamDescription, Timing};
use tickwire_testbed::pattern::Transport;
use tickwire_testbed::time::Moment;
use tickwire_timekeeper::{Report, SourceReport};

const MS: u64 = 1_000_000;

fn report() -> Report {
    let source = SourceReport {
        name: "192.0.2.1".into(),
        address: Some("192.0.2.1:123".into()),
        standing: "followed".into(),
        reach: 255,
        poll_s: 1.0,
        asked: true,
        last_s: Some(0.25),
        stratum: Some(1),
        offset_ns: Some(120.0),
        round_trip_ns: Some(80_000.0),
        refused: [("too long".to_owned(), 1)].into(),
        ..SourceReport::default()
    };
    Report {
        utc_ns: Some(1_795_280_709_123_456_789),
        status: vec!["synchronised".into()],
        tai_utc_s: Some(37),
        leap: 0,
        leap_at_utc_ns: None,
        error_ns: Some(1200),
        bound_ns: Some(21_400),
        counter: "TSC".into(),
        nominal_period_ns: 0.5,
        period_ns: Some(0.5),
        long_period_ns: None,
        skew_ppm: Some(0.1),
        stratum: Some(2),
        root_delay_ns: Some(1),
        disruptions: 0,
        system_clock: None,
        page: "/run/tickwire/clock".into(),
        sources: vec![source],
    }
}

fn descriptions() -> Vec<StreamDescription> {
    let transports = [Transport::Tcp, Transport::Udp, Transport::UdpMulticast, Transport::LowLatencyTcp];
    let of_one = |producer: u16| {
        (0..).zip(transports).map(move |(kind, transport)| StreamDescription {
            id: u32::from(producer) * 10 + kind,
            producer,
            transport,
            size_bytes: 10,
            period_ms: 10.0,
            deadline_ms: 5.0,
        })
    };
    (1..=12).flat_map(of_one).collect()
}

/// The pattern of 2015 in its second run: 13 is late, 12 nearly, then 11 and 10.
pub(crate) fn watched() -> Watched {
    let live = |what: &StreamDescription| {
        let (worst_ever_ns, late) = match what.id {
            13 => (12 * MS, 3),
            12 => (4 * MS, 0),
            11 => (MS, 0),
            10 => (450_000, 0),
            _ => (100_000, 0),
        };
        let (received, sent) = (1200, 1201);
        LiveStream { id: what.id, received, sent, worst_ns: 120_000, worst_ever_ns, deadline_ns: 5 * MS, late }
    };
    let streams = descriptions();
    let live = Live {
        carrier: Carrier::Tickwire,
        timing: Timing::Scheduled,
        rate: 1,
        elapsed_s: 12.3,
        duration_s: 30.0,
        service: None,
        streams: streams.iter().map(live).collect(),
    };
    let step = Some(RunProgress { number: 2, of: 3 });
    let shown = Shown { pid: 77, since_s: 1, pattern: "2015".into(), streams, step, live: Some(live), clock: None };
    Watched { shown, age: Duration::ZERO, others: 0 }
}

fn socket(reason: Option<&str>) -> SocketReading {
    SocketReading {
        protocol: "tcp",
        accelerated: reason.is_none(),
        reason: reason.map(str::to_owned),
        polled: None,
        pid: 4242,
        fd: 5,
        local: "10.0.0.1:5000".into(),
        remote: None,
        state: "ESTAB",
        rx_queue: Some(0),
        tx_queue: Some(0),
        rx_packets: Some(10),
        rx_bytes: Some(1000),
        tx_packets: Some(10),
        tx_bytes: Some(100),
        drops: Some(0),
        tcp: None,
    }
}

/// A program with two of three sockets on its lane, and some losses.
pub(crate) fn lane(program: &str, lane: u32) -> Lane {
    let tcp = |srtt_us| Some(Tcp { srtt_us, rto_us: 0, cwnd: 14480, ssthresh: 0, mss: 1448, retransmits: 3 });
    Lane {
        lane,
        program: program.to_owned(),
        pid: 4242,
        uid: Some(1000),
        processes: 1,
        age_ms: 2500,
        memory_bytes: 29 << 20,
        accelerated: true,
        reason: None,
        guard: BTreeMap::from([
            ("in_packets", 100),
            ("in_bytes", 10_000),
            ("out_packets", 50),
            ("out_bytes", 4000),
            ("refused_port", 2),
        ]),
        counters: BTreeMap::from([("TcpRetransSegs", 3), ("UdpRcvbufErrors", 5), ("TcpInSegs", 70)]),
        sockets: vec![
            SocketReading { rx_queue: Some(123), tcp: tcp(485), ..socket(None) },
            SocketReading { tx_queue: Some(4567), tcp: tcp(80), ..socket(None) },
            socket(Some("the peer is on this host")),
        ],
        claims: Vec::new(),
    }
}

fn interface(name: &str, reason: Option<&'static str>) -> Interface {
    Interface { name: name.into(), driver: "veth".into(), mac: String::new(), mtu: 1500, mode: "native", reason }
}

fn reading(lanes: Vec<Lane>) -> StatReading {
    let counters = BTreeMap::from([("diverted", 123_456), ("passed", 5), ("capture_lost", 0)]);
    StatReading {
        host: Host { interfaces: vec![interface("eth0", None)], counters },
        lanes,
        incomplete: false,
        of_all_users: true,
    }
}

/// A snapshot with all parts.
pub(crate) fn snapshot() -> Snapshot {
    Snapshot { clock: Ok(report()), service: Ok(reading(vec![lane("daq-consumer", 3)])), testbed: Ok(watched()) }
}

/// The messages have been sent, and the clock is measured.
pub(crate) fn clock_measured() -> Snapshot {
    let mut testbed = watched();
    let name = "sync every 1 s".to_owned();
    testbed.shown.clock = Some(Moment { row: 1, rows: 2, name, passed_s: 3.2, whole_s: 7.0 });
    Snapshot { testbed: Ok(testbed), ..snapshot() }
}

/// A snapshot with no part available.
pub(crate) fn nothing() -> Snapshot {
    let service = std::io::Error::from_raw_os_error(2);
    Snapshot {
        clock: tickwire_commands::clock::ask(std::path::Path::new("/nonexistent/clock"))
            .map_err(|error| error.to_string()),
        service: Err(crate::client::why_not(std::path::Path::new("/nonexistent/service.sock"), &service)),
        testbed: Err("no testbed runs: start one with `tickwire testbed run`, as this user or as root".into()),
    }
}

/// A snapshot with all parts, in which nothing happens.
pub(crate) fn idle() -> Snapshot {
    let silent = SourceReport { standing: "silent".into(), reach: 0, last_s: None, ..report().sources.remove(0) };
    let clock = Report {
        utc_ns: None,
        bound_ns: None,
        error_ns: None,
        status: vec!["unknown".into()],
        sources: vec![silent],
        ..report()
    };
    let mut service = StatReading { of_all_users: false, ..reading(Vec::new()) };
    service.host.interfaces = vec![interface("eth9", Some("its driver has no XDP"))];
    let mut testbed = watched();
    (testbed.shown.live, testbed.shown.step) = (None, None);
    Snapshot { clock: Ok(clock), service: Ok(service), testbed: Ok(testbed) }
}

/// Every text has escape sequences that a terminal would obey, and every figure is extreme.
pub(crate) fn hostile() -> Snapshot {
    const NAME: &str = "\x1b[2J\u{202e}\"\\\n日本";
    let mut clock = report();
    clock.status = vec![NAME.into(), "disrupted".into()];
    (clock.utc_ns, clock.bound_ns, clock.error_ns) = (Some(i64::MAX), Some(u64::MAX), Some(u64::MAX));
    let source = &mut clock.sources[0];
    (source.name, source.poll_s, source.offset_ns) = (NAME.into(), 1e300, Some(f64::MIN));
    let name = format!("{NAME}, too");
    clock.sources.push(SourceReport { standing: "silent".into(), name, ..SourceReport::default() });
    let mut lane = lane(NAME, u32::MAX);
    lane.sockets.push(socket(Some(NAME)));
    lane.sockets.push(SocketReading { rx_queue: Some(u32::MAX), tx_queue: Some(u32::MAX), ..socket(None) });
    lane.counters.values_mut().for_each(|value| *value = u64::MAX);
    lane.guard.values_mut().for_each(|value| *value = u64::MAX);
    let mut service = reading(vec![lane]);
    service.host.interfaces = vec![interface(NAME, None)];
    let mut testbed = watched();
    testbed.shown.pattern = NAME.into();
    testbed.shown.clock =
        Some(Moment { row: usize::MAX, rows: 0, name: NAME.into(), passed_s: f64::MAX, whole_s: f64::MAX });
    testbed.shown.streams.truncate(10);
    testbed.shown.streams[0].deadline_ms = f64::MAX;
    if let Some(live) = &mut testbed.shown.live {
        (live.elapsed_s, live.duration_s) = (f64::MAX, f64::MAX);
        for stream in &mut live.streams {
            let most = u64::MAX;
            (stream.received, stream.sent, stream.late) = (most, most, most);
            (stream.worst_ns, stream.worst_ever_ns, stream.deadline_ns) = (most, most, 0);
        }
    }
    (testbed.age, testbed.others) = (Duration::MAX, usize::MAX);
    Snapshot { clock: Ok(clock), service: Ok(service), testbed: Ok(testbed) }
}
