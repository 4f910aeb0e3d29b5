//! Names, access, and what a program is told that finds no service.

use crate::bed::{BRIEFLY, RawClient, SOON, accept, listen, new_name, pair};
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};
use tickwire_lane::control::Reason;
use tickwire_lane_windows::control::{ClientChannel, ConnectError, ListenError, PipeListener};
use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{
    ConvertSecurityDescriptorToStringSecurityDescriptorW, GetSecurityInfo, SDDL_REVISION_1, SE_KERNEL_OBJECT,
};
use windows_sys::Win32::Security::DACL_SECURITY_INFORMATION;
use windows_sys::Win32::System::Pipes::CreateNamedPipeW;

fn why_not(name: &str) -> ConnectError {
    ClientChannel::connect(name, BRIEFLY).unwrap_err()
}

#[test]
fn an_absent_service_is_said_at_once() {
    let error = why_not(&new_name());
    assert!(matches!(error, ConnectError::NoService(_)) && error.reason() == Reason::NoService, "{error}");
    let error = why_not(r"C:\windows\win.ini");
    assert!(matches!(error, ConnectError::Name(_)) && error.reason() == Reason::NotService, "{error}");
}

#[test]
fn a_service_that_accepts_no_client_is_silent() {
    let name = new_name();
    let mut listener = listen(&name);
    let error = why_not(&name);
    assert!(matches!(error, ConnectError::Silent(_)) && error.reason() == Reason::Silent, "{error}");
    // Now no instance waits for a client.
    let _client = listener.accept();
    let _raw = RawClient::open(&name);
    assert!(matches!(why_not(&name), ConnectError::Silent(_)));
}

#[test]
fn a_client_waits_for_its_turn() {
    let name = new_name();
    let mut listener = listen(&name);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(|| ClientChannel::connect(&name, SOON))).collect();
        let servers: Vec<_> = (0..8).map(|_| accept(&mut listener)).collect();
        for (client, _) in clients.into_iter().zip(&servers) {
            assert_eq!(client.join().unwrap().unwrap().server_process_id().unwrap(), std::process::id());
        }
    });
}

#[test]
fn both_sides_know_the_other_process() {
    let (server, client) = pair();
    assert_eq!((server.process_id(), client.server_process_id().unwrap()), (std::process::id(), std::process::id()));
}

#[test]
fn a_name_that_is_taken_is_refused() {
    let name = new_name();
    let first = listen(&name);
    assert!(matches!(PipeListener::new(&name, "WD"), Err(ListenError::Taken(_))));
    drop(first);
    let mut listener = listen(&name);
    // A channel keeps the name, too.
    let _client = RawClient::open(&name);
    let channel = accept(&mut listener);
    drop(listener);
    assert!(matches!(PipeListener::new(&name, "WD"), Err(ListenError::Taken(_))));
    drop(channel);
    drop(listen(&name));
}

#[test]
fn a_pipe_of_another_program_is_neither_taken_over_nor_taken_for_the_service() {
    let name = new_name();
    let wide: Vec<u16> = name.encode_utf16().chain([0]).collect();
    // SAFETY: a name that ends with a zero; the result is an own handle.
    let squatter =
        unsafe { OwnedHandle::from_raw_handle(CreateNamedPipeW(wide.as_ptr(), 3, 0, 255, 512, 512, 0, null())) };
    assert!(matches!(PipeListener::new(&name, "WD"), Err(ListenError::Taken(_))));
    let error = why_not(&name);
    assert!(matches!(error, ConnectError::NotService(_)) && error.reason() == Reason::NotService, "{error}");
    drop(squatter);
    drop(listen(&name));
}

#[test]
fn wrong_names_and_clients_are_said() {
    assert!(matches!(PipeListener::new("tickwire", "WD"), Err(ListenError::Name(_))));
    for clients in ["", "WD)(A;;FA;;;WD", "nonsense", "S-1-x"] {
        let error = PipeListener::new(&new_name(), clients).unwrap_err();
        assert!(matches!(error, ListenError::Clients { .. }), "{clients}: {error}");
    }
}

#[test]
fn clients_may_use_the_pipe_and_make_no_instances() {
    let name = new_name();
    let _listener = PipeListener::new(&name, "S-1-5-32-545").unwrap();
    let client = RawClient::open(&name);
    let list = access_list(client.0.as_raw_handle());
    let mut entries: Vec<&str> = list.split(['(', ')']).filter(|entry| entry.contains(";;;")).collect();
    entries.sort_unstable();
    let of_clients: Vec<_> = entries.iter().filter(|entry| entry.ends_with(";;;BU")).collect();
    let [entry] = of_clients[..] else { panic!("{list}") };
    let rights = u32::from_str_radix(entry.split(';').nth(2).unwrap().trim_start_matches("0x"), 16).unwrap();
    assert_eq!(rights & 3, 3, "{list}: read and write");
    assert_eq!(rights & 4, 0, "{list}: no instances");
    assert!(entries.iter().any(|entry| entry.ends_with(";;;SY")), "{list}");
    assert!(!list.contains(";;;WD"), "{list}");
}

/// The access list of an object as text.
fn access_list(handle: std::os::windows::io::RawHandle) -> String {
    let (mut descriptor, mut text) = (null_mut(), null_mut());
    // SAFETY: an open handle and places for the results; the text ends with a zero.
    unsafe {
        let none = null_mut;
        let code = GetSecurityInfo(
            handle,
            SE_KERNEL_OBJECT,
            DACL_SECURITY_INFORMATION,
            none(),
            none(),
            null_mut(),
            null_mut(),
            &raw mut descriptor,
        );
        assert_eq!(code, 0);
        assert_ne!(
            ConvertSecurityDescriptorToStringSecurityDescriptorW(
                descriptor,
                SDDL_REVISION_1,
                DACL_SECURITY_INFORMATION,
                &raw mut text,
                null_mut(),
            ),
            0
        );
        let len = (0..).find(|&at| *text.add(at) == 0).unwrap();
        let list = String::from_utf16_lossy(std::slice::from_raw_parts(text, len));
        LocalFree(text.cast());
        LocalFree(descriptor);
        list
    }
}
