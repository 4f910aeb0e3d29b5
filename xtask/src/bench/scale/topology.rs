//! The hosts that the rows run on: pairs with a service on each host, and pairs that never had a
//! service, on cables with one queue and with two.

use crate::bench::harness::host_pairs::{Ends, HostPairs, PORT, TIMEOUT, at, program, start_client, start_server};
use crate::bench::harness::{Figures, median};
use crate::traffic;
use anyhow::{Context, Result, bail};
use std::cell::Cell;
use tickwire_bench::latency::Latency;
use tickwire_bench::many::{ExchangeFigures, Opened};
use tickwire_bench::rate::RateFigures;
use tickwire_lab::{LabHost, Process, Service};

/// The cable between the hosts of a row.
#[derive(Clone, Copy, Debug)]
pub(super) enum Cable {
    OneQueue,
    TwoQueues,
}

/// Connections of a client, and how many of them carry messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) connections: u32,
    pub(super) active: u32,
}

/// The result of one measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Measured {
    /// The rate per second in the row's unit, of all programs together.
    pub(super) rate: f64,
    /// For two equal programs: the rate of the slower over that of the faster.
    pub(super) share: Option<f64>,
    /// From a message to its answer.
    pub(super) latency: Option<Latency>,
    /// Packets for a message and its answer, including acknowledgements.
    pub(super) packets: Option<f64>,
}

impl Figures for Measured {
    type Median = Self;

    fn of_rounds(rounds: &[Self]) -> Option<Self> {
        let latencies: Vec<Latency> = rounds.iter().filter_map(|round| round.latency).collect();
        Some(Self {
            rate: median(rounds.iter().map(|round| round.rate))?,
            share: median(rounds.iter().filter_map(|round| round.share)),
            latency: Latency::of_rounds(&latencies),
            packets: median(rounds.iter().filter_map(|round| round.packets)),
        })
    }
}

/// The testbed of all rows.
pub(super) struct Topology {
    pub(super) one_queue: HostPairs,
    two_queues: HostPairs,
    lane_bytes: Cell<u64>,
    messages: u32,
    seconds: u32,
}

/// `[lane] tcp` of the services: the rows need more than the default.
pub(super) const LANE_CONNECTIONS: u32 = 12_288;

const OTHER_PORT: u16 = 5301;
/// Messages in flight at a time, however many connections there are.
const PARALLEL: &str = "10";
/// The threads of a multithreaded program.
const THREADS: &str = "16";

/// The load while messages are measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    None,
    /// Two other programs, in lanes of their own if they have any, stream on the same processors.
    Others,
    /// Another thread of the program itself streams.
    Own,
}

impl Topology {
    pub(super) fn new(messages: u32, seconds: u32, attach: &str) -> Result<Self> {
        let config = format!("[lane]\ntcp = {LANE_CONNECTIONS}\n");
        let (one_queue, two_queues) = (HostPairs::new(1, attach, &config)?, HostPairs::new(2, attach, &config)?);
        Ok(Self { one_queue, two_queues, lane_bytes: Cell::new(0), messages, seconds })
    }

    /// The memory of the largest lane that was seen, in bytes; 0 if there was none.
    pub(super) fn lane_bytes(&self) -> u64 {
        self.lane_bytes.get()
    }

    /// Messages over some of many connections.
    pub(super) fn exchange(&self, cable: Cable, ends: Ends, load: Load) -> Result<Measured> {
        let pairs = match cable {
            Cable::OneQueue => &self.one_queue,
            Cable::TwoQueues => &self.two_queues,
        };
        let pair = pairs.pair(ends);
        let (program, address) = (program("connections")?, at(pair, PORT));
        let before = if ends.ours()[1] { 0 } else { kernel_packets(&pair.b)? };
        let mut server = start_server(pair, ends, PORT, &[&program, "serve", &address])?;
        let [connections, active] = [load.connections, load.active].map(|number| number.to_string());
        let (count, warm_up) = (self.messages.to_string(), (self.messages / 5).to_string());
        let mut client = vec![&*program, "hold", &address, "--connections", &connections, "--active", &active];
        client.extend(["--count", &count, "--warmup", &warm_up, "--parallel", PARALLEL, "--stay"]);
        let mut client = traffic::proven(pairs.witnesses(ends), self.messages.into(), || {
            let mut client = start_client(pair, ends, &client)?;
            client.wait_for("}\n", TIMEOUT)?;
            Ok(client)
        })?;
        let after =
            if ends.ours()[1] { lane_packets(&pairs.services[1], server.id())? } else { kernel_packets(&pair.b)? };
        self.note_lanes(pairs)?;
        server.kill();
        client.kill();
        let exchange: ExchangeFigures =
            serde_json::from_str(client.stdout().trim()).context("figures of the client")?;
        // A connection opens with three packets (RFC 9293 §3.5), and none has ended yet.
        let of_messages = after.saturating_sub(before).saturating_sub(3 * u64::from(load.connections));
        Ok(Measured {
            rate: exchange.per_second,
            share: None,
            latency: Some(exchange.latency),
            packets: Some(of_messages as f64 / exchange.answered.max(1) as f64),
        })
    }

    /// How quickly connections open.
    pub(super) fn open(&self, ends: Ends) -> Result<Measured> {
        let seconds = self.seconds.to_string();
        let opened: Opened = self.one_queue.figures(
            ends,
            "connections",
            ["greet", "open"],
            &["--seconds", &seconds],
            traffic::FEWEST,
        )?;
        Ok(Measured { rate: opened.per_second, share: None, latency: None, packets: None })
    }

    /// Streams of `programs` programs at a time, each to a program of its own.
    pub(super) fn streams(&self, ends: Ends, programs: u16) -> Result<Measured> {
        let (pairs, program) = (&self.one_queue, program("pingpong")?);
        let pair = pairs.pair(ends);
        let seconds = self.seconds.to_string();
        let printed = traffic::proven(pairs.witnesses(ends), traffic::FEWEST, || {
            let ports: Vec<u16> = (0..programs).map(|number| PORT + number).collect();
            let sink = |&port: &u16| start_server(pair, ends, port, &[&program, "sink", &at(pair, port)]);
            let mut sinks = ports.iter().map(sink).collect::<Result<Vec<_>>>()?;
            let source =
                |&port: &u16| start_client(pair, ends, &[&program, "source", &at(pair, port), "--seconds", &seconds]);
            let mut sources = ports.iter().map(source).collect::<Result<Vec<_>>>()?;
            sources.iter_mut().try_for_each(|source| source.success(TIMEOUT).map(drop))?;
            sinks.iter_mut().map(|sink| sink.success(TIMEOUT)).collect::<Result<Vec<_>>>()
        })?;
        let rates = printed.iter().map(|line| {
            Ok(serde_json::from_str::<RateFigures>(line.trim()).context("figures of a sink")?.bits_per_second)
        });
        let mut rates: Vec<f64> = rates.collect::<Result<_>>()?;
        rates.sort_by(f64::total_cmp);
        let (slowest, fastest) = rates.first().zip(rates.last()).context("no stream")?;
        let share = (programs > 1).then(|| slowest / fastest.max(1.0));
        Ok(Measured { rate: rates.iter().sum::<f64>() / 1e9, share, latency: None, packets: None })
    }

    /// Messages one at a time, alone or beside a stream.
    pub(super) fn ping_pong(&self, ends: Ends, stream: Stream) -> Result<Measured> {
        let (pairs, program) = (&self.one_queue, program("pingpong")?);
        let pair = pairs.pair(ends);
        let address = at(pair, PORT);
        let mut server = start_server(pair, ends, PORT, &[&program, "server", "tcp", &address])?;
        // Fewer than in other rows: beside a stream a message waits for the processor.
        let trips = (self.messages / 10).to_string();
        let sink = at(pair, OTHER_PORT);
        let mut client = vec![&*program, "client", "tcp", &address, "--count", &trips];
        if stream == Stream::Own {
            client.extend(["--stream", &sink]);
        }
        let printed = traffic::proven(pairs.witnesses(ends), (self.messages / 10).into(), || {
            let mut others = Vec::new();
            if stream != Stream::None {
                others.push(start_server(pair, ends, OTHER_PORT, &[&program, "sink", &sink])?);
            }
            if stream == Stream::Others {
                let forever = TIMEOUT.as_secs().to_string();
                others.push(start_client(pair, ends, &[&program, "source", &sink, "--seconds", &forever])?);
            }
            let printed = start_client(pair, ends, &client)?.success(TIMEOUT)?;
            if stream == Stream::Own {
                // The sink ends when its stream does.
                others.pop().map(|mut sink| sink.success(TIMEOUT)).transpose()?;
            }
            if !others.iter_mut().map(Process::is_running).collect::<Result<Vec<_>>>()?.iter().all(|&runs| runs) {
                bail!("the stream ended before the messages did");
            }
            Ok(printed)
        })?;
        server.kill();
        let latency: Latency = serde_json::from_str(printed.trim()).context("figures of the ping-pong client")?;
        // One message at a time: the rate follows from the median.
        Ok(Measured { rate: 1e9 / latency.p50_ns as f64, share: None, latency: Some(latency), packets: None })
    }

    /// Messages of many threads, each of which sends one at a time on a connection of its own.
    pub(super) fn threads(&self, ends: Ends) -> Result<Measured> {
        let count = self.messages.to_string();
        let options = ["--threads", THREADS, "--count", &count];
        let exchange: ExchangeFigures =
            self.one_queue.figures(ends, "threads", ["serve", "exchange"], &options, self.messages.into())?;
        Ok(Measured { rate: exchange.per_second, share: None, latency: Some(exchange.latency), packets: None })
    }

    /// Records the memory of the largest lane. The server still has its lane.
    fn note_lanes(&self, pairs: &HostPairs) -> Result<()> {
        let stat = pairs.services[1].stat()?;
        let lanes = stat.all_lanes();
        let bytes = lanes.iter().filter_map(|lane| lane["memory_bytes"].as_u64()).max().unwrap_or(0);
        self.lane_bytes.set(self.lane_bytes.get().max(bytes));
        Ok(())
    }
}

/// IPv4 packets that the lane of a process has received and sent.
fn lane_packets(service: &Service, process: u32) -> Result<u64> {
    let stat = service.stat()?;
    let lanes = stat.lanes_of(process);
    let counters = &lanes.first().context("the server has no lane")?["counters"];
    let number = |name: &str| counters[name].as_u64().with_context(|| format!("the lane does not count {name}"));
    Ok(number("IpInReceives")? + number("IpOutRequests")?)
}

/// IPv4 packets that a host's kernel has received and sent, from `/proc/net/snmp`, which has a line
/// of names before a line of numbers.
fn kernel_packets(host: &LabHost) -> Result<u64> {
    let text = host.run(&["cat", "/proc/net/snmp"])?;
    let mut lines = text.lines().filter(|line| line.starts_with("Ip: "));
    let (names, numbers) = lines.next().zip(lines.next()).context("no line of IP in /proc/net/snmp")?;
    let figures = names.split_whitespace().zip(numbers.split_whitespace());
    let wanted = figures.filter(|(name, _)| ["InReceives", "OutRequests"].contains(name));
    let found = wanted.map(|(_, number)| Ok(number.parse::<u64>()?)).collect::<Result<Vec<_>>>()?;
    if found.len() != 2 {
        bail!("/proc/net/snmp counts no packets");
    }
    Ok(found.iter().sum())
}
