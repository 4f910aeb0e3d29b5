//! The structures of the driver's calls, as a program of 64 bits has them.

use super::driver::{RingKind, SocketRole};
use super::rule_record::RuleRecord;
use super::xsk_ring::RingLayout;

/// The device of all objects. Drivers after 1.3 have one more for each type, but keep this one.
pub const DEVICE: &str = r"\Device\xdp";

/// The name of the extended attribute with which objects are made.
pub const OPEN_PACKET_NAME: &[u8; 17] = b"XdpOpenPacket000\0";

/// The version of the interface that is asked for (`XDP_API_VERSION_3`).
const API_VERSION: u32 = 3;

/// The type of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ObjectType {
    /// A program of rules.
    Program = 0,
    /// A socket.
    Socket = 1,
}

/// `CTL_CODE(FILE_DEVICE_NETWORK, function, method, FILE_WRITE_ACCESS)`.
const fn control_code(function: u32, method: u32) -> u32 {
    const FILE_DEVICE_NETWORK: u32 = 0x12;
    const FILE_WRITE_ACCESS: u32 = 2;
    FILE_DEVICE_NETWORK << 16 | FILE_WRITE_ACCESS << 14 | function << 2 | method
}

const METHOD_BUFFERED: u32 = 0;
const METHOD_NEITHER: u32 = 3;

/// `IOCTL_XSK_...`.
pub const BIND: u32 = control_code(0, METHOD_BUFFERED);
/// See [`BIND`].
pub const ACTIVATE: u32 = control_code(1, METHOD_BUFFERED);
/// See [`BIND`].
pub const GET_OPTION: u32 = control_code(2, METHOD_BUFFERED);
/// See [`BIND`].
pub const SET_OPTION: u32 = control_code(3, METHOD_BUFFERED);
/// See [`BIND`]. The call returns when it is done.
pub const NOTIFY: u32 = control_code(4, METHOD_NEITHER);
/// See [`BIND`]. The call is done when the socket has received something.
pub const NOTIFY_LATER: u32 = control_code(5, METHOD_NEITHER);

/// `XSK_SOCKOPT_UMEM_REG`.
pub const OPTION_MEMORY: u32 = 1;
/// `XSK_SOCKOPT_RING_INFO`.
pub const OPTION_RINGS: u32 = 6;
/// `XSK_SOCKOPT_STATISTICS`.
pub const OPTION_STATISTICS: u32 = 7;
/// `XSK_SOCKOPT_TX_HOOK_ID`.
pub const OPTION_TRANSMIT_HOOK: u32 = 9;

/// `XSK_SOCKOPT_..._RING_SIZE`.
#[must_use]
pub const fn size_option(ring: RingKind) -> u32 {
    match ring {
        RingKind::Receive => 2,
        RingKind::Fill => 3,
        RingKind::Transmit => 4,
        RingKind::Completion => 5,
    }
}

/// `XSK_SOCKOPT_..._ERROR`.
#[must_use]
pub const fn error_option(ring: RingKind) -> u32 {
    match ring {
        RingKind::Receive => 10,
        RingKind::Fill => 11,
        RingKind::Transmit => 12,
        RingKind::Completion => 13,
    }
}

/// `XSK_NOTIFY_FLAG_POKE_RX`, `..._TX`, `XSK_NOTIFY_FLAG_WAIT_RX`.
pub const POKE_RECEIVE: u32 = 1;
/// See [`POKE_RECEIVE`].
pub const POKE_TRANSMIT: u32 = 2;
/// See [`POKE_RECEIVE`].
pub const WAIT_RECEIVE: u32 = 4;

/// A point of the packets' way (`XDP_HOOK_ID`): layer, direction, and whether it looks at packets
/// or puts some in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct HookId {
    layer: u32,
    direction: u32,
    sublayer: u32,
}

impl HookId {
    /// What the network card has received.
    pub const INSPECT_RECEIVED: Self = Self { layer: 0, direction: 0, sublayer: 0 };
    /// Where packets enter the kernel as if the network card had received them.
    pub const INJECT_RECEIVED: Self = Self { layer: 0, direction: 0, sublayer: 1 };
}

/// `XSK_BIND_IN`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct BindInput {
    interface: u32,
    queue: u32,
    flags: u32,
}

impl BindInput {
    /// Binds a socket to a queue.
    #[must_use]
    pub const fn new(interface: u32, queue: u32, role: SocketRole) -> Self {
        let flags = match role {
            SocketRole::Receive => 1,
            SocketRole::Transmit | SocketRole::GiveBack => 2,
        };
        Self { interface, queue, flags }
    }
}

/// `XSK_SET_SOCKOPT_IN`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SetOptionInput<T> {
    /// Which option.
    pub option: u32,
    /// Bytes of its value.
    pub length: u32,
    /// Its value.
    pub value: *const T,
}

/// `XSK_NOTIFY_IN`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct NotifyInput {
    /// What is to be done.
    pub flags: u32,
    /// For so long is waited, in milliseconds.
    pub timeout_ms: u32,
}

/// `XSK_UMEM_REG`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct MemoryRegistration {
    /// Its bytes.
    pub size: u64,
    /// Bytes of a chunk.
    pub chunk: u32,
    /// Bytes that are left free at the beginning of each chunk.
    pub headroom: u32,
    /// Where it begins.
    pub address: *const u8,
}

/// `XSK_RING_INFO`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RingInfo {
    /// Where the ring begins.
    pub base: *mut u8,
    elements: u32,
    producer: u32,
    consumer: u32,
    flags: u32,
    size: u32,
    stride: u32,
    reserved: u32,
}

impl RingInfo {
    /// No ring.
    pub const NONE: Self = Self {
        base: std::ptr::null_mut(),
        elements: 0,
        producer: 0,
        consumer: 0,
        flags: 0,
        size: 0,
        stride: 0,
        reserved: 0,
    };

    /// Where its parts are.
    #[must_use]
    pub const fn layout(&self) -> RingLayout {
        let Self { elements, producer, consumer, flags, size, stride, .. } = *self;
        RingLayout { elements, producer, consumer, flags, size, stride }
    }
}

/// `XSK_RING_INFO_SET`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct RingInfoSet {
    fill: RingInfo,
    completion: RingInfo,
    receive: RingInfo,
    transmit: RingInfo,
}

impl RingInfoSet {
    /// No rings.
    pub const NONE: Self =
        Self { fill: RingInfo::NONE, completion: RingInfo::NONE, receive: RingInfo::NONE, transmit: RingInfo::NONE };

    /// One of them.
    #[must_use]
    pub const fn ring(&self, ring: RingKind) -> RingInfo {
        match ring {
            RingKind::Fill => self.fill,
            RingKind::Completion => self.completion,
            RingKind::Receive => self.receive,
            RingKind::Transmit => self.transmit,
        }
    }
}

/// The extended attribute with which an object is made (`XDP_FILE_FULL_EA_INFORMATION`, then name
/// and value).
#[must_use]
pub fn open_attribute(object: ObjectType, parameters: &[u8]) -> Vec<u8> {
    /// Bytes of the structure with the first byte of the name, and before that.
    const WITH_NAME: usize = 12;
    let value = 12 + parameters.len();
    let mut bytes = vec![0, 0, 0, 0, 0, OPEN_PACKET_NAME.len() as u8 - 1];
    bytes.extend((value as u16).to_ne_bytes());
    bytes.extend(OPEN_PACKET_NAME);
    // Major and minor version of the packet.
    bytes.extend([1_u16, 0].map(u16::to_ne_bytes).concat());
    bytes.extend([API_VERSION, object as u32].map(u32::to_ne_bytes).concat());
    bytes.extend(parameters);
    bytes.resize(WITH_NAME + OPEN_PACKET_NAME.len() + value, 0);
    bytes
}

/// What follows in the attribute of a program (`XDP_PROGRAM_OPEN`).
#[must_use]
pub fn program_parameters(interface: u32, queue: u32, rules: &[RuleRecord]) -> Vec<u8> {
    let HookId { layer, direction, sublayer } = HookId::INSPECT_RECEIVED;
    // No flags, and a gap before the pointer.
    let words = [interface, layer, direction, sublayer, queue, 0, rules.len() as u32, 0];
    let mut bytes = words.map(u32::to_ne_bytes).concat();
    bytes.extend((rules.as_ptr().addr() as u64).to_ne_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::super::driver::{SocketStatistics, XdpRule};
    use super::super::port_sets::PortSets;
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn structures_are_as_long_as_those_of_the_drivers_header() {
        assert_eq!((size_of::<BindInput>(), size_of::<NotifyInput>(), size_of::<HookId>()), (12, 8, 12));
        assert_eq!((size_of::<SetOptionInput<u8>>(), size_of::<MemoryRegistration>()), (16, 24));
        assert_eq!((size_of::<RingInfo>(), size_of::<RingInfoSet>(), size_of::<SocketStatistics>()), (40, 160, 32));
        assert_eq!(offset_of!(RingInfo, elements), 8);
        assert_eq!(offset_of!(RingInfoSet, receive), 80);
    }

    #[test]
    fn codes_are_those_of_the_drivers_header() {
        assert_eq!((BIND, ACTIVATE, NOTIFY, NOTIFY_LATER), (0x12_8000, 0x12_8004, 0x12_8013, 0x12_8017));
        assert_eq!((GET_OPTION, SET_OPTION), (0x12_8008, 0x12_800c));
        let options = [RingKind::Receive, RingKind::Fill, RingKind::Transmit, RingKind::Completion];
        assert_eq!(options.map(size_option), [2, 3, 4, 5]);
        assert_eq!(options.map(error_option), [10, 11, 12, 13]);
    }

    #[test]
    fn an_attribute_has_name_version_type_and_parameters() {
        let bytes = open_attribute(ObjectType::Socket, &[]);
        assert_eq!(bytes.len(), 12 + 17 + 12);
        assert_eq!(bytes[..8], [0, 0, 0, 0, 0, 16, 12, 0]);
        assert_eq!(&bytes[8..25], b"XdpOpenPacket000\0");
        assert_eq!(bytes[25..37], [1, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0]);
        let rules = [RuleRecord::new(XdpRule::UdpPorts, &PortSets::default(), 1)];
        let parameters = program_parameters(7, 3, &rules);
        assert_eq!(parameters.len(), 40);
        assert_eq!(parameters[..4], 7_u32.to_ne_bytes());
        assert_eq!((parameters[16], parameters[24]), (3, 1));
        assert_eq!(parameters[32..], (rules.as_ptr().addr() as u64).to_ne_bytes());
        let bytes = open_attribute(ObjectType::Program, &parameters);
        assert_eq!((bytes.len(), bytes[6], bytes[33]), (12 + 17 + 52, 52, 0));
    }
}
