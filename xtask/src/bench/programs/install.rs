//! Installs third-party programs, by the ordinary clients of their registries, and builds the
//! programs that drive them.
//!
//! All of it but Debian's packages is below `programs` in the target directory. An item whose input
//! has not changed is not made again. It runs before the benchmark becomes root. If an item fails,
//! a file keeps the reason for the rows that need it.

use super::catalog::Program;
use crate::deps::{self, Need};
use crate::third_party::{self, bounded, finish};
use crate::workspace;
use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A dependency of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    /// A package of Debian, by apt-get.
    Debian(Need),
    /// The libraries of all Python programs, by pip, into an environment of their own.
    Python,
    /// A package of npm.
    Npm(&'static str),
    /// Java: a folder of `xtask/programs` with a `pom.xml` and `Echo.java`, by Maven.
    Maven(&'static str),
    /// Rust: a folder of `xtask/programs`, by cargo.
    Cargo(&'static str),
    /// A program in C.
    C { source: &'static str, libraries: &'static str },
    /// A program in C++.
    Cxx { source: &'static str },
    /// A program in C#, compiled by Mono.
    CSharp { source: &'static str },
}

/// The dependencies of programs in Python.
pub(super) const PYTHON: [Item; 2] = [Item::Debian(deps::PYTHON_VENV), Item::Python];
/// The interpreter of the environment, below [`directory`].
pub(super) const PYTHON_PROGRAM: &str = "venv/bin/python";

/// Versions are pinned, so that figures of different days can be compared.
const PYTHON_PACKAGES: [&str; 5] =
    ["asyncua==2.1.0", "epicscorelibs==7.0.10.99.0.2", "grpcio==1.85.3", "p4p==4.3.0", "pyepics==3.5.10"];
/// Copies the libraries of a `pom.xml`.
const MAVEN_GOAL: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies";

/// The directory of everything installed.
pub(super) fn directory() -> Result<PathBuf> {
    Ok(workspace::target()?.join("programs"))
}

/// Installs the dependencies of these programs. A failure is reported, and is an error of the rows
/// that need the item, not of this function.
pub(super) fn all(programs: &[&Program]) -> Result<()> {
    let directory = directory()?;
    for folder in ["bin", "sources", "failed"] {
        let folder = directory.join(folder);
        fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    stage(&workspace::root().join("xtask/programs"), &directory.join("sources"))?;
    let mut items: Vec<Item> = Vec::new();
    for item in programs.iter().flat_map(|program| program.needs) {
        if !items.contains(item) {
            items.push(*item);
        }
    }
    debian_at_once(&items);
    for item in items {
        let failed = directory.join("failed").join(item.key());
        match item.install(&directory) {
            Ok(()) => drop(fs::remove_file(&failed)),
            Err(error) => {
                eprintln!("cannot install {item}: {error:#}");
                fs::write(&failed, format!("{error:#}"))
                    .with_context(|| format!("cannot write {}", failed.display()))?;
            }
        }
    }
    Ok(())
}

/// Installs all packages at once, which is faster. If that fails, each is tried by itself, and its
/// failure is reported.
fn debian_at_once(items: &[Item]) {
    let need = |item: &Item| match item {
        Item::Debian(need) => Some(*need),
        _ => None,
    };
    let needs: Vec<Need> = items.iter().filter_map(need).collect();
    if let Err(error) = deps::install(&needs) {
        eprintln!("{error:#}; trying one by one");
    }
}

/// Fails with the reason if a dependency of a program is missing.
pub(super) fn check(program: &Program, directory: &Path) -> Result<()> {
    for item in program.needs {
        if let Ok(why) = fs::read_to_string(directory.join("failed").join(item.key())) {
            bail!("NOT INSTALLED: {item}: {why}");
        }
    }
    Ok(())
}

impl std::fmt::Display for Item {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Debian(need) => write!(f, "{} (apt-get)", need.package()),
            Self::Python => write!(f, "{} (pip)", PYTHON_PACKAGES.join(" ")),
            Self::Npm(package) => write!(f, "{package} (npm)"),
            Self::Maven(name) => write!(f, "the libraries of {name}/pom.xml (mvn)"),
            Self::Cargo(name) => write!(f, "the crates of {name}/Cargo.toml (cargo)"),
            Self::C { source, .. } => write!(f, "{source} (cc)"),
            Self::Cxx { source } => write!(f, "{source} (c++)"),
            Self::CSharp { source } => write!(f, "{source} (mcs)"),
        }
    }
}

impl Item {
    /// Its unique file name.
    fn key(&self) -> String {
        self.to_string().replace(|c: char| !c.is_ascii_alphanumeric(), "-")
    }

    fn install(&self, directory: &Path) -> Result<()> {
        match *self {
            Self::Debian(need) => deps::install(&[need]),
            Self::Python => made(directory, self, &PYTHON_PACKAGES.join(" "), || python(directory)),
            Self::Npm(package) => made(directory, self, package, || npm(directory, package)),
            Self::Maven(name) => made(directory, self, &sources(directory, &[name])?, || maven(directory, name)),
            Self::Cargo(name) => made(directory, self, &sources(directory, &[name])?, || cargo(directory, name)),
            Self::C { source, libraries } => made(directory, self, &sources(directory, &[source, "trips.h"])?, || {
                compile(directory, "cc", source, &[libraries])
            }),
            Self::Cxx { source } => made(directory, self, &sources(directory, &[source, "trips.h"])?, || {
                compile(directory, "c++", source, &["-pthread"])
            }),
            Self::CSharp { source } => {
                made(directory, self, &sources(directory, &[source])?, || mono(directory, source))
            }
        }
    }
}

/// Makes an item unless it was made from the same input before.
fn made(directory: &Path, item: &Item, input: &str, make: impl FnOnce() -> Result<()>) -> Result<()> {
    let stamp = directory.join(format!("{}.made", item.key()));
    third_party::made(&stamp, &format!("{item}, into {}", directory.display()), input, make)
}

/// The text of some staged files, or of all files in some staged folders.
fn sources(directory: &Path, names: &[&str]) -> Result<String> {
    let mut texts = BTreeMap::new();
    for name in names {
        read_into(&directory.join("sources").join(name), &mut texts)?;
    }
    Ok(texts.into_values().collect())
}

fn read_into(path: &Path, texts: &mut BTreeMap<PathBuf, String>) -> Result<()> {
    if !path.is_dir() {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        texts.insert(path.to_owned(), text);
        return Ok(());
    }
    for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let path = entry?.path();
        // Cargo makes the lock file.
        if path.extension().is_none_or(|extension| extension != "lock") {
            read_into(&path, texts)?;
        }
    }
    Ok(())
}

/// Copies the sources to the build directory, so that the source tree stays unchanged.
fn stage(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot read {}", from.display()))? {
        let (path, to) = entry.map(|entry| (entry.path(), to.join(entry.file_name())))?;
        if path.is_dir() {
            stage(&path, &to)?;
        } else {
            fs::copy(&path, &to).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

fn python(directory: &Path) -> Result<()> {
    finish(&mut bounded(&["python3", "-m", "venv", "--clear", "venv"], directory))?;
    let pip = [PYTHON_PROGRAM, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    finish(&mut bounded(&[&pip[..], &PYTHON_PACKAGES].concat(), directory))
}

fn npm(directory: &Path, package: &str) -> Result<()> {
    let options = ["--prefix", "npm", "--loglevel", "error", "--no-audit", "--no-fund", "--ignore-scripts"];
    finish(&mut bounded(&[&["npm", "install"], &options[..], &[package]].concat(), directory))
}

fn maven(directory: &Path, name: &str) -> Result<()> {
    let (pom, source) = (format!("sources/{name}/pom.xml"), format!("sources/{name}/Echo.java"));
    let [libraries, classes] = ["libraries", "classes"].map(|folder| directory.join(name).join(folder));
    for folder in [&libraries, &classes] {
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let (libraries, classes) = (libraries.to_string_lossy(), classes.to_string_lossy());
    let output = format!("-DoutputDirectory={libraries}");
    finish(&mut bounded(&["mvn", "--quiet", "--batch-mode", "--file", &pom, MAVEN_GOAL, &output], directory))?;
    let class_path = format!("{libraries}/*");
    finish(&mut bounded(&["javac", "-cp", &class_path, "-d", &classes, &source], directory))
}

fn cargo(directory: &Path, name: &str) -> Result<()> {
    let manifest = format!("sources/{name}/Cargo.toml");
    let target = format!("{name}-target");
    let mut command = bounded(&[], directory);
    let cargo = workspace::cargo();
    command.arg(cargo.get_program());
    for (variable, _) in cargo.get_envs().filter(|(_, value)| value.is_none()) {
        command.env_remove(variable);
    }
    command.args(["build", "--quiet", "--release", "--manifest-path", &manifest, "--target-dir", &target]);
    finish(&mut command)?;
    let (from, to) = (directory.join(target).join(format!("release/{name}-echo")), directory.join("bin").join(name));
    fs::copy(&from, &to).with_context(|| format!("cannot copy {}", from.display())).map(drop)
}

fn compile(directory: &Path, compiler: &str, source: &str, options: &[&str]) -> Result<()> {
    let name = source.split('.').next().unwrap_or(source);
    let (output, source) = (format!("bin/{name}"), format!("sources/{source}"));
    let words = [&[compiler, "-O2", "-Wall", "-o", &output, &source], options].concat();
    finish(&mut bounded(&words, directory))
}

fn mono(directory: &Path, source: &str) -> Result<()> {
    let (output, source) = (format!("-out:bin/{}", source.replace(".cs", ".exe")), format!("sources/{source}"));
    finish(&mut bounded(&["mcs", "-optimize+", &output, &source], directory))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::programs::catalog;

    #[test]
    fn what_was_made_is_made_again_only_if_its_input_changes() {
        let directory = tempfile::tempdir().unwrap();
        let mut times = 0;
        let item = Item::Npm("ws");
        for input in ["ws", "ws", "ws@2"] {
            let make = || {
                times += 1;
                Ok(())
            };
            made(directory.path(), &item, input, make).unwrap();
        }
        assert_eq!(times, 2);
        made(directory.path(), &item, "ws@3", || bail!("no network")).unwrap_err();
        made(directory.path(), &item, "ws@2", || bail!("was made")).unwrap();
    }

    #[test]
    fn a_program_whose_need_failed_says_so() {
        let directory = tempfile::tempdir().unwrap();
        let programs = catalog::all();
        let program = programs.iter().find(|program| program.name == "Node").unwrap();
        check(program, directory.path()).unwrap();
        fs::create_dir(directory.path().join("failed")).unwrap();
        let need = program.needs.last().unwrap();
        fs::write(directory.path().join("failed").join(need.key()), "no network").unwrap();
        let told = check(program, directory.path()).unwrap_err().to_string();
        assert!(told.starts_with("NOT INSTALLED: ws@") && told.ends_with("(npm): no network"), "{told}");
    }

    /// All sources named in the catalogue exist.
    #[test]
    fn sources_are_in_the_tree() {
        let folder = workspace::root().join("xtask/programs");
        for item in catalog::all().iter().flat_map(|program| program.needs) {
            if let Item::C { source, .. }
            | Item::Cxx { source }
            | Item::CSharp { source }
            | Item::Maven(source)
            | Item::Cargo(source) = item
            {
                assert!(folder.join(source).exists(), "{source}");
            }
        }
    }
}
