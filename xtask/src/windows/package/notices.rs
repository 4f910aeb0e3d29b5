//! The licences of what others have written and is in the programs, as these licences ask for.

use crate::windows::TARGET;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// How deep in a package a licence may be: some contain libraries of others.
const DEPTH: u32 = 1;

/// All packages of others that these are built with, each with its licence.
pub(super) fn of(packages: &[&str]) -> Result<String> {
    let mut cargo = workspace::cargo();
    cargo.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", TARGET]);
    let output = cargo.output().context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata is no JSON")?;
    let all = by_id(&metadata["packages"]);
    let nodes = by_id(&metadata["resolve"]["nodes"]);
    let begin =
        all.iter().filter(|(_, package)| packages.iter().any(|name| package["name"] == *name)).map(|(id, _)| *id);
    let used = reachable(begin.collect(), &nodes);
    let others = used.into_iter().filter_map(|id| all.get(id)).filter(|package| !package["source"].is_null());
    let mut text = String::from(
        "Tickwire contains parts that others have written, under these licences. Where there are\nseveral to choose from, any of them may be chosen.\n",
    );
    let mut sorted: Vec<_> = others.map(|package| (text_of(package, "name"), *package)).collect();
    sorted.sort_by_key(|(name, _)| *name);
    ensure!(!sorted.is_empty(), "cargo metadata knows of no dependencies");
    for (name, package) in sorted {
        let (version, licence) = (text_of(package, "version"), text_of(package, "license"));
        let authors = package["authors"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let authors = authors.collect::<Vec<_>>().join(", ");
        let _ = write!(text, "\n{}\n{name} {version}: {licence}\n", "=".repeat(80));
        if !authors.is_empty() {
            let _ = writeln!(text, "{authors}");
        }
        let folder = Path::new(text_of(package, "manifest_path")).parent().context("a package without a folder")?;
        for file in licences(folder, DEPTH)? {
            let licence = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            let name = file.strip_prefix(folder).unwrap_or(&file).display().to_string();
            let _ = write!(text, "\n--- {name}\n\n{}\n", licence.trim_end());
        }
    }
    Ok(text)
}

fn by_id(list: &Value) -> BTreeMap<&str, &Value> {
    list.as_array().into_iter().flatten().map(|one| (text_of(one, "id"), one)).collect()
}

fn text_of<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

/// What these packages are built with: not what their tests, or their build scripts, use.
fn reachable<'v>(mut next: Vec<&'v str>, nodes: &BTreeMap<&'v str, &'v Value>) -> BTreeSet<&'v str> {
    let mut found = BTreeSet::new();
    while let Some(id) = next.pop() {
        if !found.insert(id) {
            continue;
        }
        let dependencies = nodes.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten();
        let is_built_with = |dependency: &&Value| {
            dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        next.extend(dependencies.filter(is_built_with).map(|dependency| text_of(dependency, "pkg")));
    }
    found
}

/// The files with licences in a package's folder.
fn licences(folder: &Path, depth: u32) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_ascii_uppercase();
        let is_licence =
            ["LICEN", "COPYING", "NOTICE", "UNLICENSE", "COPYRIGHT"].iter().any(|begin| name.starts_with(begin));
        if path.is_dir() {
            if depth > 0 {
                found.extend(licences(&path, depth - 1)?);
            }
        } else if is_licence {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_tests_and_build_scripts_use_is_left_out() {
        let nodes = json!([
            {"id": "a", "deps": [{"pkg": "b", "dep_kinds": [{"kind": null}]}, {"pkg": "t", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "b", "deps": [{"pkg": "a", "dep_kinds": [{"kind": null}]}, {"pkg": "c", "dep_kinds": [{"kind": "build"}]}]},
        ]);
        assert_eq!(Vec::from_iter(reachable(vec!["a"], &by_id(&nodes))), ["a", "b"]);
    }

    #[test]
    fn licences_are_found_also_of_what_a_package_contains() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("inner/deep")).unwrap();
        for file in ["LICENSE-MIT", "inner/license.txt", "inner/deep/LICENSE", "lib.rs"] {
            fs::write(folder.path().join(file), "text").unwrap();
        }
        let found = licences(folder.path(), DEPTH).unwrap();
        let names: Vec<_> =
            found.iter().map(|path| path.strip_prefix(folder.path()).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["LICENSE-MIT", "inner/license.txt"]);
    }
}
