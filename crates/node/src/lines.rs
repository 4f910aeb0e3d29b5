//! Orders and reports as JSON lines of bounded length.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, BufRead, Read, Write};
use thiserror::Error;

/// Why a line is rejected.
#[derive(Debug, Error)]
pub enum LineError {
    /// It exceeds the greatest length.
    #[error("a line is longer than {0} bytes")]
    Long(u64),
    /// It is not a valid message.
    #[error("{0}")]
    Meaning(serde_json::Error),
    /// The system's reason.
    #[error("{0}")]
    Read(io::Error),
}

/// Reads and parses the next line; none at the end. An unterminated last line is incomplete, and
/// ignored.
///
/// # Errors
/// It is longer than `longest` bytes, cannot be parsed, or cannot be read.
pub fn read<T: DeserializeOwned>(input: &mut impl BufRead, longest: u64) -> Result<Option<T>, LineError> {
    let mut line = Vec::new();
    input.take(longest.saturating_add(1)).read_until(b'\n', &mut line).map_err(LineError::Read)?;
    match line.pop() {
        Some(b'\n') => serde_json::from_slice(&line).map(Some).map_err(LineError::Meaning),
        Some(_) if line.len() as u64 >= longest => Err(LineError::Long(longest)),
        _ => Ok(None),
    }
}

/// Writes one line, and flushes it.
///
/// # Errors
/// The system's reason.
pub fn write<T: Serialize>(output: &mut impl Write, what: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    output.write_all(&line)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{NodeReport, Order};

    #[test]
    fn what_is_written_is_read() {
        let mut line = Vec::new();
        write(&mut line, &Order::Finish { sent: vec![1, u64::MAX] }).unwrap();
        write(&mut line, &Order::Stop).unwrap();
        let mut input = line.as_slice();
        assert!(matches!(read(&mut input, 100), Ok(Some(Order::Finish { sent })) if sent == [1, u64::MAX]));
        assert!(matches!(read(&mut input, 100), Ok(Some(Order::Stop))));
        assert!(matches!(read::<Order>(&mut input, 100), Ok(None)));
    }

    #[test]
    fn lines_have_a_greatest_length() {
        let line = b"\"stop\"\n";
        assert!(matches!(read(&mut line.as_slice(), 6), Ok(Some(Order::Stop))));
        assert!(matches!(read::<Order>(&mut line.as_slice(), 5), Err(LineError::Long(5))));
        let endless = io::repeat(b'{');
        assert!(matches!(read::<Order>(&mut io::BufReader::new(endless), 1000), Err(LineError::Long(1000))));
    }

    #[test]
    fn what_is_not_all_there_was_not_said() {
        assert!(matches!(read::<Order>(&mut b"\"stop\"".as_slice(), 100), Ok(None)));
    }

    #[test]
    fn what_means_nothing_is_an_error() {
        for line in ["\n", "{}\n", "nonsense\n", "\"go\"\n", "{\"finish\":{\"sent\":[-1]}}\n", "\u{0}\n"] {
            assert!(matches!(read::<Order>(&mut line.as_bytes(), 100), Err(LineError::Meaning(_))), "{line:?}");
        }
        assert!(matches!(read::<NodeReport>(&mut b"\xff\n".as_slice(), 100), Err(LineError::Meaning(_))));
    }
}
