//! A network interface's timestamping: the card's capabilities, its setting, and its link speed.
//! Reading needs no privileges, setting needs CAP_NET_ADMIN.

use libc::{hwtstamp_config, ifreq};
use nix::errno::Errno;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::os::fd::{AsRawFd, OwnedFd};

/// `ETHTOOL_GET_TS_INFO` and `ETHTOOL_GSET` (linux/ethtool.h).
const GET_TS_INFO: u32 = 0x41;
const GET_LINK: u32 = 0x01;
/// `SPEED_UNKNOWN`.
const SPEED_UNKNOWN: u32 = u32::MAX;

/// `struct ethtool_ts_info`.
#[repr(C)]
#[derive(Default)]
struct TsInfo {
    command: u32,
    so_timestamping: u32,
    phc_index: i32,
    tx_types: u32,
    tx_reserved: [u32; 3],
    rx_filters: u32,
    rx_reserved: [u32; 3],
}

/// `struct ethtool_cmd`.
#[repr(C)]
#[derive(Default)]
struct LinkSettings {
    command: u32,
    supported: u32,
    advertising: u32,
    speed_low: u16,
    duplex: u8,
    port: u8,
    phy_address: u8,
    transceiver: u8,
    autoneg: u8,
    mdio_support: u8,
    most_tx_packets: u32,
    most_rx_packets: u32,
    speed_high: u16,
    tp_mdix: u8,
    tp_mdix_control: u8,
    lp_advertising: u32,
    reserved: [u32; 2],
}

/// The timestamping capabilities of a card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The number of its clock, as in `/dev/ptpN`. For a stacked interface (VLAN, bond) it is that
    /// of the card below, if the driver reports it.
    pub clock: Option<u32>,
    /// It can timestamp transmitted packets.
    pub transmit: bool,
    /// It can timestamp all received packets (`HWTSTAMP_FILTER_ALL`).
    pub receive_all: bool,
    /// It can timestamp all received NTP packets (`HWTSTAMP_FILTER_NTP_ALL`).
    pub receive_ntp: bool,
}

/// The timestamping setting of a card.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampSetting {
    flags: i32,
    transmit: i32,
    filter: i32,
}

impl TimestampSetting {
    /// Whether it timestamps transmitted packets when a socket requests it.
    #[must_use]
    pub const fn stamps_departures(&self) -> bool {
        self.transmit != libc::HWTSTAMP_TX_OFF as i32
    }

    /// Whether it timestamps the packets of an NTP client in both directions.
    #[must_use]
    pub const fn stamps_ntp(&self) -> bool {
        // One-step cards insert timestamps into PTP messages, and timestamp all other packets as
        // with `TX_ON`.
        self.stamps_departures()
            && (self.filter == libc::HWTSTAMP_FILTER_ALL as i32 || self.filter == libc::HWTSTAMP_FILTER_NTP_ALL as i32)
    }

    /// This setting with the smallest change that timestamps NTP; `None` if the card cannot do so.
    #[must_use]
    pub const fn with_ntp(self, abilities: &Abilities) -> Option<Self> {
        let transmit = if self.transmit == libc::HWTSTAMP_TX_OFF as i32 {
            if !abilities.transmit {
                return None;
            }
            libc::HWTSTAMP_TX_ON as i32
        } else {
            self.transmit
        };
        // The filter for all packets includes PTP, so a program that set a PTP filter (ptp4l) loses
        // nothing. With a filter for NTP only it might.
        let filter = if abilities.receive_all {
            libc::HWTSTAMP_FILTER_ALL
        } else if abilities.receive_ntp && self.filter == libc::HWTSTAMP_FILTER_NONE as i32 {
            libc::HWTSTAMP_FILTER_NTP_ALL
        } else {
            return None;
        };
        Some(Self { flags: self.flags, transmit, filter: filter as i32 })
    }
}

/// An interface of the network namespace of the thread that named it.
#[derive(Debug)]
pub struct Card {
    name: String,
    socket: OwnedFd,
}

impl Card {
    /// The interface of that name.
    ///
    /// # Errors
    /// The name is invalid, or there are too many file descriptors. A missing interface is only
    /// reported by later calls.
    pub fn named(name: &str) -> nix::Result<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(Errno::ENODEV);
        }
        let socket = socket(AddressFamily::Inet, SockType::Datagram, SockFlag::SOCK_CLOEXEC, None)?;
        Ok(Self { name: name.into(), socket })
    }

    /// The interface's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its capabilities; empty if its driver does not support timestamps.
    ///
    /// # Errors
    /// The interface no longer exists.
    pub fn abilities(&self) -> nix::Result<Abilities> {
        let mut info = TsInfo { command: GET_TS_INFO, phc_index: -1, ..TsInfo::default() };
        match sys::ethtool(&self.socket, &self.name, &mut info) {
            Err(Errno::EOPNOTSUPP) => return Ok(Abilities::default()),
            other => other?,
        }
        let filter = |filter: u32| info.rx_filters & 1 << filter != 0;
        let both = libc::SOF_TIMESTAMPING_TX_HARDWARE | libc::SOF_TIMESTAMPING_RAW_HARDWARE;
        Ok(Abilities {
            clock: u32::try_from(info.phc_index).ok(),
            transmit: info.so_timestamping & both == both && info.tx_types & 1 << libc::HWTSTAMP_TX_ON != 0,
            receive_all: filter(libc::HWTSTAMP_FILTER_ALL),
            receive_ntp: filter(libc::HWTSTAMP_FILTER_NTP_ALL),
        })
    }

    /// Its current setting.
    ///
    /// # Errors
    /// The interface no longer exists, or its driver does not report the setting (`EOPNOTSUPP`).
    pub fn setting(&self) -> nix::Result<TimestampSetting> {
        let mut config = hwtstamp_config { flags: 0, tx_type: 0, rx_filter: 0 };
        sys::get_stamps(&self.socket, &self.name, &mut config)?;
        Ok(TimestampSetting { flags: config.flags, transmit: config.tx_type, filter: config.rx_filter })
    }

    /// Changes the setting, and returns the one that the driver has applied.
    ///
    /// # Errors
    /// `EPERM`: CAP_NET_ADMIN is missing; `ERANGE`: the card does not support it.
    pub fn set(&self, setting: TimestampSetting) -> nix::Result<TimestampSetting> {
        let TimestampSetting { flags, transmit, filter } = setting;
        let mut config = hwtstamp_config { flags, tx_type: transmit, rx_filter: filter };
        sys::set_stamps(&self.socket, &self.name, &mut config)?;
        Ok(TimestampSetting { flags: config.flags, transmit: config.tx_type, filter: config.rx_filter })
    }

    /// The link speed in Mbit/s, if it is known.
    #[must_use]
    pub fn speed(&self) -> Option<u32> {
        let mut link = LinkSettings { command: GET_LINK, ..LinkSettings::default() };
        sys::ethtool(&self.socket, &self.name, &mut link).ok()?;
        let speed = u32::from(link.speed_high) << 16 | u32::from(link.speed_low);
        // An unknown speed is reported as 0, 65535 or 2^32 - 1.
        Some(speed).filter(|&speed| !matches!(speed, 0 | 0xffff | SPEED_UNKNOWN))
    }
}

/// The kernel's calls.
mod sys {
    use super::{AsRawFd, OwnedFd, hwtstamp_config, ifreq};
    use std::mem::zeroed;

    nix::ioctl_readwrite_bad!(ethtool_call, libc::SIOCETHTOOL, ifreq);
    nix::ioctl_readwrite_bad!(get_stamps_call, libc::SIOCGHWTSTAMP, ifreq);
    nix::ioctl_readwrite_bad!(set_stamps_call, libc::SIOCSHWTSTAMP, ifreq);

    /// The structures that ethtool's commands of this file read and write.
    pub(super) trait Command {}
    impl Command for super::TsInfo {}
    impl Command for super::LinkSettings {}

    /// A request about an interface, whose name is shorter than the field for it; `data` must live
    /// as long as it.
    fn request<T>(name: &str, data: &mut T) -> ifreq {
        // SAFETY: all-zero is a valid `ifreq`.
        let mut request: ifreq = unsafe { zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from as libc::c_char;
        }
        request.ifr_ifru.ifru_data = (&raw mut *data).cast();
        request
    }

    pub(super) fn ethtool(socket: &OwnedFd, name: &str, data: &mut impl Command) -> nix::Result<()> {
        let mut request = request(name, data);
        // SAFETY: the request and the data that it points to live for the call. Each `Command`
        // begins with the number of a command that accesses no more than the structure.
        unsafe { ethtool_call(socket.as_raw_fd(), &raw mut request) }.map(drop)
    }

    pub(super) fn get_stamps(socket: &OwnedFd, name: &str, data: &mut hwtstamp_config) -> nix::Result<()> {
        let mut request = request(name, data);
        // SAFETY: the request and the kernel's own structure to which it points live for the call.
        unsafe { get_stamps_call(socket.as_raw_fd(), &raw mut request) }.map(drop)
    }

    pub(super) fn set_stamps(socket: &OwnedFd, name: &str, data: &mut hwtstamp_config) -> nix::Result<()> {
        let mut request = request(name, data);
        // SAFETY: as in `get_stamps`.
        unsafe { set_stamps_call(socket.as_raw_fd(), &raw mut request) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFF: TimestampSetting = TimestampSetting { flags: 0, transmit: 0, filter: 0 };

    #[test]
    fn loopback_has_no_clock_and_stamps_nothing() {
        let card = Card::named("lo").unwrap();
        assert_eq!(card.abilities().unwrap(), Abilities::default());
        assert!(card.setting().is_err());
        assert_eq!(card.speed(), None);
    }

    #[test]
    fn an_unknown_interface_is_an_error() {
        let card = Card::named("no-such-dev0").unwrap();
        assert_eq!(card.abilities(), Err(Errno::ENODEV));
        assert_eq!(card.setting(), Err(Errno::ENODEV));
        assert_eq!(Card::named("a-name-that-is-far-too-long").unwrap_err(), Errno::ENODEV);
    }

    #[test]
    fn a_setting_is_changed_as_little_as_possible() {
        let able = Abilities { clock: Some(0), transmit: true, receive_all: true, receive_ntp: true };
        assert!(!OFF.stamps_ntp());
        let on = OFF.with_ntp(&able).unwrap();
        assert_eq!((on.transmit, on.filter, on.stamps_ntp()), (1, 1, true));
        // As ptp4l sets it, one-step.
        let ptp = TimestampSetting { flags: 0, transmit: 2, filter: 12 };
        assert!(!ptp.stamps_ntp());
        assert_eq!(ptp.with_ntp(&able).map(|on| (on.transmit, on.filter)), Some((2, 1)));
        // A filter for NTP would replace the one for PTP.
        let narrow = Abilities { receive_all: false, ..able };
        assert_eq!(OFF.with_ntp(&narrow).map(|on| on.filter), Some(15));
        assert_eq!(ptp.with_ntp(&narrow), None);
        // As the Intel 82576: PTP only.
        assert_eq!(OFF.with_ntp(&Abilities { receive_all: false, receive_ntp: false, ..able }), None);
        assert_eq!(OFF.with_ntp(&Abilities { transmit: false, ..able }), None);
    }
}
