//! Programs built with AddressSanitizer: its library ends a program if another library is loaded
//! before it, as ours is.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// The variable for its options, and the option that permits ours to be loaded first.
const VARIABLE: &str = "ASAN_OPTIONS";
const SETTING: &str = "verify_asan_link_order=0";

const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;

/// Far more than any program has.
const MOST_HEADERS: u64 = 1024;
const MOST_ENTRIES: u64 = 4096;
const LONGEST_NAME: usize = 256;

/// Advice for the user of `tickwire run`, if the program is built that way and the option is not
/// set.
pub(super) fn advice(program: &Path) -> Option<String> {
    let options = std::env::var_os(VARIABLE);
    let prepared = options.as_deref().is_some_and(has_setting);
    let built_so =
        needed(program).is_ok_and(|names| names.iter().any(|name| name.as_bytes().starts_with(b"libasan.so")));
    (built_so && !prepared).then(|| {
        format!("it was built with AddressSanitizer, which ends it because Tickwire's library is loaded first: set {VARIABLE}={SETTING}")
    })
}

fn has_setting(options: &OsStr) -> bool {
    options.as_bytes().split(|&byte| matches!(byte, b':' | b',' | b' ')).any(|option| option == SETTING.as_bytes())
}

/// The libraries (DT_NEEDED) of a little-endian ELF-64 program.
fn needed(program: &Path) -> io::Result<Vec<OsString>> {
    let file = File::open(program)?;
    let mut start = [0; 64];
    file.read_exact_at(&mut start, 0)?;
    if !start.starts_with(&[0x7f, b'E', b'L', b'F', 2, 1]) {
        return Ok(Vec::new());
    }
    let (table, size, count) = (word(&start, 32), u64::from(half(&start, 54)), u64::from(half(&start, 56)));
    if size < 56 || count > MOST_HEADERS {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut segments = Vec::new();
    for index in 0..count {
        let mut header = [0; 56];
        file.read_exact_at(&mut header, table.saturating_add(index * size))?;
        segments.push((word(&header, 0) & 0xffff_ffff, word(&header, 8), word(&header, 16), word(&header, 32)));
    }
    let mut entries = Vec::new();
    for &(_, offset, _, length) in segments.iter().filter(|segment| segment.0 == PT_DYNAMIC) {
        for index in 0..(length / 16).min(MOST_ENTRIES) {
            let mut entry = [0; 16];
            file.read_exact_at(&mut entry, offset.saturating_add(index * 16))?;
            entries.push((word(&entry, 0), word(&entry, 8)));
        }
    }
    // DT_STRTAB is a virtual address: the segment that contains it gives the file offset.
    let strings = entries.iter().find(|entry| entry.0 == DT_STRTAB).and_then(|&(_, address)| {
        let holds = |&&(kind, _, begin, length): &&(u64, u64, u64, u64)| {
            kind == PT_LOAD && address >= begin && address - begin < length
        };
        segments.iter().find(holds).map(|&(_, offset, begin, _)| offset.saturating_add(address - begin))
    });
    let Some(strings) = strings else { return Ok(Vec::new()) };
    let name = |&(_, at): &(u64, u64)| {
        let mut name = vec![0; LONGEST_NAME];
        let length = file.read_at(&mut name, strings.saturating_add(at)).ok()?;
        let end = name[..length].iter().position(|&byte| byte == 0)?;
        Some(OsStr::from_bytes(&name[..end]).to_owned())
    };
    Ok(entries.iter().filter(|entry| entry.0 == DT_NEEDED).filter_map(name).collect())
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..at + 2).and_then(|b| b.try_into().ok()).map_or(0, u16::from_le_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::process::Command;

    #[test]
    fn the_libraries_of_a_program_are_read() {
        let names = needed(Path::new("/proc/self/exe")).unwrap();
        assert!(names.iter().any(|name| name == "libc.so.6"), "{names:?}");
        assert_eq!(advice(Path::new("/proc/self/exe")), None);
    }

    #[test]
    fn a_program_that_needs_the_sanitizers_library_is_known() {
        let directory = tempfile::tempdir().unwrap();
        let cc = |arguments: &str| {
            let mut cc = Command::new("cc");
            assert!(cc.current_dir(directory.path()).args(arguments.split(' ')).status().unwrap().success());
        };
        std::fs::write(directory.path().join("main.c"), "int main(void) { return 0; }").unwrap();
        // Any library with this soname suffices for the test.
        cc("-shared -Wl,-soname,libasan.so.8 -o libasan.so.8 -x c /dev/null");
        cc("-Wl,--no-as-needed -o program main.c libasan.so.8");
        let said = advice(&directory.path().join("program")).unwrap();
        assert!(said.ends_with("set ASAN_OPTIONS=verify_asan_link_order=0"), "{said}");
    }

    #[test]
    fn what_is_no_program_or_a_damaged_one_names_none() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        assert!(needed(file.path()).is_err());
        let mut header = [0xff; 64];
        header[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1]);
        file.write_all(&header).unwrap();
        assert!(needed(file.path()).is_err());
        assert!(needed(Path::new("/no/such/program")).is_err());
    }

    #[test]
    fn the_setting_is_found_among_others() {
        assert!(has_setting(OsStr::new("detect_leaks=0:verify_asan_link_order=0")));
        assert!(!has_setting(OsStr::new("verify_asan_link_order=1")) && !has_setting(OsStr::new("")));
    }
}
