//! Why a program will run on Windows' own stack, as far as that is known before it starts.

use crate::client::Client;
use std::fmt;
use std::fs::File;
use std::path::Path;
use tickwire_lane::control::{Reason, Reply, Request};
use tickwire_lane_windows::control::ConnectError;
use tickwire_launcher_windows::pe_image::{FileBytes, ImageBytes, ImageHeaders, MANAGED, OWN_MACHINE};

/// What is in the way.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// The service cannot be used.
    Service(ConnectError),
    /// The service has no driver that gives packets to lanes.
    NoDriver,
    /// The program is for a process of 32 bits.
    Narrow,
    /// The program is for another processor.
    OtherProcessor,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Service(error) => error.fmt(f),
            Self::NoDriver => f.write_str(Reason::NoDriver.text()),
            Self::Narrow => f.write_str(
                "it is a program of 32 bits, and the library is for those of 64 bits: use its 64-bit version",
            ),
            Self::OtherProcessor => {
                f.write_str("it is a program for another processor than this: use its version for this one")
            }
        }
    }
}

impl Obstacle {
    /// Looks at a program's file, and connects to the service.
    pub(super) fn find(program: &Path, pipe: &str) -> Option<Self> {
        Self::of_file(program).or_else(|| match Client::connect(pipe) {
            Ok(mut service) => has_no_driver(&mut service).then_some(Self::NoDriver),
            Err(error) => Some(Self::Service(error)),
        })
    }

    /// Whether the library is in the program all the same, and polls the kernel's sockets.
    pub(super) fn leaves_polling(&self) -> bool {
        matches!(self, Self::Service(_) | Self::NoDriver)
    }

    /// Looks at a program's file alone.
    pub(super) fn of_file(program: &Path) -> Option<Self> {
        File::open(program).ok().and_then(|file| Self::of_image(&FileBytes(file)))
    }

    /// What cannot be read is for Windows to judge, when it starts the program.
    fn of_image(image: &impl ImageBytes) -> Option<Self> {
        let headers = ImageHeaders::read(image).ok()?;
        if headers.is_wide {
            return (headers.machine != OWN_MACHINE).then_some(Self::OtherProcessor);
        }
        let managed = headers.directory(MANAGED);
        (managed.is_empty() || needs_32_bits(image, &headers)).then_some(Self::Narrow)
    }
}

fn has_no_driver(service: &mut Client) -> bool {
    let first = service.ask(&Request::ListInterfaces { after: 0 });
    matches!(first, Ok((Reply::Interface { info }, _)) if info.reason == Reason::NoDriver)
}

/// Whether a .NET program is for a process of 32 bits only. Others are of 64 bits where Windows is.
fn needs_32_bits(image: &impl ImageBytes, headers: &ImageHeaders) -> bool {
    /// Bytes of the header of .NET up to its flags, and where those are (ECMA-335, II.25.3.3).
    const BYTES: usize = 20;
    const FLAGS: usize = 16;
    const REQUIRED: u32 = 2;
    const PREFERRED: u32 = 0x2_0000;
    let mut bytes = [0; BYTES];
    let at = headers.file_offset(headers.directory(MANAGED).rva, BYTES as u32);
    let is_read = at.is_ok_and(|at| image.read_at(at, &mut bytes).is_ok());
    let flags = u32::from_le_bytes([bytes[FLAGS], bytes[FLAGS + 1], bytes[FLAGS + 2], bytes[FLAGS + 3]]);
    is_read && flags & (REQUIRED | PREFERRED) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The headers of a program: its machine, its format, and whether it is one of .NET with these
    /// flags.
    fn image(machine: u16, format: u16, managed: Option<u32>) -> Vec<u8> {
        let mut image = vec![0; 0x400];
        let mut put = |at: usize, bytes: &[u8]| image[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, b"MZ");
        put(60, &[0x80]);
        put(0x80, b"PE\0\0");
        put(0x84, &machine.to_le_bytes());
        put(0x94, &[240]);
        put(0x98, &format.to_le_bytes());
        // Bytes of the headers, in which the header of .NET is, too.
        put(0x98 + 60, &0x400_u32.to_le_bytes());
        let directories = 0x98 + if format == 0x20b { 112 } else { 96 };
        put(directories - 4, &[16]);
        if let Some(flags) = managed {
            put(directories + MANAGED * 8, &[0, 3, 0, 0, 72, 0, 0, 0]);
            put(0x300 + 16, &flags.to_le_bytes());
        }
        image
    }

    fn obstacle(machine: u16, format: u16, managed: Option<u32>) -> Option<Obstacle> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.exe");
        std::fs::write(&path, image(machine, format, managed)).unwrap();
        Obstacle::of_image(&FileBytes(File::open(path).unwrap()))
    }

    #[test]
    fn programs_of_32_bits_are_known_and_dot_net_ones_that_suit_both_are_none() {
        const I386: u16 = 0x14c;
        assert!(obstacle(OWN_MACHINE, 0x20b, None).is_none());
        assert!(matches!(obstacle(0xaa64, 0x20b, None), Some(Obstacle::OtherProcessor)));
        assert!(matches!(obstacle(I386, 0x10b, None), Some(Obstacle::Narrow)));
        assert!(obstacle(I386, 0x10b, Some(1)).is_none());
        for flags in [3, 0x2_0003] {
            assert!(matches!(obstacle(I386, 0x10b, Some(flags)), Some(Obstacle::Narrow)));
        }
    }

    #[test]
    fn a_service_that_is_away_is_an_obstacle_that_says_what_to_do() {
        let own = std::env::current_exe().unwrap();
        let found = Obstacle::find(&own, r"\\.\pipe\tickwire-no-such-service").unwrap();
        assert!(matches!(found, Obstacle::Service(ConnectError::NoService(_))), "{found}");
        assert!(found.leaves_polling() && !Obstacle::Narrow.leaves_polling());
        assert!(found.to_string().contains("start it with `tickwire service`"), "{found}");
    }
}
