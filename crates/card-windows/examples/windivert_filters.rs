//! Has a library of WinDivert compile and evaluate the filters of claimed ports, and compares what
//! they take with what they are to take. No packet is moved, and no driver is needed.
//!
//!     windivert_filters LIBRARY
//!
//! It says `done` and how much was compared.

#[cfg(windows)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    filters::run()
}

#[cfg(not(windows))]
fn main() {
    eprintln!("this is a program for Windows");
}

#[cfg(windows)]
mod filters {
    use std::error::Error;
    use std::path::Path;
    use tickwire_card_windows::windivert::error::WinDivertError;
    use tickwire_card_windows::windivert::filter::{DivertedPorts, MOST_TESTS};
    use tickwire_card_windows::windivert::library::WinDivertLibrary;
    use tickwire_card_windows::windivert::passing_datagrams::NTP_FILTER;
    use tickwire_card_windows::windivert::record::{AddressRecord, RecordFlag};
    use tickwire_stack::addr::Family;
    use tickwire_steer::tables::Protocol;

    const INTERFACE: u32 = 12;
    const NUMBERS: [u8; 5] = [6, 17, 1, 58, 47];

    /// Packets that are compared for each filter.
    const PACKETS: u32 = 500;

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let path = std::env::args().nth(1).ok_or("usage: windivert_filters LIBRARY")?;
        let library = WinDivertLibrary::load(Path::new(&path))?;
        let (mut taken, mut compared) = (0, 0);
        let sets = port_sets()?;
        for ports in &sets {
            let filter = ports.filter(INTERFACE)?;
            library.check_filter(&filter)?;
            let mut random = 1;
            for _ in 0..PACKETS {
                let (packet, record, expected) = packet(&mut random, ports);
                if library.takes(&filter, &packet, &record) != expected {
                    return Err(format!("expected {expected}: {filter}: {record:?} {packet:02x?}").into());
                }
                taken += u32::from(expected);
                compared += 1;
            }
        }
        for wrong in ["inbound and port == 7", "inbound and", &vec!["udp.DstPort == 7"; MOST_TESTS + 2].join(" or ")] {
            match library.check_filter(wrong) {
                Err(WinDivertError::Filter { .. }) => (),
                other => return Err(format!("{other:?}: {wrong}").into()),
            }
        }
        if taken < 150 {
            return Err(format!("only {taken} of {compared} packets were to be taken").into());
        }
        ntp(&library)?;
        println!("done: {} filters, {compared} packets, {taken} of them taken", sets.len());
        Ok(())
    }

    /// What this host sends to NTP's port, and what comes from there.
    fn ntp(library: &WinDivertLibrary) -> Result<(), Box<dyn Error>> {
        library.check_filter(NTP_FILTER)?;
        for (ports, is_outbound, expected) in [
            ([9, 123], true, true),
            ([123, 9], false, true),
            ([123, 9], true, false),
            ([9, 123], false, false),
            ([9, 9], true, false),
        ] {
            let mut packet = vec![0x45, 0, 0, 76, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1];
            packet.extend([ports[0], ports[1], 56, 0].map(u16::to_be_bytes).concat());
            packet.resize(76, 0);
            let mut record = AddressRecord::of_arrival(INTERFACE, Family::V4);
            if is_outbound {
                record.set(RecordFlag::Outbound);
            }
            if library.takes(NTP_FILTER, &packet, &record) != expected {
                return Err(format!("expected {expected}: {NTP_FILTER}: {ports:?}, outbound: {is_outbound}").into());
            }
        }
        Ok(())
    }

    /// Ports of several kinds, and as many of each as a filter can hold.
    fn port_sets() -> Result<Vec<DivertedPorts>, WinDivertError> {
        let mut sets: Vec<DivertedPorts> = vec![
            DivertedPorts::default(),
            ports(&[Protocol::Udp], [7]),
            ports(&[Protocol::Tcp], [7, 8, 9, 100]),
            ports(&[Protocol::Tcp, Protocol::Udp], 1000..1200),
            ports(&[Protocol::Tcp, Protocol::Udp], 0..=65_535),
        ];
        for pattern in [[2, 2], [3, 1]] {
            for protocols in [&[Protocol::Tcp][..], &[Protocol::Tcp, Protocol::Udp]] {
                sets.push(largest(protocols, pattern)?);
            }
        }
        Ok(sets)
    }

    fn ports(protocols: &[Protocol], ports: impl IntoIterator<Item = u16>) -> DivertedPorts {
        let mut set = DivertedPorts::default();
        for port in ports {
            protocols.iter().for_each(|protocol| {
                set.set(*protocol, port, true);
            });
        }
        set
    }

    /// As many ports as a filter can hold, in these distances.
    fn largest(protocols: &[Protocol], [first, second]: [u16; 2]) -> Result<DivertedPorts, WinDivertError> {
        let (mut set, mut port) = (DivertedPorts::default(), 1);
        for distance in [first, second].into_iter().cycle() {
            port += distance;
            let mut larger = set.clone();
            protocols.iter().for_each(|protocol| {
                larger.set(*protocol, port, true);
            });
            match larger.filter(INTERFACE) {
                Ok(_) => set = larger,
                Err(WinDivertError::TooManyPorts { .. }) => return Ok(set),
                Err(other) => return Err(other),
            }
        }
        Ok(set)
    }

    /// A number below another, from a generator that is the same each time (xorshift).
    fn below(random: &mut u32, limit: u32) -> u32 {
        *random ^= *random << 13;
        *random ^= *random >> 17;
        *random ^= *random << 5;
        *random % limit
    }

    /// A packet, what the driver says about it, and whether it is to be taken.
    fn packet(random: &mut u32, ports: &DivertedPorts) -> (Vec<u8>, AddressRecord, bool) {
        let family = if below(random, 2) == 0 { Family::V4 } else { Family::V6 };
        let number = NUMBERS[below(random, 5) as usize];
        let port = if below(random, 4) == 0 { below(random, 65_536) } else { below(random, 1300) } as u16;
        let (kind, has_port) = (below(random, 16) as u8, [6, 17].contains(&number));
        let mut transport = vec![0; 24];
        transport[0] = if has_port { 0 } else { kind };
        transport[2..4].copy_from_slice(&port.to_be_bytes());
        if number == 6 {
            transport[12] = 5 << 4;
        }
        let length = transport.len() as u16;
        let mut packet = match family {
            Family::V4 => {
                let [high, low] = (20 + length).to_be_bytes();
                vec![0x45, 0, high, low, 0, 1, 0, 0, 64, number, 0, 0, 10, 0, 0, 2, 10, 0, 0, 1]
            }
            Family::V6 => {
                let [high, low] = length.to_be_bytes();
                [&[0x60, 0, 0, 0, high, low, number, 64][..], &[0xfd; 32]].concat()
            }
        };
        packet.extend(transport);
        let (is_outbound, is_loopback) = (below(random, 10) == 0, below(random, 10) == 0);
        let mut record = AddressRecord::of_arrival(INTERFACE + u32::from(below(random, 10) == 0), family);
        let is_here = record.interface() == INTERFACE;
        if is_outbound {
            record.set(RecordFlag::Outbound);
        }
        if is_loopback {
            record.set(RecordFlag::Loopback);
        }
        let is_wanted = match (number, family) {
            (6, _) => ports.contains(Protocol::Tcp, port),
            (17, _) => ports.contains(Protocol::Udp, port),
            (1, Family::V4) => [3, 11, 12].contains(&kind),
            (58, Family::V6) => kind <= 4,
            _ => false,
        };
        let takes_any = *ports != DivertedPorts::default();
        let expected = takes_any && is_wanted && is_here && !is_outbound && !is_loopback;
        (packet, record, expected)
    }
}
