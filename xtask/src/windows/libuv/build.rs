//! Building libuv's tests, from Debian's source, which apt-get downloads. libuv is compiled as its
//! authors do for Windows. Its tests have one more header, and the runner longer timeouts.

use crate::third_party::{bounded, finish, made};
use crate::windows::CC;
use crate::windows::programs::unpack_debian_source;
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Debian's source package.
const PACKAGE: &str = "libuv1";

/// What is added to it: the meaning of 127.0.0.1 in the tests, and longer timeouts.
const HEADER: &str = include_str!("loopback.h");
const TIMEOUTS: &str = include_str!("timeouts.c");

const PROGRAM: &str = "libuv_tests.exe";

/// As libuv's build files have them for Windows.
const DEFINITIONS: &str = "-DWIN32_LEAN_AND_MEAN -D_WIN32_WINNT=0x0602";
const LIBRARIES: &str = "-lpsapi -luser32 -ladvapi32 -liphlpapi -luserenv -lws2_32 -ldbghelp -lole32 -lshell32";

/// The sources of the runner and of its helpers, beside those of the tests.
const RUNNER: &str = "test/blackhole-server.c test/echo-server.c test/run-tests.c test/runner.c test/runner-win.c";

fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("windows-libuv"))
}

/// The program with all tests.
pub(super) fn program() -> Result<PathBuf> {
    Ok(folder()?.join(PROGRAM))
}

/// Downloads and compiles, unless that was done with the same additions.
pub(super) fn build() -> Result<()> {
    let folder = folder()?;
    let shown = format!("{PACKAGE}, Debian's source (11 MB with Debian's lists), into {}", folder.display());
    let stamp = folder.with_extension("made");
    made(&stamp, &shown, &format!("{PACKAGE}\n{HEADER}\n{TIMEOUTS}"), || {
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let source = unpack_debian_source(&folder, PACKAGE)?;
        for (name, text) in [("loopback.h", HEADER), ("timeouts.c", TIMEOUTS)] {
            fs::write(source.join(name), text).with_context(|| format!("cannot write {name}"))?;
        }
        compile(&source)
    })
    .context("libuv's tests cannot be had here")
}

fn compile(source: &Path) -> Result<()> {
    let flags = format!("-O1 -w -Iinclude -Isrc -Itest {DEFINITIONS}");
    let library = format!("{CC} {flags} -c src/*.c src/win/*.c");
    finish(&mut bounded(&["sh", "-c", &library], source))?;
    // Some tests contain a file of libuv, so it is there twice.
    let linked = "-Wl,--allow-multiple-definition,--wrap=process_wait";
    let tests = format!(
        "{CC} {flags} -include loopback.h {linked} -o {PROGRAM} test/test-*.c {RUNNER} timeouts.c *.o {LIBRARIES}"
    );
    finish(&mut bounded(&["sh", "-c", &tests], source))?;
    fs::rename(source.join(PROGRAM), program()?).context("the tests have not been built")
}
