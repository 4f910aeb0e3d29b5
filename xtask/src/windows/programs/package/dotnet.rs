//! A program of .NET, compiled by Mono's compiler against the runtime's own assemblies.

use super::registry;
use crate::third_party::{bounded, finish};
use crate::workspace;
use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// The runtime's assemblies, below the package's folder.
const ASSEMBLIES: &str = "dotnetcore2/bin/shared/Microsoft.NETCore.App";

/// Those that the program uses.
const USED: [&str; 8] = [
    "System.Private.CoreLib",
    "System.Private.Uri",
    "System.Runtime",
    "System.Runtime.Extensions",
    "System.Console",
    "System.Net.Sockets",
    "System.Net.Primitives",
    "System.Threading.Tasks",
];

/// Tells the runtime which framework the program wants.
const CONFIGURATION: &str =
    r#"{"runtimeOptions": {"framework": {"name": "Microsoft.NETCore.App", "version": "3.1.0"}}}"#;

/// The runtime, and `Echo.dll`.
pub(super) fn make(folder: &Path, pinned: &str) -> Result<()> {
    registry::wheel(folder, pinned)?;
    let versions = fs::read_dir(folder.join(ASSEMBLIES)).context("the wheel has no runtime")?;
    let runtime = versions.filter_map(Result::ok).next().context("the wheel has no version of the runtime")?.path();
    let source = workspace::root().join("xtask/src/windows/programs/scripts/Echo.cs");
    let references = USED.map(|name| format!("-r:{}", runtime.join(format!("{name}.dll")).display()));
    let mut words = vec!["mcs", "-nostdlib", "-noconfig", "-optimize+", "-target:exe", "-out:Echo.exe"];
    words.extend(references.iter().map(String::as_str));
    let source = source.to_string_lossy();
    words.push(&source);
    finish(&mut bounded(&words, folder))?;
    fs::rename(folder.join("Echo.exe"), folder.join("Echo.dll")).context("the compiler has left no program")?;
    fs::write(folder.join("Echo.runtimeconfig.json"), CONFIGURATION).context("cannot write a configuration")
}
