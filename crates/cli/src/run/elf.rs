//! As much of the ELF format as is needed to see which loader a program asks for.
//!
//! Any executable file may be given to us, so offsets and counts in it are bounded and checked.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What kind of file a program is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// ELF with a loader (PT_INTERP).
    Dynamic(PathBuf),
    /// ELF without a loader.
    Static,
    /// Text that begins with `#!` and the interpreter's path.
    Script(PathBuf),
    /// Something else; the kernel or a shell will know.
    Other,
}

const PT_INTERP: u32 = 3;
/// Far more than any program has; the kernel's own limit is a page of them.
const MAX_HEADERS: u64 = 1024;
const MAX_PATH: u64 = 4096;

/// Reads the first bytes of a program.
pub(super) fn inspect(path: &Path) -> io::Result<Image> {
    let mut file = File::open(path)?;
    let mut start = Vec::new();
    file.by_ref().take(256).read_to_end(&mut start)?;
    if let Some(line) = start.strip_prefix(b"#!") {
        return Ok(script(line));
    }
    if !start.starts_with(b"\x7fELF") {
        return Ok(Image::Other);
    }
    Ok(interpreter(&file, &start)?.map_or(Image::Static, Image::Dynamic))
}

fn script(line: &[u8]) -> Image {
    let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    // As the kernel does it: a carriage return is a part of the name.
    text.split([' ', '\t']).find(|part| !part.is_empty()).map_or(Image::Other, |path| Image::Script(path.into()))
}

/// Field offsets of the file header and of a program header, for both classes of file (ELF-64 and ELF-32).
struct Layout {
    phoff: usize,
    phentsize: usize,
    offset: usize,
    filesz: usize,
    wide: bool,
}

const WIDE: Layout = Layout { phoff: 32, phentsize: 54, offset: 8, filesz: 32, wide: true };
const NARROW: Layout = Layout { phoff: 28, phentsize: 42, offset: 4, filesz: 16, wide: false };

fn interpreter(file: &File, start: &[u8]) -> io::Result<Option<PathBuf>> {
    let layout = match (start.get(4), start.get(5)) {
        (Some(2), Some(1)) => WIDE,
        (Some(1), Some(1)) => NARROW,
        _ => return Err(malformed("unknown ELF class or byte order")),
    };
    let phoff = word(start, layout.phoff, layout.wide)?;
    let size = half(start, layout.phentsize)?;
    let count = u64::from(half(start, layout.phentsize + 2)?);
    if count > MAX_HEADERS || usize::from(size) < layout.filesz + 8 {
        return Err(malformed("bad program headers"));
    }
    let mut header = vec![0; usize::from(size)];
    for index in 0..count {
        let at = phoff.checked_add(index * u64::from(size)).ok_or_else(|| malformed("bad program header offset"))?;
        file.read_exact_at(&mut header, at)?;
        if word(&header, 0, false)? != u64::from(PT_INTERP) {
            continue;
        }
        let at = word(&header, layout.offset, layout.wide)?;
        let length = word(&header, layout.filesz, layout.wide)?.min(MAX_PATH);
        let mut path = vec![0; usize::try_from(length).map_err(|_| malformed("bad interpreter length"))?];
        file.read_exact_at(&mut path, at)?;
        let path = path.split(|b| *b == 0).next().unwrap_or_default();
        return Ok(Some(PathBuf::from(String::from_utf8_lossy(path).into_owned())));
    }
    Ok(None)
}

fn half(bytes: &[u8], at: usize) -> io::Result<u16> {
    let field = bytes.get(at..at + 2).and_then(|b| b.try_into().ok());
    field.map(u16::from_le_bytes).ok_or_else(|| malformed("short ELF header"))
}

fn word(bytes: &[u8], at: usize, wide: bool) -> io::Result<u64> {
    let short = || malformed("short ELF header");
    if wide {
        bytes.get(at..at + 8).and_then(|b| b.try_into().ok()).map(u64::from_le_bytes).ok_or_else(short)
    } else {
        bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(u32::from_le_bytes).map(u64::from).ok_or_else(short)
    }
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inspect_bytes(bytes: &[u8]) -> io::Result<Image> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("program");
        std::fs::write(&path, bytes).unwrap();
        inspect(&path)
    }

    #[test]
    fn this_very_test_asks_for_a_loader() {
        let Image::Dynamic(loader) = inspect(Path::new("/proc/self/exe")).unwrap() else { panic!("not dynamic") };
        assert!(loader.is_absolute(), "{loader:?}");
    }

    #[test]
    fn a_script_names_its_interpreter() {
        assert_eq!(inspect_bytes(b"#! /bin/sh -e\necho").unwrap(), Image::Script("/bin/sh".into()));
        assert_eq!(inspect_bytes(b"#!").unwrap(), Image::Other);
        assert_eq!(inspect_bytes(b"echo hello").unwrap(), Image::Other);
        assert_eq!(inspect_bytes(b"").unwrap(), Image::Other);
    }

    #[test]
    fn a_program_without_loader_is_static_and_a_damaged_one_an_error() {
        let mut header = vec![0; 64];
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
        header[54] = 56;
        assert_eq!(inspect_bytes(&header).unwrap(), Image::Static);
        header[56] = 9;
        header[32] = 0xff;
        assert!(inspect_bytes(&header).is_err(), "headers lie outside the file");
        header[57] = 0xff;
        assert!(inspect_bytes(&header).is_err(), "too many headers");
        assert!(inspect_bytes(b"\x7fELF").is_err());
        assert!(inspect_bytes(b"\x7fELF\x02\x02").is_err(), "other byte order");
    }
}
