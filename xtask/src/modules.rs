//! The picture of imports: which crate uses which, which top-level module of a crate uses which
//! other, and where they use each other in a circle. Part of `cargo xtask check`.
//!
//! Imports are read from the sources: `crate::module` anywhere in a file, and `super::module` in a
//! file beside `lib.rs`. Tests are left out.

use crate::{sources, workspace};
use anyhow::{Context, Result, bail};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Which names use which others.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// Prints the graph of the crates and, if asked, those of their modules; fails on a circle.
///
/// # Errors
/// If modules of a crate use each other in a circle; if a source cannot be read.
pub(crate) fn check(shows_all: bool) -> Result<()> {
    let folder = workspace::root().join("crates");
    let mut names: Vec<String> = Vec::new();
    for entry in fs::read_dir(&folder).with_context(|| format!("cannot list {}", folder.display()))? {
        names.extend(entry?.file_name().into_string());
    }
    names.sort();
    let mut faults = Vec::new();
    for name in names.iter().filter(|name| folder.join(name).join("src").is_dir()) {
        let used = dependencies(&folder.join(name).join("Cargo.toml"))?;
        println!("{name} -> {}", if used.is_empty() { "nothing of the workspace".into() } else { used.join(", ") });
        let graph = modules(&folder.join(name).join("src"))?;
        if shows_all {
            graph.iter().for_each(|(module, used)| {
                println!("    {module} -> {}", Vec::from_iter(used.iter().cloned()).join(", "))
            });
        }
        let found = circles(&graph).into_iter();
        faults.extend(found.map(|circle| format!("{name}: {} use each other", circle.join(", "))));
    }
    if !faults.is_empty() {
        bail!("circles of imports (xtask/src/modules.rs):\n  {}", faults.join("\n  "));
    }
    println!("no circles of modules");
    Ok(())
}

/// The crates of the workspace that a crate is built with.
fn dependencies(manifest: &Path) -> Result<Vec<String>> {
    let text = fs::read_to_string(manifest).with_context(|| format!("cannot read {}", manifest.display()))?;
    let mut is_built_with = false;
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if line.starts_with('[') {
            is_built_with = line.ends_with("dependencies]") && !line.contains("dev-dependencies");
        } else if is_built_with {
            let name = line.split(['.', ' ', '=']).next().unwrap_or_default();
            let ours = name.strip_prefix("tickwire-").or(Some(name).filter(|name| *name == "tickclock"));
            found.extend(ours.map(str::to_owned));
        }
    }
    Ok(found.into_iter().collect())
}

/// Which of a crate's top-level modules uses which others.
fn modules(source: &Path) -> Result<Graph> {
    let mut names = BTreeSet::new();
    for file in files(source)? {
        let module = module_of(&file);
        names.insert(module);
    }
    let mut graph = Graph::new();
    for file in files(source)? {
        let module = module_of(&file);
        let path = source.join(&file);
        let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let is_beside = file.components().count() == 1;
        let used = imports(&text, is_beside).into_iter().filter(|used| *used != module && names.contains(used));
        graph.entry(module.clone()).or_default().extend(used);
    }
    Ok(graph)
}

/// The files of modules below a folder, relative to it: neither roots, programs nor tests.
fn files(source: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let path = source.join(&folder);
        for entry in fs::read_dir(&path).with_context(|| format!("cannot list {}", path.display()))? {
            let entry = entry?;
            let relative = folder.join(entry.file_name());
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_root = folder.as_os_str().is_empty() && ["lib.rs", "main.rs", "bin"].contains(&name.as_str());
            if is_root || sources::is_of_tests(&name) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(relative);
            } else if name.ends_with(".rs") {
                found.push(relative);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn module_of(file: &Path) -> String {
    let first = file.components().next().map(|first| first.as_os_str().to_string_lossy().into_owned());
    let first = first.unwrap_or_default();
    first.strip_suffix(".rs").unwrap_or(&first).to_owned()
}

/// The names that follow `crate::`, and `super::` in a file beside the crate's root, outside of the
/// file's tests.
fn imports(text: &str, is_beside_root: bool) -> BTreeSet<String> {
    let mut code = String::new();
    for (_, line) in sources::without_tests(text) {
        code.push_str(line.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    let mut found = BTreeSet::new();
    for prefix in ["crate::", "super::"].into_iter().filter(|&prefix| prefix == "crate::" || is_beside_root) {
        for (at, _) in code.match_indices(prefix) {
            let before = code[..at].chars().next_back();
            if before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                continue;
            }
            let rest = &code[at + prefix.len()..];
            match rest.strip_prefix('{') {
                Some(list) => found.extend(firsts(list)),
                None => found.extend([word(rest)]),
            }
        }
    }
    found
}

/// The first names in a list of imports whose opening brace has been read.
fn firsts(list: &str) -> Vec<String> {
    let mut depth = 1;
    let mut is_first = true;
    let mut found = Vec::new();
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => is_first = true,
            _ if is_first && depth == 1 && !c.is_whitespace() => {
                found.push(word(&list[at..]));
                is_first = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    found
}

fn word(text: &str) -> String {
    text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
}

/// The groups of more than one node that can all be reached from each other, each in order.
fn circles(graph: &Graph) -> Vec<Vec<String>> {
    let reach: Graph = graph.keys().map(|from| (from.clone(), reachable(graph, from))).collect();
    let reaches = |from: &str, to: &str| reach.get(from).is_some_and(|found| found.contains(to));
    let mut found: Vec<Vec<String>> = Vec::new();
    for node in graph.keys().filter(|node| reaches(node, node)) {
        if found.iter().any(|circle| circle.contains(node)) {
            continue;
        }
        found.push(graph.keys().filter(|other| reaches(node, other) && reaches(other, node)).cloned().collect());
    }
    found
}

/// The nodes to which at least one edge leads from a node.
fn reachable(graph: &Graph, from: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut next = vec![from.to_owned()];
    while let Some(node) = next.pop() {
        for used in graph.get(&node).into_iter().flatten() {
            if found.insert(used.clone()) {
                next.push(used.clone());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imports_are_found_in_lists_and_paths_but_not_in_tests_and_comments() {
        let text = "use crate::{a::{x, y}, b, self::z};\nfn f() { crate::c::g(); other_crate::d(); }\n\
            // crate::e\n#[cfg(test)]\n#[rustfmt::skip]\nmod tests {\n    use crate::h;\n}\n";
        assert_eq!(Vec::from_iter(imports(text, false)), ["a", "b", "c", "self"]);
        assert_eq!(Vec::from_iter(imports("use super::{a, b};", true)), ["a", "b"]);
        assert!(imports("use super::a;", false).is_empty());
    }

    #[test]
    fn circles_are_found_whole_and_once() {
        let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("d", "e"), ("e", "d"), ("f", "a")];
        let mut graph = Graph::new();
        for (from, to) in edges {
            graph.entry(from.into()).or_default().insert(to.into());
        }
        assert_eq!(circles(&graph), [vec!["a", "b", "c"], vec!["d", "e"]]);
        assert!(circles(&Graph::new()).is_empty());
    }

    #[test]
    fn only_what_a_crate_is_built_with_counts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Cargo.toml");
        let text = "[dependencies]\ntickwire-stack.workspace = true\ntickclock = { path = \"x\" }\nlibc.workspace = true\n\
            [dev-dependencies]\ntickwire-sim.workspace = true\n[build-dependencies]\ntickwire-host.workspace = true\n";
        fs::write(&path, text).unwrap();
        assert_eq!(dependencies(&path).unwrap(), ["host", "stack", "tickclock"]);
    }
}
