//! The service on a host of the Wine lab, with the lab's card (`cargo xtask windows test`).
//!
//!     lab_service INTERFACE
//!
//! It says `ready` when programs can connect, and logs the lanes that begin and end. It runs until
//! it is killed.

#[cfg(windows)]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    service::run()
}

#[cfg(not(windows))]
fn main() {
    eprintln!("this is a program for Windows");
}

#[cfg(windows)]
mod service {
    use std::error::Error;
    use std::os::windows::io::AsHandle;
    use tickwire_card_windows::card::PacketCard;
    use tickwire_card_windows::lab::LabCard;
    use tickwire_lane_windows::clock;
    use tickwire_lane_windows::control::pipe_name;
    use tickwire_lane_windows::event::WakeEvent;
    use tickwire_service_windows::service::{AcceleratedHost, AcceleratedNic, ServiceParts, WindowsService};

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let interface = std::env::args().nth(1).ok_or("usage: lab_service INTERFACE")?;
        tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::DEBUG).init();
        let card = LabCard::open(&interface, clock::now)?;
        let host = AcceleratedHost::open(AcceleratedNic { index: card.nic(), mac: card.mac(), mtu: card.mtu() })?;
        let parts = ServiceParts { pipe: pipe_name(), users: "WD".into(), card: Box::new(card), host };
        let mut service = WindowsService::start(parts)?;
        println!("ready");
        service.run(WakeEvent::new()?.as_handle())?;
        Ok(())
    }
}
