//! The records of a poll, as programs pass them to the driver (`AFD_POLL_INFO`). Input and output
//! have the same layout, and may be the same memory.

use crate::real::Handle;
use windows_sys::Win32::Foundation::NTSTATUS;

/// What comes before the sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
struct Head {
    /// In 100 ns. Negative: from now; positive: a time of the system; [`i64::MAX`]: without end.
    timeout: i64,
    count: u32,
    /// A truth value of one byte, and three bytes without meaning.
    exclusive: u32,
}

/// A socket: in the input with the bits that the program asks for, in the output with those that
/// are the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct PollRecord {
    /// The program's handle.
    pub(crate) handle: Handle,
    /// `AFD_POLL_` bits.
    pub(crate) bits: u32,
    /// Of the output: why a connection could not be established.
    pub(crate) status: NTSTATUS,
}

const HEAD: usize = size_of::<Head>();
const RECORD: usize = size_of::<PollRecord>();

/// More sockets than any program has: such a poll is left to the kernel.
const MOST: usize = 1 << 16;

/// What a program asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PollInput {
    head: Head,
    /// The sockets, in the program's order.
    pub(crate) records: Vec<PollRecord>,
}

impl PollInput {
    /// Reads the input of a call. `None`: the kernel refuses it, and is to say how.
    pub(crate) fn read(input: &[u8], output_len: usize) -> Option<Self> {
        let (head, records) = input.split_first_chunk::<HEAD>()?;
        let (words, _) = head.as_chunks::<4>();
        let word = |place: usize| u32::from_ne_bytes(words[place]);
        let timeout = i64::from_ne_bytes(*head.first_chunk()?);
        let head = Head { timeout, count: word(2), exclusive: word(3) };
        let count = usize::try_from(head.count).ok().filter(|count| (1..=MOST).contains(count))?;
        let records = records.get(..count * RECORD)?;
        if output_len < input.len() {
            return None;
        }
        Some(Self { head, records: records.as_chunks::<RECORD>().0.iter().map(PollRecord::read).collect() })
    }

    /// An input of this library's own.
    pub(super) fn own(timeout: i64, records: Vec<PollRecord>) -> Self {
        Self { head: Head { timeout, count: records.len() as u32, exclusive: 0 }, records }
    }

    /// In 100 ns, as the program has passed it.
    pub(crate) fn timeout(&self) -> i64 {
        self.head.timeout
    }

    /// Whether this poll ends an earlier one of the same socket.
    pub(crate) fn is_exclusive(&self) -> bool {
        self.head.exclusive & 0xff != 0
    }

    /// The output with these sockets.
    pub(crate) fn output(&self, found: &[PollRecord]) -> Vec<u8> {
        let Head { timeout, exclusive, .. } = self.head;
        let mut bytes = Vec::with_capacity(HEAD + found.len() * RECORD);
        bytes.extend_from_slice(&timeout.to_ne_bytes());
        bytes.extend_from_slice(&(found.len() as u32).to_ne_bytes());
        bytes.extend_from_slice(&exclusive.to_ne_bytes());
        found.iter().for_each(|record| record.write(&mut bytes));
        bytes
    }
}

impl PollRecord {
    fn read(bytes: &[u8; RECORD]) -> Self {
        let (words, _) = bytes.as_chunks::<4>();
        let (handles, _) = bytes.as_chunks::<8>();
        Self {
            handle: Handle::from_ne_bytes(handles[0]),
            bits: u32::from_ne_bytes(words[2]),
            status: NTSTATUS::from_ne_bytes(words[3]),
        }
    }

    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.handle.to_ne_bytes());
        bytes.extend_from_slice(&self.bits.to_ne_bytes());
        bytes.extend_from_slice(&self.status.to_ne_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: [PollRecord; 2] = [
        PollRecord { handle: 0x1234_5678_9abc, bits: 0x1ff, status: 0 },
        PollRecord { handle: 8, bits: 1, status: -1 },
    ];

    #[test]
    fn records_have_the_layout_of_the_driver() {
        let input = PollInput { head: Head { timeout: -10_000, count: 2, exclusive: 1 }, records: TWO.to_vec() };
        let mut bytes = Vec::new();
        for part in [&(-10_000_i64).to_le_bytes()[..], &[2, 0, 0, 0, 1, 0, 0, 0], &[0xbc, 0x9a, 0x78, 0x56]] {
            bytes.extend_from_slice(part);
        }
        bytes.extend_from_slice(&[0x34, 0x12, 0, 0, 0xff, 1, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&[8, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff]);
        assert_eq!(bytes.len(), 48);
        assert_eq!(input.output(&TWO), bytes);
        assert_eq!(PollInput::read(&bytes, 48), Some(input));
    }

    #[test]
    fn an_output_has_what_was_found_and_the_timeout_of_the_input() {
        let input = PollInput::own(i64::MAX, TWO.to_vec());
        assert_eq!(input.output(&[]).len(), 16);
        let output = PollInput::read(&input.output(&TWO[1..]), 32).unwrap();
        assert_eq!((output.timeout(), output.is_exclusive(), &output.records[..]), (i64::MAX, false, &TWO[1..]));
    }

    #[test]
    fn what_the_kernel_refuses_is_left_to_it() {
        let good = PollInput::own(0, TWO.to_vec()).output(&TWO);
        assert!(PollInput::read(&good, 48).is_some());
        // Longer than needed is no error.
        assert!(PollInput::read(&[&good[..], &[0; 5]].concat(), 53).is_some());
        for (input, output_len) in [(&good[..], 47), (&good[..47], 48), (&good[..15], 48), (&[][..], 0)] {
            assert_eq!(PollInput::read(input, output_len), None, "{} bytes, room for {output_len}", input.len());
        }
        for count in [0, 3, MOST as u32 + 1, u32::MAX] {
            let mut bad = good.clone();
            bad[8..12].copy_from_slice(&count.to_ne_bytes());
            assert_eq!(PollInput::read(&bad, 48), None, "{count} sockets");
        }
    }
}
