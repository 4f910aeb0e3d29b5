//! The boot ID of the machine. Counters restart at each boot, so a page from an earlier boot is
//! invalid.

/// The kernel's random UUID of this boot; empty if it cannot be read (no /proc).
#[must_use]
pub fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map(|id| id.trim().to_owned()).unwrap_or_default()
}

/// The boot ID as a number of 64 bits; 0 if there is none.
pub(crate) fn boot() -> u64 {
    number(&boot_id())
}

/// The first 64 bits of a UUID.
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
