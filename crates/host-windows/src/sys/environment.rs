//! Variables in paths (`ExpandEnvironmentStringsW`).

use windows_sys::Win32::System::Environment::ExpandEnvironmentStringsW;

/// The documented limit of the result, in units of UTF-16.
const LONGEST: usize = 32_768;

/// A text with its variables (`%SystemRoot%`) replaced by those of this process. A variable that
/// is not there stays as it is; so does the whole text if the result would be too long.
#[must_use]
pub fn expanded(text: &str) -> String {
    let from: Vec<u16> = text.encode_utf16().chain([0]).collect();
    let mut to = vec![0; LONGEST];
    // SAFETY: a text that ends with a zero, and room for so many units.
    let len = unsafe { ExpandEnvironmentStringsW(from.as_ptr(), to.as_mut_ptr(), to.len() as u32) } as usize;
    if len == 0 || len > to.len() { text.into() } else { String::from_utf16_lossy(&to[..len - 1]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced() {
        assert!(expanded(r"%SystemRoot%\x").to_ascii_lowercase().ends_with(r"windows\x"));
        assert_eq!(expanded("%no such variable%"), "%no such variable%");
    }
}
