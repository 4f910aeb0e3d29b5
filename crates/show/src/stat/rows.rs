//! What the service and a lane's memory say, as parts of a reading. A program writes the rows of
//! its lane itself, so anything may be in them.

use super::reading::{ClaimReading, Interface, Polled, SocketReading, Tcp};
use tickwire_lane::control::{Accelerated, AttachMode, ClaimInfo, ClaimKind, Reason};
use tickwire_stack::table::{SocketRow, kind};
use tickwire_steer::counters::GuardRefusal;

/// The names of what divert and guard have counted of a lane; the [`REFUSALS`] follow.
pub const LANE_COUNTERS: [&str; 4] = ["in_packets", "in_bytes", "out_packets", "out_bytes"];

/// The names of the guard's refusals, in the order of [`GuardRefusal::ALL`].
pub const REFUSALS: [&str; GuardRefusal::ALL.len()] = [
    "refused_malformed",
    "refused_protocol",
    "refused_source",
    "refused_port",
    "refused_fragment",
    "refused_length",
    "refused_checksum",
];

/// An interface, as the service describes it.
#[must_use]
pub fn interface(info: &Accelerated) -> Interface {
    Interface {
        name: info.name.as_str().to_owned(),
        driver: info.driver.as_str().to_owned(),
        mac: info.mac.to_string(),
        mtu: info.mtu,
        mode: match info.mode {
            AttachMode::None => "none",
            AttachMode::Native => "native",
            AttachMode::Generic => "generic",
            AttachMode::Tc => "tc",
            AttachMode::Driver => "driver",
        },
        reason: reason_text(info.reason),
    }
}

/// The text of a reason; none if there is none.
#[must_use]
pub fn reason_text(reason: Reason) -> Option<&'static str> {
    (reason != Reason::None).then(|| reason.text())
}

const IPPROTO_TCP: u8 = 6;

/// A claim, as the service describes it.
#[must_use]
pub fn claim(held: &ClaimInfo) -> ClaimReading {
    ClaimReading {
        protocol: if held.protocol == IPPROTO_TCP { "tcp" } else { "udp" },
        local: held.local.to_string(),
        remote: (held.kind == ClaimKind::Flow).then(|| held.remote.to_string()),
    }
}

/// A row as a socket; none if it is free.
#[must_use]
pub fn socket(row: &SocketRow) -> Option<SocketReading> {
    let (protocol, accelerated) = match row.kind.get() {
        kind::TCP | kind::LISTENER => ("tcp", true),
        kind::UDP => ("udp", true),
        kind::KERNEL_TCP => ("tcp", false),
        kind::KERNEL_UDP => ("udp", false),
        _ => return None,
    };
    let remote = row.remote.get();
    Some(SocketReading {
        protocol,
        accelerated,
        reason: (!accelerated || row.reason.get() != 0).then(|| row_reason(row.reason.get())),
        polled: (!accelerated && row.polled.get() != 0)
            .then(|| Polled { found: row.polls_found.get(), slept: row.polls_slept.get() }),
        pid: row.pid.get(),
        fd: row.fd.get(),
        local: row.local.get().to_string(),
        remote: (remote.port != 0).then(|| remote.to_string()),
        state: state(row),
        rx_queue: accelerated.then(|| row.rx_queue.get()),
        tx_queue: accelerated.then(|| row.tx_queue.get()),
        rx_packets: accelerated.then(|| row.rx_packets.get()),
        rx_bytes: accelerated.then(|| row.rx_bytes.get()),
        tx_packets: accelerated.then(|| row.tx_packets.get()),
        tx_bytes: accelerated.then(|| row.tx_bytes.get()),
        drops: accelerated.then(|| row.drops.get()),
        tcp: (row.kind.get() == kind::TCP).then(|| tcp(row)),
    })
}

fn tcp(row: &SocketRow) -> Tcp {
    Tcp {
        srtt_us: row.srtt_us.get(),
        rto_us: row.rto_us.get(),
        cwnd: row.cwnd.get(),
        ssthresh: row.ssthresh.get(),
        mss: row.mss.get(),
        retransmits: row.retransmits.get(),
    }
}

fn row_reason(code: u32) -> String {
    Reason::from_code(code).map_or_else(|| format!("reason {code}, unknown to this version"), |r| r.text().to_owned())
}

fn state(row: &SocketRow) -> &'static str {
    match row.kind.get() {
        kind::LISTENER => "LISTEN",
        _ => state_name(row.state.get()),
    }
}

/// The state's name as `ss` prints it; the numbers are Linux's.
#[must_use]
pub fn state_name(number: u32) -> &'static str {
    const STATES: [&str; 12] = [
        "-",
        "ESTAB",
        "SYN-SENT",
        "SYN-RECV",
        "FIN-WAIT-1",
        "FIN-WAIT-2",
        "TIME-WAIT",
        "UNCONN",
        "CLOSE-WAIT",
        "LAST-ACK",
        "LISTEN",
        "CLOSING",
    ];
    STATES.get(number as usize).copied().unwrap_or("?")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tickwire_stack::addr::{Address, Endpoint};

    #[test]
    fn the_guards_refusals_have_the_names_of_the_guard() {
        for (refusal, ours) in GuardRefusal::ALL.iter().zip(REFUSALS) {
            assert_eq!(format!("refused_{}", refusal.name()), ours);
        }
    }

    #[test]
    fn a_row_becomes_a_socket_and_a_free_one_none() {
        let row = SocketRow::default();
        assert!(socket(&row).is_none());
        row.kind.set(kind::TCP);
        row.state.set(1);
        row.local.set(Endpoint::new(Address::v4([10, 0, 0, 1]), 80));
        row.remote.set(Endpoint::new(Address::v4([10, 0, 0, 2]), 4000));
        row.srtt_us.set(25);
        let seen = socket(&row).unwrap();
        assert_eq!((seen.protocol, seen.state, seen.local.as_str()), ("tcp", "ESTAB", "10.0.0.1:80"));
        assert_eq!(seen.remote.as_deref(), Some("10.0.0.2:4000"));
        assert_eq!(seen.tcp.unwrap().srtt_us, 25);
        assert!(seen.reason.is_none());
    }

    #[test]
    fn a_socket_of_which_some_goes_by_the_kernel_says_why() {
        let row = SocketRow::default();
        row.kind.set(kind::UDP);
        row.reason.set(Reason::MulticastLoop.code().into());
        let seen = socket(&row).unwrap();
        assert!(seen.accelerated && seen.reason.unwrap().contains("IP_MULTICAST_LOOP"));
    }

    #[test]
    fn a_socket_on_the_kernel_says_why_and_nonsense_in_a_row_does_no_harm() {
        let row = SocketRow::default();
        row.kind.set(kind::KERNEL_UDP);
        row.reason.set(Reason::Loopback.code().into());
        row.state.set(u32::MAX);
        let seen = socket(&row).unwrap();
        assert!(!seen.accelerated && seen.reason.unwrap().contains("loopback"));
        assert_eq!((seen.state, seen.polled.is_none()), ("?", true));
        row.polled.set(1);
        row.polls_found.set(7);
        assert_eq!(socket(&row).unwrap().polled.map(|polled| (polled.found, polled.slept)), Some((7, 0)));
        row.reason.set(60_000);
        assert!(socket(&row).unwrap().reason.unwrap().contains("60000"));
    }
}
