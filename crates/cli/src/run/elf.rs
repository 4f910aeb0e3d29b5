//! The part of the ELF format that names a program's loader (PT_INTERP) and marks programs built by
//! Go.
//!
//! The file is untrusted, so offsets and counts in it are bounded and checked.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// What kind of file a program is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Image {
    /// ELF with a loader (PT_INTERP).
    Dynamic(PathBuf),
    /// The same, built by the Go tool chain (according to a note). Go makes system calls by
    /// instructions of its own.
    Go(PathBuf),
    /// ELF without a loader.
    Static,
    /// Text that begins with `#!` and the interpreter's path.
    Script(PathBuf),
    /// Something else; the kernel or a shell decides.
    Other,
}

const PT_INTERP: u64 = 3;
const PT_NOTE: u64 = 4;
/// Far more than any program has; the kernel's own limit is a page of them.
const MAX_HEADERS: u64 = 1024;
const MAX_PATH: u64 = 4096;
/// Notes are some hundred bytes; bytes after this limit are ignored.
const MAX_NOTES: u64 = 4096;

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
    let Asked { loader, go } = asked(&file, &start)?;
    Ok(match loader {
        None => Image::Static,
        Some(loader) if go => Image::Go(loader),
        Some(loader) => Image::Dynamic(loader),
    })
}

fn script(line: &[u8]) -> Image {
    let line = line.split(|b| *b == b'\n').next().unwrap_or_default();
    let text = String::from_utf8_lossy(line);
    // As in the kernel, a carriage return is a part of the name.
    text.split([' ', '\t']).find(|part| !part.is_empty()).map_or(Image::Other, |path| Image::Script(path.into()))
}

/// Field offsets of the file header and of a program header, for both classes of file (ELF-64 and
/// ELF-32).
struct Layout {
    phoff: usize,
    phentsize: usize,
    offset: usize,
    filesz: usize,
    wide: bool,
}

const WIDE: Layout = Layout { phoff: 32, phentsize: 54, offset: 8, filesz: 32, wide: true };
const NARROW: Layout = Layout { phoff: 28, phentsize: 42, offset: 4, filesz: 16, wide: false };

/// What the program headers say.
#[derive(Default)]
struct Asked {
    loader: Option<PathBuf>,
    go: bool,
}

fn asked(file: &File, start: &[u8]) -> io::Result<Asked> {
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
    let mut asked = Asked::default();
    for index in 0..count {
        let at = phoff.checked_add(index * u64::from(size)).ok_or_else(|| malformed("bad program header offset"))?;
        file.read_exact_at(&mut header, at)?;
        let segment = |most: u64| -> io::Result<Vec<u8>> {
            let at = word(&header, layout.offset, layout.wide)?;
            let length = word(&header, layout.filesz, layout.wide)?.min(most);
            let mut bytes = vec![0; usize::try_from(length).map_err(|_| malformed("bad segment length"))?];
            file.read_exact_at(&mut bytes, at)?;
            Ok(bytes)
        };
        match word(&header, 0, false)? {
            PT_INTERP if asked.loader.is_none() => {
                let path = segment(MAX_PATH)?;
                let path = path.split(|b| *b == 0).next().unwrap_or_default();
                asked.loader = Some(PathBuf::from(String::from_utf8_lossy(path).into_owned()));
            }
            // A damaged note is ignored: it changes nothing of how the program runs.
            PT_NOTE => asked.go |= segment(MAX_NOTES).is_ok_and(|notes| has_note_of(&notes, b"Go\0\0")),
            _ => {}
        }
    }
    Ok(asked)
}

/// Whether one of the notes has that owner. A note is the length of the owner's name, the length of
/// the description and a type, then name and description, each padded to four bytes.
fn has_note_of(mut notes: &[u8], owner: &[u8]) -> bool {
    while let (Ok(name), Ok(said)) = (word(notes, 0, false), word(notes, 4, false)) {
        let name = name as usize;
        if notes.get(12..).and_then(|rest| rest.get(..name)) == Some(owner) {
            return true;
        }
        let next = 12 + name.next_multiple_of(4) + (said as usize).next_multiple_of(4);
        let Some(rest) = notes.get(next..) else { break };
        notes = rest;
    }
    false
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

    /// The notes that the linker puts into a program built from Go and C.
    #[test]
    fn a_program_made_from_go_is_known_by_its_note() {
        let mut program = vec![0; 64 + 2 * 56];
        program[..6].copy_from_slice(b"\x7fELF\x02\x01");
        (program[32], program[54], program[56]) = (64, 56, 2);
        let segments: [(u8, &[u8]); 2] = [
            (3, b"/lib64/ld-linux-x86-64.so.2\0"),
            (4, b"\x04\0\0\0\x03\0\0\0\x01\0\0\0GNU\0abc\0\x04\0\0\0\x02\0\0\0\x04\0\0\0Go\0\0id\0\0"),
        ];
        for (index, (kind, bytes)) in segments.into_iter().enumerate() {
            let (header, at) = (64 + 56 * index, program.len());
            program[header] = kind;
            program[header + 8..header + 16].copy_from_slice(&(at as u64).to_le_bytes());
            program[header + 32..header + 40].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
            program.extend_from_slice(bytes);
        }
        let loader = PathBuf::from("/lib64/ld-linux-x86-64.so.2");
        assert_eq!(inspect_bytes(&program).unwrap(), Image::Go(loader.clone()));
        let end = program.len();
        program[end - 8] = b'N';
        assert_eq!(inspect_bytes(&program).unwrap(), Image::Dynamic(loader.clone()));
        program.truncate(end - 2);
        assert_eq!(inspect_bytes(&program).unwrap(), Image::Dynamic(loader), "a damaged note is ignored");
        assert!(!has_note_of(&[0xff; 40], b"Go\0\0"));
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
