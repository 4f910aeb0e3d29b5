//! The environment of the program: the preload library, and a service that answers.

use anyhow::{Context, Result, bail};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use tickwire_lane_linux::control::Channel;

/// The preload library's file.
pub(crate) const LIBRARY: &str = "libtickwire_preload.so";
/// Environment variable with the library's path, if it is in none of the usual places.
const LIBRARY_VARIABLE: &str = "TICKWIRE_PRELOAD";

/// The preload library: named by `TICKWIRE_PRELOAD`, beside this program (a build tree), or where
/// packages put it.
pub(crate) fn library() -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(LIBRARY_VARIABLE).filter(|p| !p.is_empty()) {
        let path = PathBuf::from(path);
        return path.canonicalize().with_context(|| format!("{LIBRARY_VARIABLE} names {}", path.display()));
    }
    let me = std::env::current_exe().context("cannot find where this program is")?;
    let directory = me.parent().context("this program is in no directory")?;
    let places = candidates(directory);
    match places.iter().find(|place| place.is_file()) {
        Some(place) => place.canonicalize().with_context(|| format!("cannot follow {}", place.display())),
        None => bail!(
            "{LIBRARY} was found neither beside {} nor in ../lib/tickwire: install it there or name it in {LIBRARY_VARIABLE}",
            me.display()
        ),
    }
}

fn candidates(directory: &Path) -> [PathBuf; 4] {
    ["", "deps", "../lib/tickwire", "../lib"].map(|d| directory.join(d).join(LIBRARY))
}

/// The value of `LD_PRELOAD`: our library, then what was there before.
pub(super) fn preload(library: &Path) -> Result<OsString> {
    let before = std::env::var_os("LD_PRELOAD").unwrap_or_default();
    joined(library.as_os_str(), &before)
}

fn joined(library: &OsStr, before: &OsStr) -> Result<OsString> {
    // The loader splits at spaces and colons, and has no escape.
    let separator = |b: &u8| b" :\t\n".contains(b);
    if library.as_bytes().iter().any(separator) {
        bail!(
            "the path {} contains a space or a colon, which LD_PRELOAD cannot: install Tickwire elsewhere",
            library.to_string_lossy()
        );
    }
    let mut list = library.as_bytes().to_vec();
    for other in before.as_bytes().split(separator).filter(|o| !o.is_empty() && *o != library.as_bytes()) {
        list.push(b':');
        list.extend_from_slice(other);
    }
    Ok(OsString::from_vec(list))
}

/// Whether a service accepts connections there.
pub(crate) fn service_answers(path: &Path) -> io::Result<()> {
    Channel::connect(path).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn join(library: &str, before: &str) -> Option<String> {
        joined(OsStr::new(library), OsStr::new(before)).ok().map(|v| v.into_string().unwrap())
    }

    #[test]
    fn a_library_that_was_preloaded_before_stays_behind_ours() {
        assert_eq!(join("/a.so", "").as_deref(), Some("/a.so"));
        assert_eq!(join("/a.so", "/b.so /c.so").as_deref(), Some("/a.so:/b.so:/c.so"));
        assert_eq!(join("/a.so", "/b.so:/a.so").as_deref(), Some("/a.so:/b.so"));
        assert_eq!(join("/a b.so", ""), None);
    }
}
