//! Tools of EPICS for Windows: sources of Debian, and the libraries of a wheel for Windows. Python
//! on the peer has the same libraries for Linux.

use super::{debian_source, keep, registry};
use crate::third_party::{bounded, finish};
use anyhow::{Context, Result};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The libraries, headers and definitions, below the package's folder.
const WHEEL: &str = "epicscorelibs";

/// Definitions of records that an I/O controller loads first; it looks for them two folders up.
const DEFINITIONS: &str = r#"include "base.dbd"
include "asSub.dbd"
include "dlload.dbd"
include "system.dbd"
"#;

/// The libraries have no function that finds the program's own folder.
const NO_FOLDER: &str = "char *epicsGetExecDir(void);\nchar *epicsGetExecDir(void) { return 0; }\n";

/// `caget.exe` and `softIoc.exe` beside the libraries in `ioc/bin`, and Python's environment in
/// `venv`.
pub(super) fn make(folder: &Path, pinned: &str) -> Result<()> {
    let source = debian_source::unpacked(folder, "epics-base")?;
    registry::wheel(folder, pinned)?;
    let sources = [source.join("modules/ca/src/tools"), source.join("modules/database/src/std/softIoc")];
    names(folder, &sources)?;
    fs::write(folder.join("names/epicsInstallDir.h"), "#define EPICS_BASE \".\"\n").context("cannot write a header")?;
    fs::write(folder.join("no_folder.c"), NO_FOLDER).context("cannot write a source")?;
    let library = |name: &str| format!("{WHEEL}/lib/{name}.lib");
    let (ca, com) = (library("ca"), library("Com"));
    let options =
        "-O2 -w -D_MINGW -D_EPICS_GETOPT_H -include getopt.h -Inames -Isource/modules/libcom/src/osi/os/WIN32";
    let include = format!("-I{WHEEL}/include");
    let options: Vec<&str> = options.split(' ').chain([include.as_str()]).collect();
    let tools = "-DepicsStrtod=strtod -Isource/modules/ca/src/tools -o caget.exe \
                 source/modules/ca/src/tools/caget.c source/modules/ca/src/tools/tool_lib.c -lmingwex";
    let words: Vec<&str> = tools.split_whitespace().chain([ca.as_str(), &com, "-lws2_32"]).collect();
    finish(&mut bounded(&[&["x86_64-w64-mingw32-gcc"], &options[..], &words].concat(), folder))?;
    // The library of record types is loaded because the program names a symbol of it.
    let controller = "-DsoftIoc_registerRecordDeviceDriver=registerAllRecordDeviceDrivers \
                      -DepicsThreadExitMain=epicsThreadSuspendSelf -o softIoc.exe \
                      source/modules/database/src/std/softIoc/softMain.cpp no_folder.o -static \
                      -Wl,-u,__imp_pvar_func_tsInitialize -lmingwex";
    let (core, records) = (library("dbCore"), library("dbRecStd"));
    let words: Vec<&str> = controller.split_whitespace().chain([core.as_str(), &records, &ca, &com]).collect();
    finish(&mut bounded(&["x86_64-w64-mingw32-gcc", "-c", "no_folder.c"], folder))?;
    finish(&mut bounded(&[&["x86_64-w64-mingw32-g++"], &options[..], &words].concat(), folder))?;
    let (programs, definitions) = (folder.join("ioc/bin"), folder.join("dbd"));
    for made in [&programs, &definitions] {
        fs::create_dir_all(made).with_context(|| format!("cannot make {}", made.display()))?;
    }
    for name in ["caget.exe", "softIoc.exe", "epicscorelibs/lib/Com.dll", "epicscorelibs/lib/ca.dll"] {
        keep(&folder.join(name), &programs)?;
    }
    for name in ["epicscorelibs/lib/dbCore.dll", "epicscorelibs/lib/dbRecStd.dll"] {
        keep(&folder.join(name), &programs)?;
    }
    fs::write(definitions.join("softIoc.dbd"), DEFINITIONS).context("cannot write definitions")?;
    fs::remove_dir_all(&source).context("cannot remove the sources")?;
    finish(&mut bounded(&["python3", "-m", "venv", "--clear", "venv"], folder))?;
    let pip = ["venv/bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    finish(&mut bounded(&[&pip[..], &[pinned, "pyepics==3.5.10"]].concat(), folder))
}

/// The wheel's headers have small letters only: gives them the names by which sources include them,
/// as links in `names`.
fn names(folder: &Path, sources: &[impl AsRef<Path>]) -> Result<()> {
    let headers = folder.join(WHEEL).join("include");
    let names = folder.join("names");
    fs::create_dir_all(&names).with_context(|| format!("cannot make {}", names.display()))?;
    let mut included = BTreeSet::new();
    for read in sources.iter().map(AsRef::as_ref).chain([headers.as_path()]) {
        for entry in fs::read_dir(read).with_context(|| format!("cannot read {}", read.display()))? {
            let bytes = fs::read(entry?.path()).unwrap_or_default();
            included.extend(String::from_utf8_lossy(&bytes).lines().filter_map(include));
        }
    }
    for name in included {
        let header = headers.join(name.to_lowercase());
        if header.is_file() && !headers.join(&name).exists() {
            std::os::unix::fs::symlink(&header, names.join(&name)).with_context(|| format!("cannot link {name}"))?;
        }
    }
    // The wheel was made by another compiler.
    let specific = names.join("compilerSpecific.h");
    let _ = fs::remove_file(&specific);
    let gcc = folder.join("source/modules/libcom/src/osi/compiler/gcc/compilerSpecific.h");
    fs::copy(gcc, &specific).context("no header for this compiler").map(drop)
}

/// The file that a line includes, if it is in no folder.
fn include(line: &str) -> Option<String> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start().strip_prefix("include")?.trim_start();
    let end = match rest.chars().next()? {
        '"' => '"',
        '<' => '>',
        _ => return None,
    };
    let (name, _) = rest[1..].split_once(end)?;
    (!name.contains('/')).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::include;

    #[test]
    fn includes_are_read_in_both_forms() {
        assert_eq!(include("#include \"dbCommon.h\""), Some("dbCommon.h".to_owned()));
        assert_eq!(include("#  include <epicsTime.h> // time"), Some("epicsTime.h".to_owned()));
        assert_eq!(include("#include <pv/caProvider.h>"), None);
        assert_eq!(include("#define EPICS"), None);
        assert_eq!(include("#include NAME"), None);
    }
}
