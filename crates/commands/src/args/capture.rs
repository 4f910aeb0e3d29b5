//! The options of `tickwire capture`. Where the service listens is the program's own.

use super::values::small;
use clap::{Args, ValueHint};
use std::path::PathBuf;

/// What is captured, and where to.
#[derive(Debug, Args)]
pub struct CaptureOptions {
    /// Write to this file; `-` is standard output
    #[arg(short = 'w', long = "write", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub write: PathBuf,

    /// Stop after so many packets
    #[arg(short, long, value_name = "N", value_parser = at_least_one)]
    pub count: Option<u64>,

    /// Keep at most so many bytes of each packet
    #[arg(short, long, value_name = "BYTES", default_value_t = 262_144, value_parser = snaplen)]
    pub snaplen: u32,

    /// Only this lane (its number, see `tickwire stat`)
    #[arg(long, value_name = "N", conflicts_with = "program", value_parser = lane)]
    pub lane: Option<u32>,

    /// Only lanes of this program (its name or process number)
    #[arg(long, value_name = "NAME|PID")]
    pub program: Option<String>,
}

fn at_least_one(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(0) => Err("expected at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(_) => Err("expected a whole number, at least 1".to_owned()),
    }
}

fn snaplen(text: &str) -> Result<u32, String> {
    small(text, 64, 262_144)
}

fn lane(text: &str) -> Result<u32, String> {
    small(text, 1, u32::MAX)
}
