//! A message and its handle values as one message of the pipe: how many handles, the message, then
//! each value in 8 bytes (little endian). It has no length of its own: the pipe keeps messages
//! apart.

use tickwire_lane::control::{MAX_DESCRIPTORS, MAX_MESSAGE, MAX_REQUEST, MalformedMessage, MessageTo};

const VALUE: usize = size_of::<u64>();

/// The longest frame.
pub(super) const MAX_FRAME: usize = 1 + MAX_MESSAGE + VALUE * MAX_DESCRIPTORS;

/// The longest frame from a client.
pub(super) const MAX_REQUEST_FRAME: usize = 1 + MAX_REQUEST + VALUE * MAX_DESCRIPTORS;

/// What the service says first, in the place of a message. One handle comes with it.
const GREETING: &[u8] = b"Tickwire greeting 1";

/// Puts a message and its handle values together. `None` if there are too many of these.
pub(super) fn frame(message: &impl MessageTo, number: u32, values: &[u64]) -> Option<Vec<u8>> {
    let mut frame = None;
    message.encode(number, &mut |bytes| frame = joined(bytes, values));
    frame
}

/// The greeting, with the value of its event.
pub(super) fn greeting(event: u64) -> Vec<u8> {
    joined(GREETING, &[event]).unwrap_or_default()
}

fn joined(message: &[u8], values: &[u64]) -> Option<Vec<u8>> {
    let count = u8::try_from(values.len()).ok().filter(|_| values.len() <= MAX_DESCRIPTORS)?;
    let mut frame = Vec::with_capacity(1 + message.len() + VALUE * values.len());
    frame.push(count);
    frame.extend_from_slice(message);
    frame.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    (frame.len() <= MAX_FRAME).then_some(frame)
}

/// A frame that came.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parts<'a> {
    message: &'a [u8],
    values: [u64; MAX_DESCRIPTORS],
    count: usize,
}

impl<'a> Parts<'a> {
    /// Takes a frame apart.
    pub(super) fn new(frame: &'a [u8]) -> Result<Self, MalformedMessage> {
        let (&count, rest) = frame.split_first().ok_or(MalformedMessage::Length)?;
        let count = usize::from(count);
        if count > MAX_DESCRIPTORS {
            return Err(MalformedMessage::Descriptors(count));
        }
        let end = rest.len().checked_sub(VALUE * count).ok_or(MalformedMessage::Length)?;
        let (message, bytes) = rest.split_at(end);
        let mut values = [0; MAX_DESCRIPTORS];
        let (chunks, _) = bytes.as_chunks::<VALUE>();
        for (value, chunk) in values.iter_mut().zip(chunks) {
            *value = u64::from_le_bytes(*chunk);
        }
        Ok(Self { message, values, count })
    }

    /// The handle values.
    pub(super) fn values(&self) -> &[u64] {
        &self.values[..self.count]
    }

    /// The message: its number and itself.
    pub(super) fn decode<M: MessageTo>(&self) -> Result<(u32, M), MalformedMessage> {
        M::decode(self.message, self.count)
    }

    /// The value of the event, if it is the greeting.
    pub(super) fn greeting(&self) -> Option<u64> {
        match self.values() {
            [event] if self.message == GREETING => Some(*event),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_lane::control::{Figures, Reply, Request};

    #[test]
    fn a_message_and_its_values_go_there_and_back() {
        let values = [4, 0x1_0000_0008, u64::MAX];
        let bytes = frame(&Reply::Done, 7, &values).unwrap();
        let parts = Parts::new(&bytes).unwrap();
        assert_eq!(parts.values(), values);
        assert_eq!(parts.decode::<Reply>().unwrap_err(), MalformedMessage::Descriptors(3));
        let bytes = frame(&Request::Bulk, 8, &[]).unwrap();
        assert!(matches!(Parts::new(&bytes).unwrap().decode::<Request>(), Ok((8, Request::Bulk))));
        assert!(frame(&Reply::Done, 7, &[4; MAX_DESCRIPTORS + 1]).is_none());
        let longest = Reply::Counters { figures: Box::new(Figures::new(&[u64::MAX; Figures::MAX])) };
        assert!(frame(&longest, 1, &[4; MAX_DESCRIPTORS]).is_some_and(|bytes| bytes.len() <= MAX_FRAME));
    }

    #[test]
    fn the_greeting_is_no_message_and_no_message_is_the_greeting() {
        let bytes = greeting(0x44);
        let parts = Parts::new(&bytes).unwrap();
        assert_eq!(parts.greeting(), Some(0x44));
        assert_eq!(parts.decode::<Reply>().unwrap_err(), MalformedMessage::Magic);
        assert_eq!(Parts::new(&frame(&Reply::Capturing, 1, &[4]).unwrap()).unwrap().greeting(), None);
        assert_eq!(Parts::new(&joined(GREETING, &[]).unwrap()).unwrap().greeting(), None);
    }

    #[test]
    fn hostile_frames_are_refused() {
        assert_eq!(Parts::new(&[]), Err(MalformedMessage::Length));
        assert_eq!(Parts::new(&[1]), Err(MalformedMessage::Length));
        assert_eq!(Parts::new(&[2; 16]), Err(MalformedMessage::Length));
        assert_eq!(Parts::new(&[6; 100]), Err(MalformedMessage::Descriptors(6)));
        assert_eq!(Parts::new(&[255; 2000]), Err(MalformedMessage::Descriptors(255)));
        assert_eq!(Parts::new(&[0]).unwrap().decode::<Request>().unwrap_err(), MalformedMessage::Magic);
    }
}
