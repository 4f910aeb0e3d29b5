//! The High Precision Event Timer's main counter, mapped into this process (IA-PC HPET
//! specification 1.0a, section 2.3).

use nix::sys::mman::{MapFlags, ProtFlags, mmap, munmap};
use std::fs::File;
use std::io;
use std::num::NonZero;
use std::path::Path;
use std::ptr::NonNull;

/// The size of the mapping: the page with the registers.
const LENGTH: NonZero<usize> = NonZero::new(4096).unwrap();
/// Registers, in bytes from the beginning: capabilities and period; configuration; main counter.
const CAPABILITIES: usize = 0x000;
const CONFIGURATION: usize = 0x010;
const COUNTER: usize = 0x0f0;
/// The longest period that the specification allows, in fs.
const LONGEST: u64 = 100_000_000;

/// The counter, open.
#[derive(Debug)]
pub struct Hpet {
    registers: NonNull<u8>,
    period_fs: u64,
    wide: bool,
}

// SAFETY: the mapping is only read, and by volatile reads of whole registers.
unsafe impl Send for Hpet {}
// SAFETY: as above.
unsafe impl Sync for Hpet {}

impl Hpet {
    /// Maps the registers of `device`, commonly `/dev/hpet`.
    ///
    /// # Errors
    /// There is no such device, the kernel does not let it be mapped (`CONFIG_HPET_MMAP`,
    /// `hpet_mmap=1`), or it does not run.
    pub fn open(device: impl AsRef<Path>) -> io::Result<Self> {
        let file = File::open(device)?;
        // SAFETY: a new mapping of a whole page at an address that the kernel chooses.
        let registers = unsafe { mmap(None, LENGTH, ProtFlags::PROT_READ, MapFlags::MAP_SHARED, &file, 0) }?.cast();
        let mut hpet = Self { registers, period_fs: 0, wide: false };
        let capabilities = hpet.register(CAPABILITIES);
        hpet.period_fs = capabilities >> 32;
        hpet.wide = capabilities & 1 << 13 != 0;
        if hpet.period_fs == 0 || hpet.period_fs > LONGEST {
            return Err(io::Error::other("its registers make no sense"));
        }
        if hpet.register(CONFIGURATION) & 1 == 0 {
            return Err(io::Error::other("it is stopped"));
        }
        Ok(hpet)
    }

    /// The counter now.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.register(COUNTER)
    }

    /// Nanoseconds from one count to the next.
    #[must_use]
    pub fn period(&self) -> f64 {
        self.period_fs as f64 * 1e-6
    }

    /// Width in bits.
    #[must_use]
    pub const fn bits(&self) -> u32 {
        if self.wide { 64 } else { 32 }
    }

    fn register(&self, at: usize) -> u64 {
        // SAFETY: all registers lie in the page, which stays mapped as long as `self` lives, at
        // multiples of 8 bytes.
        unsafe { self.registers.add(at).cast::<u64>().read_volatile() }
    }
}

impl Drop for Hpet {
    fn drop(&mut self) {
        // SAFETY: this value owns the mapping. A failure to unmap it would only leak a page.
        let _ = unsafe { munmap(self.registers.cast(), LENGTH.get()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn registers(capabilities: u64, configuration: u64, counter: u64) -> tempfile::NamedTempFile {
        let mut page = [0; 4096];
        page[0x00..0x08].copy_from_slice(&capabilities.to_ne_bytes());
        page[0x10..0x18].copy_from_slice(&configuration.to_ne_bytes());
        page[0xf0..0xf8].copy_from_slice(&counter.to_ne_bytes());
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&page).unwrap();
        file
    }

    #[test]
    fn the_registers_tell_period_width_and_count() {
        // 14.31818 MHz, 64 bits: what most machines have.
        let file = registers(69_841_279 << 32 | 1 << 13, 1, 42);
        let hpet = Hpet::open(file.path()).unwrap();
        assert_eq!((hpet.read(), hpet.bits()), (42, 64));
        assert!((hpet.period() - 69.841_279).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_running_counter_is_refused() {
        let stopped = registers(69_841_279 << 32, 0, 0);
        assert_eq!(Hpet::open(stopped.path()).unwrap_err().to_string(), "it is stopped");
        let nonsense = registers(u64::MAX, 1, 0);
        assert_eq!(Hpet::open(nonsense.path()).unwrap_err().to_string(), "its registers make no sense");
        assert_eq!(Hpet::open("/nonexistent/hpet").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
