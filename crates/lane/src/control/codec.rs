//! Encoding and decoding of messages: fields one after the other, no padding, the exact length and
//! nothing else.

use super::name::Name;
use super::reason::Reason;
use tickwire_stack::Limits;
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::path::{Metrics, PathInfo, PathState, Query};
use tickwire_stack::tcp::Leaving;
use zerocopy::{IntoBytes, transmute};

/// The longest message in bytes.
pub const MAX_MESSAGE: usize = 1024;

/// The longest request in bytes. A program makes requests on stacks of its own choice, which may be
/// small.
pub const MAX_REQUEST: usize = 384;

/// The most descriptors that may come with one message.
pub const MAX_DESCRIPTORS: usize = 5;

/// The version of the protocol: changed whenever a message changes. Descriptors and region have
/// versions of their own.
pub const VERSION: u16 = 8;

/// First bytes of every message. Magic and version keep this place in all versions to come.
const MAGIC: u32 = 0x5457_4331; // "TWC1"

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedMessage {
    /// It does not begin like a message.
    #[error("not a Tickwire control message")]
    Magic,
    /// The other side speaks another version.
    #[error("control protocol version {0}, but this side speaks version {VERSION}: update both")]
    Version(u16),
    /// It is shorter or longer than its kind.
    #[error("control message of a wrong length")]
    Length,
    /// There is no such kind of message in this direction.
    #[error("unknown control message {0}")]
    Kind(u16),
    /// A field holds what it cannot.
    #[error("control message with a bad {0}")]
    Field(&'static str),
    /// It came with another number of descriptors than its kind has.
    #[error("control message with {0} descriptors")]
    Descriptors(usize),
}

/// Appends fields.
pub(super) struct Writer<'a> {
    bytes: &'a mut [u8],
    len: usize,
}

impl<'a> Writer<'a> {
    /// A message of the given kind and number, without fields yet, in room for the longest one.
    pub(super) fn new(bytes: &'a mut [u8], kind: u16, number: u32) -> Self {
        let mut writer = Self { bytes, len: 0 };
        MAGIC.put(&mut writer);
        VERSION.put(&mut writer);
        kind.put(&mut writer);
        number.put(&mut writer);
        writer
    }

    /// Appends bytes. The longest message of all is tested to fit.
    fn bytes(&mut self, bytes: &[u8]) {
        self.bytes[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
    }

    /// The whole message.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Takes fields off the front.
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Reads the head of a message: its kind and number.
    pub(super) fn new(bytes: &'a [u8]) -> Result<(Self, u16, u32), MalformedMessage> {
        let mut reader = Self(bytes);
        if u32::take(&mut reader).ok() != Some(MAGIC) {
            return Err(MalformedMessage::Magic);
        }
        let version = u16::take(&mut reader)?;
        if version != VERSION {
            return Err(MalformedMessage::Version(version));
        }
        let kind = u16::take(&mut reader)?;
        let number = u32::take(&mut reader)?;
        Ok((reader, kind, number))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], MalformedMessage> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(MalformedMessage::Length)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Makes sure that nothing is left.
    pub(super) fn end(self) -> Result<(), MalformedMessage> {
        if self.0.is_empty() { Ok(()) } else { Err(MalformedMessage::Length) }
    }
}

/// Something that can be in a message.
pub(super) trait Field: Sized {
    fn put(&self, writer: &mut Writer<'_>);
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage>;
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl Field for $ty {
            fn put(&self, writer: &mut Writer<'_>) {
                writer.bytes(&self.to_ne_bytes());
            }
            fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
                reader.array().map(Self::from_ne_bytes)
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64);

impl Field for bool {
    fn put(&self, writer: &mut Writer<'_>) {
        u8::from(*self).put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        match u8::take(reader)? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(MalformedMessage::Field("flag")),
        }
    }
}

impl<const N: usize> Field for [u8; N] {
    fn put(&self, writer: &mut Writer<'_>) {
        writer.bytes(self);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        reader.array()
    }
}

impl<T: Field> Field for Box<T> {
    fn put(&self, writer: &mut Writer<'_>) {
        (**self).put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        T::take(reader).map(Self::new)
    }
}

/// Whether it is there, and then itself.
impl<T: Field> Field for Option<T> {
    fn put(&self, writer: &mut Writer<'_>) {
        self.is_some().put(writer);
        if let Some(value) = self {
            value.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        bool::take(reader)?.then(|| T::take(reader)).transpose()
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    fn put(&self, writer: &mut Writer<'_>) {
        self.0.put(writer);
        self.1.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        Ok((A::take(reader)?, B::take(reader)?))
    }
}

impl Field for Name {
    fn put(&self, writer: &mut Writer<'_>) {
        let (len, bytes) = self.to_wire();
        len.put(writer);
        bytes.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        let len = u8::take(reader)?;
        Self::from_wire(len, &reader.array()?).ok_or(MalformedMessage::Field("name"))
    }
}

impl Field for Reason {
    fn put(&self, writer: &mut Writer<'_>) {
        self.code().put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        Self::from_code(u16::take(reader)?.into()).ok_or(MalformedMessage::Field("reason"))
    }
}

impl Field for Address {
    fn put(&self, writer: &mut Writer<'_>) {
        self.0.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        reader.array().map(Self)
    }
}

impl Field for Mac {
    fn put(&self, writer: &mut Writer<'_>) {
        self.0.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        reader.array().map(Self)
    }
}

impl Field for PathState {
    fn put(&self, writer: &mut Writer<'_>) {
        (*self as u8).put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        [Self::Free, Self::Resolving, Self::Ready, Self::Unreachable, Self::Kernel]
            .get(usize::from(u8::take(reader)?))
            .copied()
            .ok_or(MalformedMessage::Field("path state"))
    }
}

/// Makes a struct a field: its own fields in the order given.
macro_rules! field_struct {
    ($ty:ty { $($name:ident),* $(,)? }) => {
        impl Field for $ty {
            fn put(&self, writer: &mut Writer<'_>) {
                $( Field::put(&self.$name, writer); )*
            }
            fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
                $( let $name = Field::take(reader)?; )*
                Ok(Self { $($name),* })
            }
        }
    };
}
pub(super) use field_struct;

field_struct!(Endpoint { address, port });
field_struct!(Query { destination, source, interface, tos });
field_struct!(Leaving {
    local,
    remote,
    interface,
    tos,
    send_una,
    in_flight,
    unsent,
    receive_next,
    unread,
    send_window,
    largest_window,
    window_seq,
    receive_window,
    peer_mss,
    shifts,
    sack,
    timestamp,
    echo,
    fin_received,
    fin_acknowledged,
});
field_struct!(Metrics { rto_min_ms, initcwnd, initrwnd, advmss, hop_limit, quick_ack });
field_struct!(PathInfo { query, source, interface, mtu, source_mac, next_hop_mac, state, metrics, chosen });

impl Field for Limits {
    fn put(&self, writer: &mut Writer<'_>) {
        writer.bytes(self.as_bytes());
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
        let limits: Self = transmute!(reader.array::<{ size_of::<Limits>() }>()?);
        if limits.valid() { Ok(limits) } else { Err(MalformedMessage::Field("limit")) }
    }
}

/// Makes an enum without values a field, by the codes given.
macro_rules! field_enum {
    ($ty:ident as $what:literal { $($name:ident = $code:literal),* $(,)? }) => {
        impl Field for $ty {
            fn put(&self, writer: &mut Writer<'_>) {
                let code: u8 = match self { $( Self::$name => $code, )* };
                code.put(writer);
            }
            fn take(reader: &mut Reader<'_>) -> Result<Self, MalformedMessage> {
                match u8::take(reader)? {
                    $( $code => Ok(Self::$name), )*
                    _ => Err(MalformedMessage::Field($what)),
                }
            }
        }
    };
}
pub(super) use field_enum;

/// Makes an enum of messages: the enum itself, and its two directions.
macro_rules! messages {
    (
        $(#[$outer:meta])* $enum:ident, $direction:literal, $longest:expr;
        $( $(#[$doc:meta])* $name:ident = $code:literal [$fds:pat] $({ $( $(#[$fdoc:meta])* $field:ident : $ty:ty ),* $(,)? })? ; )*
    ) => {
        $(#[$outer])*
        #[derive(Clone, Debug)]
        // Messages live briefly, on the stack of the thread that sends or reads them.
        #[allow(clippy::large_enum_variant)]
        pub enum $enum {
            $( $(#[$doc])* $name $({ $( $(#[$fdoc])* $field: $ty ),* })?, )*
        }

        impl MessageTo for $enum {
            fn encode(&self, number: u32, send: &mut dyn FnMut(&[u8])) {
                let kind = match self {
                    $( Self::$name { .. } => $direction | $code, )*
                };
                // One buffer for all kinds of messages: one for each would add up.
                let mut bytes = [0; $longest];
                let mut writer = Writer::new(&mut bytes, kind, number);
                match self {
                    $( Self::$name $({ $($field),* })? => { $( $( Field::put($field, &mut writer); )* )? } )*
                }
                send(writer.as_bytes());
            }

            fn decode(bytes: &[u8], descriptors: usize) -> Result<(u32, Self), MalformedMessage> {
                #[allow(unused_mut)]
                let (mut reader, kind, number) = Reader::new(bytes)?;
                let message = match kind {
                    $( k if k == ($direction | $code) => {
                        if !matches!(descriptors, $fds) {
                            return Err(MalformedMessage::Descriptors(descriptors));
                        }
                        $( $( let $field = Field::take(&mut reader)?; )* )?
                        Self::$name $({ $($field),* })?
                    } )*
                    _ => return Err(MalformedMessage::Kind(kind)),
                };
                reader.end()?;
                Ok((number, message))
            }
        }
    };
}
pub(super) use messages;
