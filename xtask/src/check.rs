//! `cargo xtask check`: the shared crates depend on nothing of an operating system.
//!
//! They come to Windows next, so whatever they use must be the same everywhere. The check walks the resolved dependency tree (normal and
//! build dependencies, no tests) for a target without any operating system and for those with one, and allows only packages
//! that are listed here with a reason.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The crates that run on every operating system.
const SHARED: [&str; 2] = ["tickwire-stack", "tickwire-sim"];

/// What they may use: pure computation, or code that runs in the compiler only.
const ALLOWED: [&str; 21] = [
    "tickwire-stack",
    "tickwire-sim",
    // wire formats and what it uses
    "smoltcp",
    "bitflags",
    "byteorder",
    "cfg-if",
    "heapless",
    "hash32",
    "managed",
    "stable_deref_trait",
    // typed views of bytes
    "zerocopy",
    // keyed hash
    "siphasher",
    // errors
    "thiserror",
    // procedural macros: run in the compiler
    "zerocopy-derive",
    "thiserror-impl",
    "proc-macro2",
    "quote",
    "syn",
    "unicode-ident",
    "defmt",
    "document-features",
];

/// Checks; fails with the path from a shared crate to each package that is not allowed.
pub(crate) fn run() -> Result<()> {
    let output = crate::workspace::cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .output()
        .context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("cargo metadata failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata printed no JSON")?;
    let graph = Graph::new(&metadata)?;
    let mut faults = Vec::new();
    for name in SHARED {
        let root = graph.find(name).with_context(|| format!("there is no package {name}"))?;
        faults.extend(graph.forbidden(root));
    }
    if !faults.is_empty() {
        bail!(
            "a shared crate must not depend on an operating system; not allowed (see ALLOWED in xtask/src/check.rs): {}",
            faults.join("; ")
        );
    }
    println!("{} depend on nothing of an operating system", SHARED.join(" and "));
    Ok(())
}

/// Packages by id: name and the ids they use.
struct Graph<'a> {
    names: BTreeMap<&'a str, &'a str>,
    uses: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Graph<'a> {
    fn new(metadata: &'a Value) -> Result<Self> {
        let packages = metadata["packages"].as_array().context("no packages")?;
        let names = packages.iter().filter_map(|p| Some((p["id"].as_str()?, p["name"].as_str()?))).collect();
        let nodes = metadata["resolve"]["nodes"].as_array().context("no resolved tree")?;
        let uses = nodes.iter().filter_map(|n| Some((n["id"].as_str()?, used_by(n)))).collect();
        Ok(Self { names, uses })
    }

    fn find(&self, name: &str) -> Option<&'a str> {
        self.names.iter().find(|(_, n)| **n == name).map(|(id, _)| *id)
    }

    /// The ways from `root` to packages that are not allowed; not followed beyond the first such package.
    fn forbidden(&self, root: &'a str) -> Vec<String> {
        let mut seen = BTreeSet::from([root]);
        let mut todo = vec![(root, self.names.get(root).copied().unwrap_or(root).to_owned())];
        let mut faults = Vec::new();
        while let Some((id, way)) = todo.pop() {
            for used in self.uses.get(id).into_iter().flatten().copied() {
                if !seen.insert(used) {
                    continue;
                }
                let name = self.names.get(used).copied().unwrap_or(used);
                let way = format!("{way} -> {name}");
                if ALLOWED.contains(&name) {
                    todo.push((used, way));
                } else {
                    faults.push(way);
                }
            }
        }
        faults
    }
}

/// Normal and build dependencies; those for tests may be anything.
fn used_by(node: &Value) -> Vec<&str> {
    let dependencies = node["deps"].as_array().map(Vec::as_slice).unwrap_or_default();
    let counts = |d: &&Value| d["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|k| k["kind"] != "dev"));
    dependencies.iter().filter(counts).filter_map(|d| d["pkg"].as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(id: &str, uses: &[(&str, Value)]) -> Value {
        let deps: Vec<Value> =
            uses.iter().map(|(pkg, kind)| json!({"pkg": pkg, "dep_kinds": [{"kind": kind}]})).collect();
        json!({"id": id, "deps": deps})
    }

    #[test]
    fn the_way_to_a_forbidden_package_is_named_and_tests_may_use_anything() {
        let metadata = json!({
            "packages": [
                {"id": "1", "name": "tickwire-stack"}, {"id": "2", "name": "smoltcp"},
                {"id": "3", "name": "libc"}, {"id": "4", "name": "proptest"},
            ],
            "resolve": {"nodes": [
                node("1", &[("2", Value::Null), ("4", json!("dev"))]), node("2", &[("3", Value::Null)]), node("3", &[]), node("4", &[]),
            ]},
        });
        let graph = Graph::new(&metadata).unwrap();
        let faults = graph.forbidden(graph.find("tickwire-stack").unwrap());
        assert_eq!(faults, ["tickwire-stack -> smoltcp -> libc"]);
    }
}
