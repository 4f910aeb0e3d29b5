//! `tickwire service`.

use super::shared::{Config, Socket};
use clap::{Args, ValueEnum};

/// Run the service that diverts packets and hands out lanes (as root).
///
/// It runs in the foreground, attaches its divert program to the interfaces, listens for programs
/// that want a lane, and logs to standard error. SIGTERM or SIGINT ends it cleanly: programs that
/// run on lanes then go on with the kernel, and their established connections, too; a connection
/// that several processes share ends with an error. Command line settings win over the
/// configuration file. Needs root (or CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF, CAP_PERFMON and
/// CAP_SYS_ADMIN; CAP_SYS_RESOURCE, too, if it is to grant real-time priorities).
#[derive(Debug, Args)]
#[command(after_long_help = include_str!("../manual/service.txt"))]
pub(crate) struct Service {
    /// Where the configuration is.
    #[command(flatten)]
    pub(crate) config: Config,

    /// Accelerate this interface; may be given several times [default: every physical interface]
    #[arg(long = "interface", value_name = "IF")]
    pub(crate) interfaces: Vec<String>,

    /// Where to listen.
    #[command(flatten)]
    pub(crate) socket: Socket,

    /// The socket's mode, in octal: it decides which users may be accelerated [default: 660 with a
    /// group, 600 without]
    #[arg(long, value_name = "MODE", value_parser = octal)]
    pub(crate) socket_mode: Option<u32>,

    /// The socket's group [default: `tickwire`, if there is such a group]
    #[arg(long, value_name = "GROUP")]
    pub(crate) socket_group: Option<String>,

    /// How the divert program is attached to the interfaces [default: what disturbs others least
    /// with each driver]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) attach: Option<AttachMode>,

    /// No frame with a VLAN tag arrives at this interface, so XDP may run there although the device
    /// hides tags; may be given several times
    #[arg(long, value_name = "IF")]
    pub(crate) untagged: Vec<String>,
}

/// How the divert program is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AttachMode {
    /// What is best for the driver without disturbing others
    Auto,
    /// XDP in the driver: the fastest, where the driver has it
    Native,
    /// XDP after the driver: every driver
    Generic,
    /// A traffic control filter: every driver, disturbs others least
    Tc,
}

fn octal(text: &str) -> Result<u32, String> {
    match u32::from_str_radix(text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(mode),
        _ => Err("expected an octal mode of three digits, for example 660".to_owned()),
    }
}
