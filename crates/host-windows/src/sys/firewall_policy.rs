//! The rules of Windows' firewall, as the registry has them: those of this machine, and those of
//! its group policies.

use super::{expanded, refused};
use crate::error::{IpHelperError, Result};
use crate::outbound_rules::{FirewallProfile, OutboundRules};
use std::ptr::{null, null_mut};
use windows_sys::Win32::Foundation::{ERROR_FILE_NOT_FOUND, ERROR_MORE_DATA, ERROR_NO_MORE_ITEMS, ERROR_SUCCESS};
use windows_sys::Win32::System::Registry::{
    HKEY, HKEY_LOCAL_MACHINE, KEY_READ, REG_DWORD, REG_SZ, RegCloseKey, RegEnumValueW, RegOpenKeyExW,
};

/// Where the policies are.
const POLICIES: [&str; 2] = [
    r"SYSTEM\CurrentControlSet\Services\SharedAccess\Parameters\FirewallPolicy",
    r"SOFTWARE\Policies\Microsoft\WindowsFirewall",
];

/// The keys of profiles below one. (The private one has two names.)
const PROFILES: [&str; 4] = ["DomainProfile", "PrivateProfile", "StandardProfile", "PublicProfile"];

const WHAT: &str = "say the rules of its firewall";

/// The longest name of a value, and the longest rule that is read, in characters.
const LONGEST_NAME: usize = 16_384;
const LONGEST_RULE: usize = 32_768;

/// A key of the registry.
struct Key(HKEY);

impl Drop for Key {
    fn drop(&mut self) {
        // SAFETY: a key that is open, and not used any more.
        unsafe { RegCloseKey(self.0) };
    }
}

/// A value of a key.
enum Value<'v> {
    Number(&'v str, u32),
    Text(&'v str),
}

impl Key {
    /// Opens a key; `None` if there is none.
    fn open(path: &str) -> Result<Option<Self>> {
        let (path, mut key) = (wide(path), null_mut());
        // SAFETY: a text that ends with a zero, and a place for the result.
        match unsafe { RegOpenKeyExW(HKEY_LOCAL_MACHINE, path.as_ptr(), 0, KEY_READ, &raw mut key) } {
            ERROR_SUCCESS => Ok(Some(Self(key))),
            ERROR_FILE_NOT_FOUND => Ok(None),
            code => Err(refused(WHAT, code)),
        }
    }

    /// Calls a function for each value.
    fn for_each(&self, mut take: impl FnMut(Value<'_>)) -> Result<()> {
        let (mut name, mut data) = (vec![0_u16; LONGEST_NAME], vec![0_u16; LONGEST_RULE]);
        for number in 0.. {
            let (mut name_len, mut kind) = (name.len() as u32, 0);
            let mut size = (data.len() * size_of::<u16>()) as u32;
            // SAFETY: an open key, and room for so many characters and bytes.
            let code = unsafe {
                RegEnumValueW(
                    self.0,
                    number,
                    name.as_mut_ptr(),
                    &raw mut name_len,
                    null(),
                    &raw mut kind,
                    data.as_mut_ptr().cast(),
                    &raw mut size,
                )
            };
            match code {
                ERROR_SUCCESS => {}
                ERROR_NO_MORE_ITEMS => break,
                // No rule of the firewall is so long, and it must not be one that is overlooked.
                ERROR_MORE_DATA => return Err(IpHelperError::TooLarge { what: WHAT, limit: LONGEST_RULE }),
                code => return Err(refused(WHAT, code)),
            }
            let units = &data[..size as usize / size_of::<u16>()];
            match (kind, units) {
                (REG_DWORD, &[low, high]) => {
                    let name = String::from_utf16_lossy(&name[..name_len as usize]);
                    take(Value::Number(&name, u32::from(high) << 16 | u32::from(low)));
                }
                (REG_SZ, units) => {
                    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
                    take(Value::Text(&String::from_utf16_lossy(&units[..end])));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

/// Reads the rules about packets that leave.
///
/// # Errors
/// If the registry does not tell them all.
pub(crate) fn outbound_rules() -> Result<OutboundRules> {
    let mut rules = OutboundRules::default();
    for policy in POLICIES {
        for profile in PROFILES {
            let Some(key) = Key::open(&format!(r"{policy}\{profile}"))? else { continue };
            let mut found = FirewallProfile::default();
            key.for_each(|value| match value {
                Value::Number("EnableFirewall", number) => found.is_on = Some(number),
                Value::Number("DefaultOutboundAction", number) => found.outbound = Some(number),
                _ => {}
            })?;
            rules.add_profile(found);
        }
        if let Some(key) = Key::open(&format!(r"{policy}\FirewallRules"))? {
            key.for_each(|value| {
                if let Value::Text(rule) = value {
                    rules.add_rule(rule, expanded);
                }
            })?;
        }
    }
    Ok(rules)
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port_owner::PortProtocol;

    #[test]
    fn the_registry_is_read_and_a_host_without_rules_lets_all_out() {
        assert!(Key::open(r"SOFTWARE\no such key").unwrap().is_none());
        let key = Key::open(r"SOFTWARE\Microsoft\Windows NT\CurrentVersion").unwrap().unwrap();
        let mut texts = 0;
        key.for_each(|value| texts += usize::from(matches!(value, Value::Text(text) if !text.is_empty()))).unwrap();
        assert!(texts > 0);
        assert!(outbound_rules().unwrap().lets_out(None, PortProtocol::Tcp, None), "Wine has no rules");
    }
}
