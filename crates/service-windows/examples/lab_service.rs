//! The service on a host of the Wine lab (`cargo xtask windows test`).
//!
//!     lab_service DRIVER INTERFACE
//!
//! The driver is `lab` (the lab's card) or `windivert`. It says `ready` when programs can connect,
//! and logs the lanes that begin and end. It runs until it is killed.

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
    use tickwire_card_windows::card::CardClock;
    use tickwire_card_windows::open::{CardDriver, OpenedCard, open};
    use tickwire_lane_windows::clock;
    use tickwire_lane_windows::control::pipe_name;
    use tickwire_lane_windows::event::WakeEvent;
    use tickwire_service_windows::service::{AcceleratedHost, ServiceParts, WindowsService};

    pub(super) fn run() -> Result<(), Box<dyn Error>> {
        let arguments: Vec<String> = std::env::args().skip(1).collect();
        let [driver, interface] = &arguments[..] else { return Err("usage: lab_service DRIVER INTERFACE".into()) };
        tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::DEBUG).init();
        let clock = CardClock { now: clock::now, at_count: clock::at_count };
        let driver: CardDriver = driver.parse()?;
        let OpenedCard { card, nic } = open(driver, interface, clock)?;
        let host = AcceleratedHost::open(nic)?;
        let parts = ServiceParts { pipe: pipe_name(), users: "WD".into(), card, driver: driver.name(), host };
        let mut service = WindowsService::start(parts)?;
        println!("ready");
        service.run(WakeEvent::new()?.as_handle())?;
        Ok(())
    }
}
