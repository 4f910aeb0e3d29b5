//! The service as one of Windows' services, under the service manager.

use super::log_file::LogFile;
use super::serve;
use crate::args::{Arguments, Command, Service};
use crate::installation::warn_of_place;
use anyhow::{Context, Error, Result, anyhow};
use clap::Parser;
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tickwire_lane_windows::event::WakeEvent;
use windows_service::service::{
    ServiceAccess, ServiceControl, ServiceControlAccept, ServiceErrorControl, ServiceExitCode, ServiceInfo,
    ServiceStartType, ServiceState, ServiceStatus, ServiceType,
};
use windows_service::service_control_handler::{self, ServiceControlHandlerResult, ServiceStatusHandle};
use windows_service::service_manager::{ServiceManager, ServiceManagerAccess};
use windows_service::{define_windows_service, service_dispatcher};

/// Its name.
const NAME: &str = "Tickwire";

/// Its log, beside the program.
const LOG: &str = "service.log";

/// The log of the last start, or what came before this one.
const OLD_LOG: &str = "service.log.old";

/// So long it may take to start, and to end.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How often it is looked whether it has ended.
const POLL: Duration = Duration::from_millis(100);

/// Errors of Windows that have a sentence of their own.
const ACCESS_DENIED: i32 = 5;
const DOES_NOT_EXIST: i32 = 1060;
const NOT_STARTED_BY_THE_MANAGER: i32 = 1063;
const MARKED_FOR_DELETION: i32 = 1072;
const EXISTS: i32 = 1073;

/// Enters the service, with the options of this command line.
pub(super) fn install(arguments: &Service) -> Result<()> {
    let manager = manager(ServiceManagerAccess::CONNECT | ServiceManagerAccess::CREATE_SERVICE)?;
    let info = ServiceInfo {
        name: NAME.into(),
        display_name: NAME.into(),
        service_type: ServiceType::OWN_PROCESS,
        start_type: ServiceStartType::AutoStart,
        error_control: ServiceErrorControl::Normal,
        executable_path: std::env::current_exe().context("cannot find this program")?,
        launch_arguments: launch_arguments(arguments),
        dependencies: Vec::new(),
        account_name: None,
        account_password: None,
    };
    let service = manager.create_service(&info, ServiceAccess::CHANGE_CONFIG).map_err(explained)?;
    service.set_description("Unmodified programs on a low-latency network path").map_err(explained)?;
    println!("the service {NAME} is installed, and starts with Windows: start it now by `net start {NAME}`");
    warn_of_place(&std::env::current_exe().context("cannot find this program")?);
    Ok(())
}

/// The command line of the service, without the program.
fn launch_arguments(arguments: &Service) -> Vec<OsString> {
    let mut line: Vec<OsString> = vec!["service".into(), "--managed".into()];
    let driver = arguments.driver.map(|driver| driver.name().to_owned());
    // The service manager starts it in a folder of Windows.
    let config = arguments.config.file.as_ref().map(|file| std::path::absolute(file).unwrap_or(file.clone()));
    let config = config.map(|file| file.display().to_string());
    let ports = Some(arguments.ports.to_string());
    let options = [
        ("--config", &config),
        ("--interface", &arguments.interface),
        ("--driver", &driver),
        ("--socket", &arguments.socket.socket),
        ("--socket-group", &arguments.socket_group),
        ("--ports", &ports),
    ];
    for (name, value) in options {
        line.extend(value.iter().map(|value| format!("{name}={value}").into()));
    }
    line
}

/// Stops the service and removes it.
pub(super) fn uninstall() -> Result<()> {
    let manager = manager(ServiceManagerAccess::CONNECT)?;
    let access = ServiceAccess::QUERY_STATUS | ServiceAccess::STOP | ServiceAccess::DELETE;
    let service = manager.open_service(NAME, access).map_err(explained)?;
    let state = || service.query_status().map(|status| status.current_state).map_err(explained);
    if state()? != ServiceState::Stopped {
        // One that is just ending refuses.
        let _ = service.stop();
        let begin = Instant::now();
        while state()? != ServiceState::Stopped {
            if begin.elapsed() > TIMEOUT {
                return Err(anyhow!("the service {NAME} does not stop: see {LOG}, end its process, and try again"));
            }
            std::thread::sleep(POLL);
        }
    }
    service.delete().map_err(explained)?;
    println!("the service {NAME} is removed");
    Ok(())
}

fn manager(access: ServiceManagerAccess) -> Result<ServiceManager> {
    ServiceManager::local_computer(None::<&str>, access).map_err(explained)
}

/// An error of the service manager as a sentence that says what to do.
fn explained(error: windows_service::Error) -> Error {
    let code = match &error {
        windows_service::Error::Winapi(error) => error.raw_os_error(),
        _ => None,
    };
    match code {
        Some(ACCESS_DENIED) => anyhow!("this needs administrator rights: start a console as administrator"),
        Some(DOES_NOT_EXIST) => anyhow!("there is no service {NAME}: `tickwire service --install` makes it"),
        Some(EXISTS) => anyhow!("there is a service {NAME} already: remove it first by `tickwire service --uninstall`"),
        Some(MARKED_FOR_DELETION) => {
            anyhow!("the service {NAME} is being removed: close the console of services, and try again")
        }
        Some(NOT_STARTED_BY_THE_MANAGER) => {
            anyhow!(
                "--managed is for Windows' service manager: leave it out, or start the service by `net start {NAME}`"
            )
        }
        _ => match error {
            windows_service::Error::Winapi(error) => anyhow!("the service manager refuses: {error}"),
            error => anyhow!("the service manager refuses: {error}"),
        },
    }
}

define_windows_service!(entry, service_main);

/// Runs as the service manager's service, until that ends it.
pub(super) fn run() -> Result<()> {
    service_dispatcher::start(NAME, entry).map_err(explained)
}

/// What the service manager calls. Its arguments are those of `sc start`; the options are in this
/// process's command line.
fn service_main(_: Vec<OsString>) {
    begin_log();
    let outcome = WakeEvent::new().context("cannot make an event").and_then(|stop| {
        let stop = Arc::new(stop);
        let stopper = Arc::clone(&stop);
        let handler = move |control| match control {
            ServiceControl::Stop | ServiceControl::Shutdown => {
                stopper.set();
                ServiceControlHandlerResult::NoError
            }
            ServiceControl::Interrogate => ServiceControlHandlerResult::NoError,
            _ => ServiceControlHandlerResult::NotImplemented,
        };
        let status = service_control_handler::register(NAME, handler).map_err(explained)?;
        report(&status, ServiceState::StartPending, 0)?;
        // Whatever comes of it, the manager is told that the service has stopped.
        let outcome = arguments(std::env::args_os())
            .and_then(|arguments| serve(&arguments, &stop, || report(&status, ServiceState::Running, 0)));
        report(&status, ServiceState::Stopped, outcome.is_err().into())?;
        outcome
    });
    if let Err(error) = outcome {
        tracing::error!("{}", tickwire_show::sentence::sentence(&error));
    }
}

/// The options in the command line of the service.
fn arguments(line: impl Iterator<Item = OsString>) -> Result<Service> {
    let parsed = Arguments::try_parse_from(line).context("the command line of the service is not understood")?;
    match parsed.command {
        Command::Service(arguments) => Ok(arguments),
        _ => Err(anyhow!("the command line of the service is another command")),
    }
}

/// Tells the service manager.
fn report(handle: &ServiceStatusHandle, state: ServiceState, failure: u32) -> Result<()> {
    let is_running = state == ServiceState::Running;
    let accepted = ServiceControlAccept::STOP | ServiceControlAccept::SHUTDOWN;
    let status = ServiceStatus {
        service_type: ServiceType::OWN_PROCESS,
        current_state: state,
        controls_accepted: if is_running { accepted } else { ServiceControlAccept::empty() },
        exit_code: if failure == 0 { ServiceExitCode::NO_ERROR } else { ServiceExitCode::ServiceSpecific(failure) },
        checkpoint: 0,
        wait_hint: if state == ServiceState::StartPending { TIMEOUT } else { Duration::ZERO },
        process_id: None,
    };
    handle.set_service_status(status).map_err(explained)
}

/// A service whose log cannot be written runs without one.
fn begin_log() {
    let Ok(program) = std::env::current_exe() else { return };
    if let Ok(file) = LogFile::begin(program.with_file_name(LOG), program.with_file_name(OLD_LOG)) {
        tickwire_show::log::begin_in(file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_gets_the_options_of_its_installation() {
        let line = [
            "tickwire",
            "service",
            "--install",
            "--interface",
            "Ethernet 2",
            "--driver",
            "lab",
            "--config",
            r"C:\a b\c.toml",
            "--ports",
            "40000-40999",
        ];
        let Command::Service(given) = Arguments::parse_from(line).command else { panic!("another command") };
        let arguments = launch_arguments(&given);
        assert_eq!(arguments[1], "--managed");
        let whole = std::iter::once(OsString::from("tickwire")).chain(arguments);
        let Command::Service(got) = Arguments::parse_from(whole).command else { panic!("another command") };
        assert!(got.managed && !got.install);
        assert_eq!((got.config.file, &got.ports), (given.config.file, &given.ports));
        assert_eq!(got.ports.to_string(), "40000-40999");
        assert_eq!((got.interface, got.driver, got.socket_group), (given.interface, given.driver, None));
    }

    #[test]
    fn a_command_line_that_an_older_version_has_entered_is_an_error_and_no_end() {
        let said = |line: &[&str]| {
            let line = ["tickwire"].iter().chain(line).map(OsString::from);
            arguments(line).map_err(|error| format!("{error:#}"))
        };
        assert!(said(&["service", "--managed", "--ports=none"]).is_ok_and(|got| got.managed));
        assert!(said(&["service", "--no-such-option"]).unwrap_err().contains("is not understood"));
        assert!(said(&["stat"]).unwrap_err().contains("another command"));
    }

    #[test]
    fn errors_of_the_manager_say_what_to_do() {
        let said =
            |code| explained(windows_service::Error::Winapi(std::io::Error::from_raw_os_error(code))).to_string();
        assert!(said(ACCESS_DENIED).contains("as administrator"));
        assert!(said(EXISTS).contains("--uninstall"));
        assert!(said(DOES_NOT_EXIST).contains("--install"));
        assert!(said(NOT_STARTED_BY_THE_MANAGER).contains("net start"));
        assert!(said(8).starts_with("the service manager refuses: "));
    }
}
