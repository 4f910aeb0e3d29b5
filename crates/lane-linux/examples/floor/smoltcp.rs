//! The nearest user-mode peer: smoltcp, in process, over the same lane: no unmodified program.

use crate::raw::Raw;
use crate::topology::Host;
use anyhow::{Context, Result, ensure};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::{tcp, udp};
use smoltcp::time::Instant as SmolInstant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr, IpEndpoint};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

const PORT: u16 = 7007;
pub const CLIENT_PORT: u16 = 7008;
/// Ethernet is written here: a lane lets no ARP out, for the host knows its neighbours.
const ETHERNET: usize = 14;
const MTU: usize = 1500;
/// A stall this long ends the measurement.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Rings as smoltcp wants to see a device.
struct Rings {
    raw: Raw,
    /// The Ethernet header of what is sent.
    header: [u8; ETHERNET],
    arrived: VecDeque<Vec<u8>>,
    spare: Vec<Vec<u8>>,
}

impl Rings {
    fn take_in(&mut self) {
        let Self { raw, arrived, spare, .. } = self;
        raw.poll(|frame| {
            let mut copy = spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(frame.get(ETHERNET..).unwrap_or_default());
            arrived.push_back(copy);
        });
    }
}

struct Arrived<'d> {
    packet: Vec<u8>,
    spare: *mut Vec<Vec<u8>>,
    _device: std::marker::PhantomData<&'d mut Rings>,
}

struct Leaving<'d>(&'d mut Raw, [u8; ETHERNET]);

impl RxToken for Arrived<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        let result = f(&self.packet);
        // SAFETY: points to the `spare` of the device that made this token, which outlives it and
        // is not otherwise borrowed while a token lives: the other token of the pair borrows `raw`
        // only.
        unsafe { (*self.spare).push(self.packet) };
        result
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = [0; ETHERNET + MTU];
        let packet = &mut packet[..ETHERNET + len];
        packet[..ETHERNET].copy_from_slice(&self.1);
        let result = f(&mut packet[ETHERNET..]);
        // What the device does not take is to smoltcp a packet that is lost on the wire.
        self.0.send(packet);
        result
    }
}

impl Device for Rings {
    type RxToken<'a> = Arrived<'a>;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _: SmolInstant) -> Option<(Arrived<'_>, Leaving<'_>)> {
        if self.arrived.is_empty() {
            self.take_in();
        }
        let packet = self.arrived.pop_front()?;
        let spare = &raw mut self.spare;
        Some((Arrived { packet, spare, _device: std::marker::PhantomData }, Leaving(&mut self.raw, self.header)))
    }

    fn transmit(&mut self, _: SmolInstant) -> Option<Leaving<'_>> {
        Some(Leaving(&mut self.raw, self.header))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = MTU;
        capabilities
    }
}

/// One end.
pub struct Node {
    rings: Rings,
    interface: Interface,
    sockets: SocketSet<'static>,
    epoch: Instant,
}

impl Node {
    /// An end over the lane of a host, to a peer.
    pub fn new(host: &Host, peer: &Host, raw: Raw) -> Result<Self> {
        let mut header = [8, 0].repeat(ETHERNET / 2);
        header[..6].copy_from_slice(&peer.mac.0);
        header[6..12].copy_from_slice(&host.mac.0);
        let header = header.try_into().map_err(|_| anyhow::anyhow!("an Ethernet header"))?;
        let mut rings = Rings { raw, header, arrived: VecDeque::new(), spare: Vec::new() };
        let epoch = Instant::now();
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = u64::from(host.mac.0[5]);
        let mut interface = Interface::new(config, &mut rings, SmolInstant::from_micros(0));
        let address = IpAddress::from(host.address);
        let mut room = Ok(());
        interface
            .update_ip_addrs(|all| room = all.push(IpCidr::new(address, 24)).map_err(|_| "no room for an address"));
        room.map_err(anyhow::Error::msg)?;
        Ok(Self { rings, interface, sockets: SocketSet::new(Vec::new()), epoch })
    }

    fn turn(&mut self) {
        let now = SmolInstant::from_micros(self.epoch.elapsed().as_micros() as i64);
        self.interface.poll(now, &mut self.rings, &mut self.sockets);
    }

    fn udp(&mut self, port: u16) -> Result<SocketHandle> {
        let buffer = || udp::PacketBuffer::new(vec![udp::PacketMetadata::EMPTY; 64], vec![0; 65536]);
        let mut socket = udp::Socket::new(buffer(), buffer());
        socket.bind(port).map_err(|e| anyhow::anyhow!("bind: {e}"))?;
        Ok(self.sockets.add(socket))
    }

    fn tcp(&mut self, room: usize) -> SocketHandle {
        let buffer = || tcp::SocketBuffer::new(vec![0; room]);
        let mut socket = tcp::Socket::new(buffer(), buffer());
        socket.set_nagle_enabled(false);
        self.sockets.add(socket)
    }

    fn connect(&mut self, server: IpEndpoint, room: usize) -> Result<SocketHandle> {
        let handle = self.tcp(room);
        let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
        socket.connect(self.interface.context(), server, CLIENT_PORT).map_err(|e| anyhow::anyhow!("connect: {e}"))?;
        let begin = Instant::now();
        while !self.sockets.get::<tcp::Socket<'_>>(handle).may_send() {
            self.turn();
            ensure!(begin.elapsed() < TIMEOUT, "the connection does not open");
        }
        Ok(handle)
    }

    /// Answers UDP and TCP until told to stop; returns the bytes of a TCP stream that it was sent
    /// when `sink`.
    pub fn serve(&mut self, room: usize, sink: bool, stop: impl Fn() -> bool) -> Result<u64> {
        let udp = self.udp(PORT)?;
        let tcp = self.tcp(room);
        self.sockets.get_mut::<tcp::Socket<'_>>(tcp).listen(PORT).map_err(|e| anyhow::anyhow!("listen: {e}"))?;
        let mut message = vec![0; 65536];
        let mut bytes = 0;
        let mut turns = 0u32;
        loop {
            self.turn();
            let socket = self.sockets.get_mut::<udp::Socket<'_>>(udp);
            while let Ok((len, from)) = socket.recv_slice(&mut message) {
                socket.send_slice(&message[..len], from.endpoint).context("answering")?;
            }
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(tcp);
            if sink {
                while let Ok(n @ 1..) = socket.recv_slice(&mut message) {
                    bytes += n as u64;
                }
            } else if socket.can_recv() && socket.can_send() {
                let n = socket.recv_slice(&mut message).unwrap_or(0);
                socket.send_slice(&message[..n]).context("answering")?;
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(256) && stop() {
                return Ok(bytes);
            }
        }
    }

    /// UDP round trips in nanoseconds.
    pub fn ping_udp(&mut self, server: IpEndpoint, size: usize, times: usize) -> Result<Vec<u32>> {
        let handle = self.udp(CLIENT_PORT)?;
        let out = vec![0x5a; size];
        let mut back = vec![0; size];
        let mut all = Vec::with_capacity(times);
        let mut retries = 0;
        while all.len() < times {
            let begin = Instant::now();
            let socket = self.sockets.get_mut::<udp::Socket<'_>>(handle);
            socket.send_slice(&out, server).map_err(|e| anyhow::anyhow!("send: {e}"))?;
            loop {
                self.turn();
                if self.sockets.get_mut::<udp::Socket<'_>>(handle).recv_slice(&mut back).is_ok() {
                    all.push(begin.elapsed().as_nanos() as u32);
                    break;
                }
                // The first datagram may be dropped while the neighbour is resolved.
                if begin.elapsed() > TIMEOUT {
                    retries += 1;
                    ensure!(retries < 3, "no answer");
                    break;
                }
            }
        }
        Ok(all)
    }

    /// TCP round trips in nanoseconds.
    pub fn ping_tcp(&mut self, server: IpEndpoint, size: usize, times: usize, room: usize) -> Result<Vec<u32>> {
        let handle = self.connect(server, room)?;
        let out = vec![0x5a; size];
        let mut back = vec![0; size];
        let mut all = Vec::with_capacity(times);
        while all.len() < times {
            let begin = Instant::now();
            self.sockets
                .get_mut::<tcp::Socket<'_>>(handle)
                .send_slice(&out)
                .map_err(|e| anyhow::anyhow!("send: {e}"))?;
            let mut got = 0;
            while got < size {
                self.turn();
                got += self.sockets.get_mut::<tcp::Socket<'_>>(handle).recv_slice(&mut back).unwrap_or(0);
                ensure!(begin.elapsed() < TIMEOUT, "no answer");
            }
            all.push(begin.elapsed().as_nanos() as u32);
        }
        Ok(all)
    }

    /// Sends a TCP stream for a while.
    pub fn stream(&mut self, server: IpEndpoint, time: Duration, room: usize) -> Result<()> {
        let handle = self.connect(server, room)?;
        let out = vec![0x5a; 65536];
        let end = Instant::now() + time;
        while Instant::now() < end {
            let socket = self.sockets.get_mut::<tcp::Socket<'_>>(handle);
            if socket.can_send() {
                socket.send_slice(&out).map_err(|e| anyhow::anyhow!("send: {e}"))?;
            }
            self.turn();
        }
        Ok(())
    }
}

/// Where a host's server listens.
pub fn server(host: &Host) -> IpEndpoint {
    IpEndpoint::new(IpAddress::from(host.address), PORT)
}
