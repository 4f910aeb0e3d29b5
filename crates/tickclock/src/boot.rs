//! Which start of the machine this is: counters begin anew with each, so a page from before it tells nothing.

/// The kernel's random number of this start, or 64 bits of it; 0 where it does not tell (no /proc).
pub(crate) fn boot() -> u64 {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").map_or(0, |id| number(&id))
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
