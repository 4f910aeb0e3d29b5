//! Errors of BPF programs and their maps.

use aya::EbpfError;
use aya::maps::MapError;
use aya::maps::xdp::XdpMapError;
use aya::programs::ProgramError;

/// The BPF side failed.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// The object could not be loaded.
    #[error("cannot load the BPF programs: {0}")]
    Load(#[from] EbpfError),
    /// A map refused a change.
    #[error("a BPF map refused a change: {0}")]
    Map(#[from] MapError),
    /// A device map refused a change.
    #[error("a BPF device map refused a change: {0}")]
    DeviceMap(#[from] XdpMapError),
    /// A program could not be loaded or attached.
    #[error("cannot attach a BPF program: {}", innermost(.0))]
    Program(#[from] ProgramError),
    /// The object lacks something: service and object are of different versions.
    #[error("the BPF object has no \"{0}\"")]
    Missing(&'static str),
    /// A system call beside the programs failed.
    #[error("{0}")]
    System(String),
}

impl BpfError {
    /// Whether a map had no room for another entry.
    pub(crate) fn is_full(&self) -> bool {
        matches!(self, Self::Map(MapError::SyscallError(call)) if call.io_error.raw_os_error() == Some(libc::E2BIG))
    }
}

/// The innermost cause of an error, which is the most specific.
fn innermost(error: &ProgramError) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(next) = cause.source() {
        cause = next;
    }
    format!("{error} ({cause})")
}
