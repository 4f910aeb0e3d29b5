//! The security descriptor of sections and events: nothing is allowed to anything. An object
//! without one, as those without a name have it by default, is open to all that have a handle: a
//! program could widen the rights of its own.

use crate::security_descriptor::SecurityDescriptor;
use std::io;
use std::sync::OnceLock;
use windows_sys::Win32::Security::SECURITY_ATTRIBUTES;

/// A protected access list without entries.
const NOTHING: &str = "D:P";

/// Attributes for an object of which others get handles with the rights that this process grants.
///
/// # Errors
/// If there is no memory left.
pub(crate) fn attributes() -> io::Result<SECURITY_ATTRIBUTES> {
    static DESCRIPTOR: OnceLock<SecurityDescriptor> = OnceLock::new();
    let descriptor = match DESCRIPTOR.get() {
        Some(descriptor) => descriptor,
        None => {
            let made = SecurityDescriptor::from_text(NOTHING)?;
            DESCRIPTOR.get_or_init(|| made)
        }
    };
    Ok(descriptor.attributes())
}
