//! The service on a host of the Wine lab (`cargo xtask windows test`).
//!
//!     lab_service DRIVER INTERFACE [BLOCKED-PORT]...
//!
//! The driver is `lab` (the lab's card), `windivert` or `xdp`. It says `ready` when programs can
//! connect, and logs the lanes that begin and end. It runs until it is killed. A firewall that is a
//! stand-in for Windows' own blocks the ports.

#[cfg(windows)]
fn main() -> std::process::ExitCode {
    match service::run() {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            std::process::ExitCode::FAILURE
        }
    }
}

#[cfg(not(windows))]
fn main() {
    eprintln!("this is a program for Windows");
}

#[cfg(windows)]
mod service {
    use std::error::Error;
    use std::os::windows::io::AsHandle;
    use std::sync::Arc;
    use tickwire_card_windows::card::CardClock;
    use tickwire_card_windows::open::{CardDriver, OpenedCard, open};
    use tickwire_host_windows::{Firewall, FirewallError, InboundPort, InboundVerdict, PortProtocol};
    use tickwire_lane_windows::clock;
    use tickwire_lane_windows::control::pipe_name;
    use tickwire_lane_windows::event::WakeEvent;
    use tickwire_service_windows::port_block;
    use tickwire_service_windows::service::{AcceleratedHost, ServiceParts, WindowsService};

    /// Lets packets for all other ports in.
    struct BlockedPorts(Vec<u16>);

    impl Firewall for BlockedPorts {
        fn inbound(&self, port: &InboundPort) -> Result<InboundVerdict, FirewallError> {
            let is_blocked = self.0.contains(&port.local.port);
            Ok(if is_blocked { InboundVerdict::Blocked } else { InboundVerdict::Allowed })
        }

        fn lets_out(&self, _: Option<&str>, _: PortProtocol, _: Option<u16>) -> Result<bool, FirewallError> {
            Ok(true)
        }
    }

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [driver, interface, blocked @ ..] = &arguments[..] else {
            return Err("usage: lab_service DRIVER INTERFACE [BLOCKED-PORT]...".into());
        };
        let firewall = Arc::new(BlockedPorts(blocked.iter().map(|port| port.parse()).collect::<Result<_, _>>()?));
        tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::DEBUG).init();
        let clock = CardClock { now: clock::now, at_count: clock::at_count };
        let driver: CardDriver = driver.parse()?;
        let OpenedCard { card, nic } = open(driver, interface, clock)?;
        let host = AcceleratedHost::open(nic)?;
        let (pipe, users) = (pipe_name(), "WD".into());
        let ports = Some(port_block::DEFAULT);
        let parts = ServiceParts { pipe, users, card, driver: driver.name(), host, firewall, ports };
        let mut service = WindowsService::start(parts)?;
        println!("ready");
        service.run(WakeEvent::new()?.as_handle())?;
        Ok(())
    }
}
