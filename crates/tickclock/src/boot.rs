//! The boot ID of the machine. Counters restart at each boot, so a page from an earlier boot is
//! invalid.

/// The system's identifier of this boot, hexadecimal: on Linux the kernel's random UUID, on Windows
/// the number of the boot. Empty if there is none (no /proc).
#[must_use]
pub fn boot_id() -> String {
    crate::os::boot_id()
}

/// The boot ID as a number of 64 bits; 0 if there is none.
pub(crate) fn boot() -> u64 {
    number(&boot_id())
}

/// The first 64 bits of an identifier.
fn number(id: &str) -> u64 {
    id.chars().filter_map(|digit| digit.to_digit(16)).take(16).fold(0, |number, digit| number << 4 | u64::from(digit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boot_has_a_number() {
        assert_eq!(number("01234567-89ab-cdef-8000-000000000000\n"), 0x0123_4567_89ab_cdef);
        assert_eq!(number(""), 0);
        assert_eq!(boot(), boot());
    }
}
