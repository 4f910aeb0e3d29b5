//! The ACPI power management timer, read by an I/O instruction (ACPI specification 6.5, sections
//! 4.8.2.1 and 5.2.9).

use std::io;
use std::path::Path;

/// Its frequency in Hz.
const FREQUENCY: f64 = 3_579_545.0;
/// Fields of the Fixed ACPI Description Table (FADT), in bytes from its beginning.
const PM_TMR_BLK: usize = 76;
const PM_TMR_LEN: usize = 91;
const FLAGS: usize = 112;
const X_PM_TMR_BLK: usize = 208;
/// The flag TMR_VAL_EXT: 32 bits instead of 24.
const WIDE: u32 = 1 << 8;

/// The timer, accessible to this thread and those that it starts.
#[derive(Debug)]
pub struct AcpiPm {
    #[cfg_attr(not(target_arch = "x86_64"), expect(dead_code))]
    port: u16,
    bits: u32,
}

impl AcpiPm {
    /// Finds the timer in the table `fadt`, commonly `/sys/firmware/acpi/tables/FACP`, and asks the
    /// kernel to let this thread read it.
    ///
    /// # Errors
    /// There is no such table or no timer in it, or the thread has no permission for port I/O
    /// (CAP_SYS_RAWIO).
    pub fn open(fadt: impl AsRef<Path>) -> io::Result<Self> {
        let (port, bits) = find(&std::fs::read(fadt)?).ok_or_else(|| io::Error::other("the firmware names none"))?;
        permit(port)?;
        Ok(Self { port, bits })
    }

    /// The timer now.
    #[must_use]
    pub fn read(&self) -> u64 {
        #[cfg(target_arch = "x86_64")]
        {
            let count: u32;
            // SAFETY: `open` got the permission to read this port, and reading has no side effect;
            // the instruction touches no memory.
            unsafe {
                core::arch::asm!("in eax, dx", in("dx") self.port, out("eax") count, options(nostack, preserves_flags))
            };
            u64::from(count)
        }
        #[cfg(not(target_arch = "x86_64"))]
        0
    }

    /// Nanoseconds from one count to the next.
    #[must_use]
    pub fn period(&self) -> f64 {
        1e9 / FREQUENCY
    }

    /// Width in bits; with 24 bits it wraps after 4.7 s.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        self.bits
    }
}

/// Port and width of the timer in a FADT.
fn find(fadt: &[u8]) -> Option<(u16, u32)> {
    let word = |at: usize| fadt.get(at..at + 4).map(|b| u32::from_le_bytes(b.try_into().expect("four bytes")));
    if fadt.get(..4)? != b"FACP" || *fadt.get(PM_TMR_LEN)? != 4 {
        return None;
    }
    // The extended block, an address in I/O space (1), takes precedence if there is one.
    let extended = (fadt.get(X_PM_TMR_BLK) == Some(&1)).then(|| word(X_PM_TMR_BLK + 4)).flatten();
    let port = extended.filter(|&port| port != 0).or_else(|| word(PM_TMR_BLK))?;
    let port = u16::try_from(port).ok().filter(|&port| port != 0)?;
    Some((port, if word(FLAGS)? & WIDE == 0 { 24 } else { 32 }))
}

#[cfg(target_arch = "x86_64")]
fn permit(port: u16) -> io::Result<()> {
    // SAFETY: only permits this thread to access four ports.
    let done = unsafe { libc::ioperm(port.into(), 4, 1) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(not(target_arch = "x86_64"))]
fn permit(_: u16) -> io::Result<()> {
    Err(io::Error::other("this processor has no I/O ports"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fadt() -> Vec<u8> {
        let mut table = vec![0; 244];
        table[..4].copy_from_slice(b"FACP");
        table[PM_TMR_BLK..PM_TMR_BLK + 4].copy_from_slice(&0x608_u32.to_le_bytes());
        table[PM_TMR_LEN] = 4;
        table
    }

    #[test]
    fn the_firmware_says_where_the_timer_is() {
        let mut table = fadt();
        assert_eq!(find(&table), Some((0x608, 24)));
        table[FLAGS + 1] = 1;
        assert_eq!(find(&table), Some((0x608, 32)));
        table[X_PM_TMR_BLK] = 1;
        table[X_PM_TMR_BLK + 4..X_PM_TMR_BLK + 8].copy_from_slice(&0x808_u32.to_le_bytes());
        assert_eq!(find(&table), Some((0x808, 32)));
        table.truncate(116);
        assert_eq!(find(&table), Some((0x608, 32)), "an old table is shorter");
    }

    #[test]
    fn a_table_without_a_timer_names_none() {
        let mut none = fadt();
        none[PM_TMR_LEN] = 0;
        assert_eq!(find(&none), None);
        assert_eq!(find(&fadt()[..80]), None);
        assert_eq!(find(b"DSDT"), None);
        let mut far = fadt();
        far[PM_TMR_BLK..PM_TMR_BLK + 4].copy_from_slice(&0xfed0_0000_u32.to_le_bytes());
        assert_eq!(find(&far), None, "no port has such a number");
    }
}
