//! The numbers of lanes: a lane's number is the interface index of its device, and part of the
//! device's name. It is chosen before the device is made, because the lane's slot in the arrays of
//! the BPF programs follows from it.

/// The kernel's indices are positive and of 32 bits; the upper half is for lanes' bulk devices.
const MOST: u32 = tickwire_lane_linux::sys_tap::BULK_DEVICE - 1;

/// The loopback has number 1.
const FIRST: u32 = 2;

/// At most so many are tried: more than any array has slots.
const ATTEMPTS: usize = 1 << 16;

/// Chooses numbers; none is used again before all others have been.
#[derive(Debug, Default)]
pub(crate) struct Numbers {
    last: u32,
}

impl Numbers {
    /// Begins after this one.
    pub(crate) fn begin_after(&mut self, last: u32) {
        self.last = last;
    }

    /// The next number that is free.
    pub(crate) fn next(&mut self, mut is_free: impl FnMut(u32) -> bool) -> Option<u32> {
        (0..ATTEMPTS).find_map(|_| {
            self.last = if self.last < MOST { (self.last + 1).max(FIRST) } else { FIRST };
            is_free(self.last).then_some(self.last)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on_and_begin_anew_and_pass_over_what_is_taken() {
        let mut numbers = Numbers::default();
        assert_eq!(numbers.next(|_| true), Some(FIRST));
        assert_eq!(numbers.next(|n| n % 512 != 3), Some(4));
        numbers.begin_after(MOST - 1);
        assert_eq!([numbers.next(|_| true), numbers.next(|_| true)], [Some(MOST), Some(FIRST)]);
        assert_eq!(numbers.next(|_| false), None);
    }
}
