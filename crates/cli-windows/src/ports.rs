//! The option `--ports`: the block of ports from which programs connect.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use tickwire_service_windows::port_block;

/// The block; `None`: Windows chooses each port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PortsOption(pub(crate) Option<RangeInclusive<u16>>);

impl Default for PortsOption {
    fn default() -> Self {
        Self(Some(port_block::DEFAULT))
    }
}

impl FromStr for PortsOption {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        let ports = text.split_once('-').and_then(|(first, last)| Some(first.parse().ok()?..=last.parse().ok()?));
        match ports {
            Some(ports) if *ports.start() > 0 && ports.start() <= ports.end() => Ok(Self(Some(ports))),
            _ => Err("write it as FIRST-LAST, two ports from 1 to 65535, or `none`"),
        }
    }
}

impl fmt::Display for PortsOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(ports) => write!(f, "{}-{}", ports.start(), ports.end()),
            None => f.write_str("none"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_written_as_it_is_read() {
        for text in ["36864-38911", "1-65535", "7-7", "none"] {
            assert_eq!(text.parse::<PortsOption>().unwrap().to_string(), text);
        }
        assert_eq!(PortsOption::default().to_string(), "36864-38911");
        for wrong in ["", "7", "8-7", "0-9", "1-65536", "a-b", "None"] {
            assert!(wrong.parse::<PortsOption>().is_err(), "{wrong}");
        }
    }
}
