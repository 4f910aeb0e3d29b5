//! Which version of XDP's driver is installed, by its file: the driver itself does not tell.

use std::ffi::c_void;
use std::os::windows::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::ptr::null_mut;
use windows_sys::Win32::Storage::FileSystem::{
    GetFileVersionInfoSizeW, GetFileVersionInfoW, VS_FIXEDFILEINFO, VerQueryValueW,
};

/// The driver's file.
#[must_use]
pub fn file() -> PathBuf {
    let windows = std::env::var_os("SystemRoot").unwrap_or_else(|| r"C:\Windows".into());
    Path::new(&windows).join(r"System32\drivers\xdp.sys")
}

/// The four parts of the version of the driver's file. `None`: there is none, or it has none.
#[must_use]
pub fn installed() -> Option<[u16; 4]> {
    of_file(&file())
}

fn of_file(path: &Path) -> Option<[u16; 4]> {
    let name: Vec<u16> = path.as_os_str().encode_wide().chain([0]).collect();
    // SAFETY: a path that ends with a zero.
    let bytes = unsafe { GetFileVersionInfoSizeW(name.as_ptr(), null_mut()) };
    // As 64-bit words, so that they are aligned.
    let mut block = vec![0_u64; (bytes as usize).div_ceil(8)];
    // SAFETY: a path that ends with a zero, and room for so many bytes.
    let is_read = bytes > 0 && unsafe { GetFileVersionInfoW(name.as_ptr(), 0, bytes, block.as_mut_ptr().cast()) } != 0;
    if !is_read {
        return None;
    }
    let (mut value, mut length): (*mut c_void, u32) = (null_mut(), 0);
    let root = [u16::from(b'\\'), 0];
    // SAFETY: a block that was filled by the call above, and places for pointer and length.
    let is_there =
        unsafe { VerQueryValueW(block.as_ptr().cast(), root.as_ptr(), &raw mut value, &raw mut length) } != 0;
    if !is_there || value.is_null() || (length as usize) < size_of::<VS_FIXEDFILEINFO>() {
        return None;
    }
    // SAFETY: so many bytes of the block, which lives here; they may not be aligned.
    let info = unsafe { value.cast::<VS_FIXEDFILEINFO>().read_unaligned() };
    let parts = |word: u32| [(word >> 16) as u16, word as u16];
    let ([major, minor], [patch, build]) = (parts(info.dwFileVersionMS), parts(info.dwFileVersionLS));
    Some([major, minor, patch, build])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_windows_has_a_version_and_one_that_is_not_there_has_none() {
        let system = file().parent().unwrap().parent().unwrap().join("kernel32.dll");
        assert!(of_file(&system).is_some_and(|version| version[0] > 0), "{system:?}");
        assert_eq!(installed(), None);
    }
}
