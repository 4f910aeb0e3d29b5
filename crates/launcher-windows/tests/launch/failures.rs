//! Programs and libraries that cannot be used.

use crate::program::{Bed, CODE};
use std::path::PathBuf;
use tickwire_launcher_windows::error::{TextError, ThreadError};
use tickwire_launcher_windows::library_file::LibraryFault;
use tickwire_launcher_windows::{EnterError, EnteredBy, Launch, LaunchError, LoadState};
use windows_sys::Win32::System::Diagnostics::Debug::{SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SetErrorMode};

/// What Windows ends a process with that cannot load all that its program imports.
const STATUS_DLL_NOT_FOUND: u32 = 0xc000_0135;

fn error(launch: Launch) -> LaunchError {
    launch.start().unwrap_err()
}

#[test]
fn a_program_that_is_missing_is_not_found() {
    let bed = Bed::new("report");
    for program in ["no-such-program", r"C:\no such folder\p.exe", ""] {
        let error = error(Launch { program: program.into(), ..bed.launch.clone() });
        assert!(matches!(error, LaunchError::NotFound), "{program}: {error}");
        assert_eq!(error.exit_code(), 127);
    }
    assert!(matches!(error(Launch { program: bed.folder.path().into(), ..bed.launch }), LaunchError::NotFound));
}

#[test]
fn other_files_are_no_programs() {
    let bed = Bed::new("report");
    let file = |name: &str, bytes: &[u8]| {
        let program = bed.folder.path().join(name);
        std::fs::write(&program, bytes).unwrap();
        error(Launch { program, ..bed.launch.clone() })
    };
    for bytes in [&b"text"[..], b"", b"M", b"\x7fELF\x02\x01\x01", b"MZ", &[b'M', b'Z', 0, 0]] {
        let error = file("program.exe", bytes);
        assert!(matches!(error, LaunchError::NotExecutable), "{bytes:?}: {error:?}");
        assert_eq!(error.exit_code(), 126);
    }
    assert!(matches!(file("script.cmd", b"exit 3"), LaunchError::Batch));
}

/// A program of 32 bits starts where Windows has the libraries for it, but not with ours.
#[test]
fn a_program_of_32_bits_is_refused() {
    let error = error_of_image(&image_of_32_bits());
    assert!(matches!(error, LaunchError::NotEntered(EnterError::OtherArchitecture("32 bits"))), "{error:?}");
}

#[test]
fn a_program_for_another_processor_is_refused() {
    let mut bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
    let start = u32::from_le_bytes(bytes[60..64].try_into().unwrap()) as usize;
    bytes[start + 4..start + 6].copy_from_slice(&0xaa64_u16.to_le_bytes());
    let error = error_of_image(&bytes);
    let is_refused =
        matches!(error, LaunchError::NotExecutable | LaunchError::NotEntered(EnterError::OtherArchitecture(_)));
    assert!(is_refused, "{error:?}");
}

/// The error of a program with these bytes, which must not run without the library.
fn error_of_image(bytes: &[u8]) -> LaunchError {
    let bed = Bed::new("report");
    let program = bed.folder.path().join("other.exe");
    std::fs::write(&program, bytes).unwrap();
    let error = error(Launch { program, require: true, ..bed.launch.clone() });
    assert!(!bed.has_report());
    error
}

/// The smallest program of 32 bits: headers, and a section with one instruction.
fn image_of_32_bits() -> Vec<u8> {
    let mut image = vec![0; 0x400];
    let mut put = |at: usize, numbers: &[u32]| {
        for (place, number) in image[at..].chunks_exact_mut(4).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    };
    put(0, &[u32::from(u16::from_le_bytes(*b"MZ"))]);
    put(60, &[0x40]);
    // Signature; one section for an i386; length of the optional header, and what the file is.
    put(0x40, &[u32::from_le_bytes(*b"PE\0\0"), 0x1_014c]);
    put(0x54, &[0x0103_00e0]);
    // Format; entry point; base, alignments, version 4, sizes, console, stack and heap.
    put(0x58, &[0x10b]);
    put(0x68, &[0x1000, 0x1000, 0, 0x40_0000, 0x1000, 0x200, 4, 0, 4, 0, 0x2000, 0x200, 0, 3]);
    put(0xa0, &[0x10_0000, 0x1000, 0x10_0000, 0x1000, 0, 16]);
    // `ret` in a section that is executable and readable.
    put(0x138, &[u32::from_le_bytes(*b".tex"), u32::from(b't'), 1, 0x1000, 0x200, 0x200, 0, 0, 0, 0x6000_0020]);
    put(0x200, &[0xc3]);
    image
}

/// The program imports a library that does not exist, so Windows does not let it run, with our
/// library or without.
#[test]
fn a_program_that_cannot_be_loaded_ends() {
    // SAFETY: the call takes numbers. Without it Windows shows a window, and waits for an answer.
    unsafe { SetErrorMode(SEM_FAILCRITICALERRORS | SEM_NOGPFAULTERRORBOX) };
    let bed = Bed::new("report");
    let mut bytes = std::fs::read(&bed.launch.program).unwrap();
    let names = bytes.windows(12).enumerate().filter(|(_, bytes)| bytes.eq_ignore_ascii_case(b"kernel32.dll"));
    let places: Vec<_> = names.map(|(at, _)| at).collect();
    places.into_iter().for_each(|at| bytes[at] = b'z');
    let program = bed.folder.path().join("unloadable.exe");
    std::fs::write(&program, bytes).unwrap();
    let launch = Launch { program, ..bed.launch.clone() };

    let program = Launch { only: Some(EnteredBy::ImportTable), ..launch.clone() }.start().unwrap();
    assert_eq!(program.wait().unwrap(), STATUS_DLL_NOT_FOUND);
    assert_eq!(program.load_state(), LoadState::Ended);

    let launch = Launch { only: Some(EnteredBy::RemoteThread), ..launch };
    let program = launch.start().unwrap();
    let error = program.entered().unwrap_err();
    let EnterError::Failed { thread: ThreadError::Ended(code), .. } = error else { panic!("{error}") };
    assert_eq!((*code, program.wait().unwrap()), (STATUS_DLL_NOT_FOUND, STATUS_DLL_NOT_FOUND));
    assert_eq!(program.load_state(), LoadState::NotEntered);
    assert!(matches!(Launch { require: true, ..launch }.start(), Err(LaunchError::NotEntered(_))));
    assert!(!bed.has_report());
}

/// Paths of what is no library: none, a text, a program.
fn no_libraries(bed: &Bed) -> [PathBuf; 3] {
    let text = bed.folder.path().join("text.dll");
    std::fs::write(&text, "text").unwrap();
    [bed.folder.path().join("missing.dll"), text, bed.launch.program.clone()]
}

#[test]
fn without_the_library_the_program_runs() {
    for at in 0..3 {
        let bed = Bed::new("report");
        let library = no_libraries(&bed)[at].clone();
        let program = Launch { library, ..bed.launch.clone() }.start().unwrap();
        let error = program.entered().unwrap_err();
        let EnterError::Library(error) = error else { panic!("{error}") };
        let is_expected = match at {
            0 => matches!(error.fault, LibraryFault::Unreadable(_)),
            1 => matches!(error.fault, LibraryFault::Image(_)),
            _ => matches!(error.fault, LibraryFault::Program),
        };
        assert!(is_expected, "{error}");
        assert_eq!(program.wait_until_loaded(crate::program::SOON), LoadState::NotEntered);
        assert_eq!(program.wait().unwrap(), CODE);
        assert!(!bed.report().is_loaded);
    }
}

#[test]
fn a_required_library_keeps_the_program_from_running() {
    let bed = Bed::new("report");
    for library in no_libraries(&bed) {
        let error = error(Launch { library, require: true, ..bed.launch.clone() });
        assert!(matches!(error, LaunchError::NotEntered(EnterError::Library(_))), "{error}");
        assert_eq!(error.exit_code(), 69);
    }
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(!bed.has_report());
}

#[test]
fn texts_that_windows_cannot_pass_are_refused() {
    let bed = Bed::new("report");
    let arguments = vec!["a\0b".into()];
    let error_of = |launch: Launch| match error(launch) {
        LaunchError::Text(error) => error,
        other => panic!("{other}"),
    };
    assert_eq!(error_of(Launch { arguments, ..bed.launch.clone() }), TextError::Zero);
    let arguments = vec!["x".repeat(40_000).into()];
    assert_eq!(error_of(Launch { arguments, ..bed.launch.clone() }), TextError::TooLong);
    let environment = vec![("a=b".into(), None)];
    assert_eq!(error_of(Launch { environment, ..bed.launch.clone() }), TextError::Name);
}
