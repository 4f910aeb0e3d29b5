//! Windows' services, as the registry and the service manager have them.

use super::wide;
use std::io;
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_MORE_DATA, ERROR_NO_MORE_ITEMS, ERROR_SUCCESS};
use windows_sys::Win32::System::Registry::{
    HKEY, HKEY_LOCAL_MACHINE, KEY_READ, KEY_SET_VALUE, REG_DWORD, REG_EXPAND_SZ, REG_SZ, RegCloseKey, RegDeleteValueW,
    RegEnumKeyExW, RegOpenKeyExW, RegQueryValueExW, RegSetValueExW,
};
use windows_sys::Win32::System::Services::{
    ChangeServiceConfigW, CloseServiceHandle, OpenSCManagerW, OpenServiceW, SC_HANDLE, SC_MANAGER_CONNECT,
    SERVICE_CHANGE_CONFIG, SERVICE_NO_CHANGE,
};

/// Below this key each service has one of its name.
const SERVICES: &str = r"SYSTEM\CurrentControlSet\Services";

/// The longest value that is read, in bytes. Command lines are far shorter.
const LONGEST_VALUE: usize = 1 << 17;

/// A text of the registry, exactly as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegistryText {
    /// `REG_SZ`, or `REG_EXPAND_SZ` (with variables).
    kind: u32,
    bytes: Vec<u8>,
}

impl RegistryText {
    /// A text with variables.
    #[cfg(test)]
    pub(crate) fn new(text: &str) -> Self {
        Self { kind: REG_EXPAND_SZ, bytes: wide(text).into_iter().flat_map(u16::to_le_bytes).collect() }
    }

    /// The text. What is no Unicode is replaced.
    pub(crate) fn text(&self) -> String {
        let (pairs, _) = self.bytes.as_chunks::<2>();
        let units = pairs.iter().map(|pair| u16::from_le_bytes(*pair)).take_while(|unit| *unit != 0);
        char::decode_utf16(units).map(|unit| unit.unwrap_or(char::REPLACEMENT_CHARACTER)).collect()
    }

    /// Whether variables in it are replaced when it is used.
    pub(crate) fn has_variables(&self) -> bool {
        self.kind == REG_EXPAND_SZ
    }
}

/// A key of the registry.
struct Key(HKEY);

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: a key that is open, and not used any more.
        unsafe { RegCloseKey(self.0) };
    }
}

fn checked(code: u32) -> io::Result<()> {
    if code == ERROR_SUCCESS { Ok(()) } else { Err(io::Error::from_raw_os_error(code.cast_signed())) }
}

/// `None` if there is no such key, or value.
fn if_found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.raw_os_error() == Some(ERROR_FILE_NOT_FOUND.cast_signed()) => Ok(None),
        result => result.map(Some),
    }
}

impl Key {
    fn open(path: &str, rights: u32) -> io::Result<Self> {
        let (path, mut key) = (wide(path), null_mut());
        // SAFETY: a text that ends with a zero, and a place for the result.
        checked(unsafe { RegOpenKeyExW(HKEY_LOCAL_MACHINE, path.as_ptr(), 0, rights, &raw mut key) })?;
        Ok(Self(key))
    }

    /// A value: its type and its bytes.
    fn value(&self, name: &str) -> io::Result<Option<(u32, Vec<u8>)>> {
        let name = wide(name);
        let (mut kind, mut bytes) = (0, vec![0; 1024]);
        loop {
            let mut size = bytes.len() as u32;
            // SAFETY: an open key, a text that ends with a zero, and room for so many bytes.
            let code = unsafe {
                RegQueryValueExW(self.0, name.as_ptr(), null(), &raw mut kind, bytes.as_mut_ptr(), &raw mut size)
            };
            if code == ERROR_MORE_DATA && bytes.len() < LONGEST_VALUE {
                bytes.resize(bytes.len() * 2, 0);
                continue;
            }
            return if_found(checked(code).map(|()| {
                bytes.truncate(size as usize);
                (kind, bytes)
            }));
        }
    }

    fn text(&self, name: &str) -> io::Result<Option<RegistryText>> {
        let value = self.value(name)?;
        Ok(value
            .filter(|(kind, _)| [REG_SZ, REG_EXPAND_SZ].contains(kind))
            .map(|(kind, bytes)| RegistryText { kind, bytes }))
    }

    fn number(&self, name: &str) -> io::Result<Option<u32>> {
        let value = self.value(name)?.filter(|(kind, _)| *kind == REG_DWORD);
        Ok(value.and_then(|(_, bytes)| bytes.try_into().ok()).map(u32::from_le_bytes))
    }
}

/// A service, as the registry has it.
#[derive(Clone, Debug)]
pub(crate) struct ServiceEntry {
    /// `SERVICE_` bits: what kind of service, or of driver.
    pub(crate) kind: u32,
    /// Its command line.
    pub(crate) command_line: Option<RegistryText>,
    /// It is a protected process.
    pub(crate) is_protected: bool,
}

fn path_of(service: &str) -> io::Result<String> {
    if service.is_empty() || service.contains(['\\', '/']) {
        return Err(io::Error::from_raw_os_error(ERROR_FILE_NOT_FOUND.cast_signed()));
    }
    Ok(format!(r"{SERVICES}\{service}"))
}

/// Reads a service; `None` if there is none of this name.
pub(crate) fn read(service: &str) -> io::Result<Option<ServiceEntry>> {
    let Some(key) = if_found(path_of(service).and_then(|path| Key::open(&path, KEY_READ)))? else { return Ok(None) };
    // Keys without a type are no services, but belong to one.
    let Some(kind) = key.number("Type")? else { return Ok(None) };
    let is_protected = key.number("LaunchProtected")?.is_some_and(|kind| kind != 0);
    Ok(Some(ServiceEntry { kind, command_line: key.text("ImagePath")?, is_protected }))
}

/// A text of a service that is no part of its configuration.
pub(crate) fn note(service: &str, name: &str) -> io::Result<Option<RegistryText>> {
    let Some(key) = if_found(path_of(service).and_then(|path| Key::open(&path, KEY_READ)))? else { return Ok(None) };
    key.text(name)
}

/// Writes a text of a service, or removes it.
pub(crate) fn set_text(service: &str, name: &str, text: Option<&RegistryText>) -> io::Result<()> {
    let key = Key::open(&path_of(service)?, KEY_SET_VALUE)?;
    let name = wide(name);
    let code = match text {
        // SAFETY: an open key, a text that ends with a zero, and so many bytes.
        Some(RegistryText { kind, bytes }) => unsafe {
            RegSetValueExW(key.0, name.as_ptr(), 0, *kind, bytes.as_ptr(), bytes.len() as u32)
        },
        // SAFETY: an open key, and a text that ends with a zero.
        None => unsafe { RegDeleteValueW(key.0, name.as_ptr()) },
    };
    checked(code)
}

/// The names of all services and drivers.
pub(crate) fn names() -> io::Result<Vec<String>> {
    /// Names of keys are shorter.
    const LONGEST: usize = 256;
    let key = Key::open(SERVICES, KEY_READ)?;
    let mut names = Vec::new();
    for number in 0.. {
        let (mut name, mut len) = ([0_u16; LONGEST], LONGEST as u32);
        // SAFETY: an open key, and room for so many units; no class, no time.
        let code = unsafe {
            RegEnumKeyExW(key.0, number, name.as_mut_ptr(), &raw mut len, null(), null_mut(), null_mut(), null_mut())
        };
        if code == ERROR_NO_MORE_ITEMS {
            break;
        }
        checked(code)?;
        names.push(String::from_utf16_lossy(&name[..len as usize]));
    }
    Ok(names)
}

/// A handle of the service manager.
struct ManagerHandle(SC_HANDLE);

impl ManagerHandle {
    fn new(handle: SC_HANDLE) -> io::Result<Self> {
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Self(handle)) }
    }
}

impl Drop for ManagerHandle {
    fn drop(&mut self) {
        // SAFETY: a handle that is open, and not used any more.
        unsafe { CloseServiceHandle(self.0) };
    }
}

/// Has the service manager start a service by this command line from now on.
pub(crate) fn set_command_line(service: &str, line: &str) -> io::Result<()> {
    let (name, line) = (wide(service), wide(line));
    // SAFETY: this computer, and its usual database.
    let manager = ManagerHandle::new(unsafe { OpenSCManagerW(null(), null(), SC_MANAGER_CONNECT) })?;
    // SAFETY: an open handle, and a text that ends with a zero.
    let service = ManagerHandle::new(unsafe { OpenServiceW(manager.0, name.as_ptr(), SERVICE_CHANGE_CONFIG) })?;
    let same = SERVICE_NO_CHANGE;
    // SAFETY: an open handle, and a text that ends with a zero. The rest stays as it is.
    let done = unsafe {
        ChangeServiceConfigW(
            service.0,
            same,
            same,
            same,
            line.as_ptr(),
            null(),
            null_mut(),
            null(),
            null(),
            null(),
            null(),
        )
    };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_are_read_as_the_registry_has_them() {
        let names = names().unwrap();
        assert!(names.len() > 1, "{names:?}");
        let found = names.iter().filter_map(|name| read(name).unwrap()).find_map(|entry| entry.command_line);
        assert!(!found.unwrap().text().is_empty());
        for missing in ["no such service", "", r"..\Services", "a/b"] {
            assert!(read(missing).unwrap().is_none() && note(missing, "x").unwrap().is_none(), "{missing}");
        }
    }

    #[test]
    fn texts_keep_their_bytes_and_variables_are_replaced() {
        let text = RegistryText { kind: REG_SZ, bytes: vec![0x61, 0, 0, 0xd8, 0x62, 0] };
        assert_eq!((text.text().as_str(), text.has_variables()), ("a\u{fffd}b", false));
        assert!(RegistryText::new("x").has_variables() && RegistryText::new("x").text() == "x");
    }
}
