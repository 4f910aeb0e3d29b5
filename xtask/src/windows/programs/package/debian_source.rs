//! Programs built by mingw-w64 from Debian's sources.
//!
//! The sources come by apt-get with lists of its own below the target directory, so that the
//! machine's configuration stays as it is and no root is needed.

use super::keep;
use crate::third_party::{bounded, finish};
use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// Where Debian lists its own archives, in both of its forms.
const ARCHIVES: [&str; 2] = ["/etc/apt/sources.list.d/debian.sources", "/etc/apt/sources.list"];

/// The name of mingw-w64's compilers.
const HOST: &str = "x86_64-w64-mingw32";

/// curl without TLS and compression, which the cases do not use.
pub(super) fn curl(folder: &Path, name: &str) -> Result<()> {
    let source = unpacked(folder, name)?;
    let host = format!("--host={HOST}");
    let options = "--without-ssl --without-zlib --without-brotli --without-zstd --without-libpsl --disable-ldap \
                   --disable-shared --disable-manual --disable-dependency-tracking";
    let words: Vec<&str> = ["./configure", &host].into_iter().chain(options.split_whitespace()).collect();
    finish(&mut bounded(&words, &source))?;
    make(&source, &["LDFLAGS=-all-static"])?;
    keep(&source.join("src/curl.exe"), folder)?;
    remove(&source)
}

/// PuTTY's program for the command line.
pub(super) fn plink(folder: &Path, name: &str) -> Result<()> {
    let source = unpacked(folder, name)?;
    let build = cmake(&source, &[])?;
    make(&build, &["plink"])?;
    keep(&build.join("plink.exe"), folder)?;
    remove(&source)
}

/// An MQTT broker and its clients.
pub(super) fn mosquitto(folder: &Path, name: &str) -> Result<()> {
    let source = unpacked(folder, name)?;
    let without = ["TLS", "THREADING", "CJSON", "PLUGINS", "LIB_CPP"].map(|what| format!("-DWITH_{what}=OFF"));
    let mut options: Vec<&str> = without.iter().map(String::as_str).collect();
    options.push("-DDOCUMENTATION=OFF");
    let build = cmake(&source, &options)?;
    make(&build, &["mosquitto", "mosquitto_pub", "mosquitto_sub"])?;
    for file in ["src/mosquitto.exe", "client/mosquitto_pub.exe", "client/mosquitto_sub.exe", "lib/libmosquitto.dll"] {
        keep(&build.join(file), folder)?;
    }
    remove(&source)
}

/// Debian's source of a package, without Debian's own changes. Returns its folder.
pub(in crate::windows) fn unpacked(folder: &Path, name: &str) -> Result<PathBuf> {
    let apt = folder.join("apt");
    for below in ["parts", "lists/partial", "cache/archives/partial"] {
        fs::create_dir_all(apt.join(below)).with_context(|| format!("cannot make {}", apt.display()))?;
    }
    lists(&apt.join("parts"))?;
    let apt_text = apt.display();
    let options = [
        "Dir::Etc::sourcelist=/dev/null".to_owned(),
        format!("Dir::Etc::sourceparts={apt_text}/parts"),
        format!("Dir::State::lists={apt_text}/lists"),
        format!("Dir::Cache={apt_text}/cache"),
        "APT::Sandbox::User=".to_owned(),
    ];
    let options: Vec<&str> = options.iter().flat_map(|option| ["-o", option.as_str()]).collect();
    finish(&mut bounded(&[&["apt-get", "-q"], &options[..], &["update"]].concat(), folder))?;
    // A file of the source that is not needed (the authors' signature) may be missing.
    let words = [&["apt-get", "-q"], &options[..], &["source", "--download-only", name]].concat();
    let fetched = finish(&mut bounded(&words, folder));
    let source = folder.join("source");
    fs::create_dir(&source).with_context(|| format!("cannot make {}", source.display()))?;
    let unpack = format!("tar -xf {name}_*.orig.tar.?z --strip-components=1 -C source && rm -r {name}_* apt");
    let unpacked = finish(&mut bounded(&["sh", "-c", &unpack], folder));
    fetched.or_else(|error| unpacked.as_ref().map(drop).map_err(|_| error))?;
    unpacked?;
    Ok(source)
}

/// Names the archives of sources beside those of the machine's packages.
fn lists(parts: &Path) -> Result<()> {
    let found = ARCHIVES.into_iter().find_map(|path| Some((path, fs::read_to_string(path).ok()?)));
    let (path, text) = found.context("no list of Debian's archives in /etc/apt")?;
    let (name, sources) = if path.ends_with(".sources") {
        ("sources.sources", text.replace("Types: deb\n", "Types: deb-src\n"))
    } else {
        let lines = text.lines().filter(|line| line.starts_with("deb "));
        ("sources.list", lines.map(|line| format!("deb-src {}\n", &line[4..])).collect())
    };
    ensure!(sources.contains("deb-src"), "{path} names no archive");
    fs::write(parts.join(name), sources).context("cannot write apt's list")
}

fn cmake(source: &Path, options: &[&str]) -> Result<PathBuf> {
    let build = source.join("build-windows");
    fs::create_dir_all(&build).with_context(|| format!("cannot make {}", build.display()))?;
    let tools = [("C_COMPILER", "gcc"), ("CXX_COMPILER", "g++"), ("RC_COMPILER", "windres")]
        .map(|(variable, tool)| format!("-DCMAKE_{variable}={HOST}-{tool}"));
    let mut words = vec!["cmake", "-DCMAKE_SYSTEM_NAME=Windows", "-DCMAKE_BUILD_TYPE=Release"];
    words.extend(tools.iter().map(String::as_str));
    words.extend(options);
    words.push("..");
    finish(&mut bounded(&words, &build))?;
    Ok(build)
}

fn make(folder: &Path, words: &[&str]) -> Result<()> {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from).to_string();
    finish(&mut bounded(&[&["make", "-j", &jobs], words].concat(), folder))
}

fn remove(source: &Path) -> Result<()> {
    fs::remove_dir_all(source).with_context(|| format!("cannot remove {}", source.display()))
}
