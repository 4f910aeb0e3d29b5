//! What the tests share: pairs of channels, events, and a client that follows no rule.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsHandle, AsRawHandle, BorrowedHandle, FromRawHandle, OwnedHandle};
use std::ptr::null;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tickwire_lane::control::{MessageTo, Request};
use tickwire_lane_windows::control::{ClientChannel, PipeListener, ServerChannel};
use tickwire_lane_windows::event::wait_for;
use windows_sys::Win32::System::Threading::{CreateEventW, SetEvent};

/// Longer than anything takes.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// For what is expected not to happen.
pub(crate) const BRIEFLY: Duration = Duration::from_millis(20);

/// What a client may ask for.
const ACCESS: u32 = 0x0012_0183;

/// The name of a pipe that no other test has.
pub(crate) fn new_name() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(r"\\.\pipe\tickwire-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
}

pub(crate) fn listen(name: &str) -> PipeListener {
    PipeListener::new(name, "WD").unwrap()
}

/// Waits for the next client.
pub(crate) fn accept(listener: &mut PipeListener) -> ServerChannel {
    loop {
        if let Some(channel) = listener.accept().unwrap() {
            return channel;
        }
        assert!(wait_for(&[listener.event()], Some(SOON)).unwrap().is_some(), "no client came");
    }
}

/// A service's end and a client's end. The thread that connected has ended.
pub(crate) fn pair() -> (ServerChannel, ClientChannel) {
    let name = new_name();
    let mut listener = listen(&name);
    let client = std::thread::spawn(move || ClientChannel::connect(&name, SOON));
    let server = accept(&mut listener);
    (server, client.join().unwrap().unwrap())
}

/// A request as bytes, with values of handles.
pub(crate) fn frame(request: &Request, number: u32, values: &[u64]) -> Vec<u8> {
    let mut frame = vec![values.len() as u8];
    request.encode(number, &mut |bytes| frame.extend_from_slice(bytes));
    frame.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    frame
}

/// A client that sends any bytes.
pub(crate) struct RawClient(pub(crate) File);

impl RawClient {
    pub(crate) fn open(name: &str) -> Self {
        Self(OpenOptions::new().access_mode(ACCESS).open(name).unwrap())
    }

    /// The event of the greeting.
    pub(crate) fn greeting(&mut self) -> Event {
        let mut bytes = [0; 64];
        let len = self.0.read(&mut bytes).unwrap();
        let value = u64::from_le_bytes(bytes[len - 8..len].try_into().unwrap());
        // SAFETY: the service has put this handle into this process.
        Event(unsafe { OwnedHandle::from_raw_handle(value as usize as _) })
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        assert_eq!(self.0.write(bytes).unwrap(), bytes.len());
    }
}

/// A service's end and a client that follows no rule, except that it is what it says.
pub(crate) fn raw_pair() -> (ServerChannel, RawClient) {
    let name = new_name();
    let mut listener = listen(&name);
    let mut client = RawClient::open(&name);
    let server = accept(&mut listener);
    client.greeting().set().unwrap();
    (server, client)
}

/// An event that stays set.
pub(crate) struct Event(pub(crate) OwnedHandle);

impl Event {
    pub(crate) fn new() -> Self {
        // SAFETY: no attributes, no name; the result is an own handle.
        Self(unsafe { OwnedHandle::from_raw_handle(CreateEventW(null(), 1, 0, null())) })
    }

    pub(crate) fn set(&self) -> std::io::Result<()> {
        // SAFETY: an open handle.
        match unsafe { SetEvent(self.0.as_raw_handle()) } {
            0 => Err(std::io::Error::last_os_error()),
            _ => Ok(()),
        }
    }

    pub(crate) fn is_set_within(&self, timeout: Duration) -> bool {
        wait_for(&[self.0.as_handle()], Some(timeout)).unwrap().is_some()
    }

    pub(crate) fn handle(&self) -> BorrowedHandle<'_> {
        self.0.as_handle()
    }

    /// The value of its handle.
    pub(crate) fn value(&self) -> u64 {
        self.0.as_raw_handle() as u64
    }
}
