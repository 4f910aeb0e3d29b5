//! The DLLs of Winsock for a program's folder, in place of those of Windows
//! (`crates/winsock/replacement`): each is one C file, with exports from a list of the functions of
//! the DLL that it replaces.

use super::CC;
use crate::workspace;
use anyhow::{Context, Result, ensure};
use std::collections::HashSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The DLLs, without `.dll`.
pub(super) const NAMES: [&str; 3] = ["ws2_32", "wsock32", "mswsock"];

/// Where they are built.
fn folder() -> Result<PathBuf> {
    Ok(workspace::target()?.join("windows-replacement"))
}

/// One of them.
pub(super) fn library(name: &str) -> Result<PathBuf> {
    Ok(folder()?.join(name).with_extension("dll"))
}

/// Builds them.
pub(super) fn build() -> Result<()> {
    let folder = folder()?;
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    for name in NAMES {
        build_one(name, &folder)?;
    }
    Ok(())
}

fn build_one(name: &str, folder: &Path) -> Result<()> {
    let source = workspace::root().join("crates/winsock/replacement");
    let list = source.join(name).with_extension("exports");
    let text = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let exports = exports(&text).with_context(|| format!("{} is no list of exports", list.display()))?;
    let (definition, code) = (folder.join(name).with_extension("def"), folder.join(name).with_extension("s"));
    fs::write(&definition, definitions(name, &exports)).context("cannot write the definitions")?;
    fs::write(&code, jumps(&exports)).context("cannot write the jumps")?;
    let mut compile = Command::new(CC);
    compile.args(["-O2", "-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror", "-ffreestanding"]);
    // The compiler would put calls of the C runtime in place of loops that fill memory.
    compile.args(["-fno-builtin", "-fno-tree-loop-distribute-patterns", "-fno-stack-check"]);
    compile.arg(format!("-DWINDOWS_NAME=L\"{name}.dll\""));
    compile.args(["-shared", "-nostdlib", "-nostartfiles", "-s", "-Wl,-e,begin", "-Wl,--dynamicbase,--nxcompat"]);
    compile.arg("-o").arg(library(name)?).arg(source.join("replacement.c")).args([&code, &definition]);
    workspace::run(compile.arg("-lkernel32"))
}

/// An export: its name, and its ordinal if that is fixed.
type Export<'t> = (&'t str, Option<u16>);

/// Reads a list: a function on each line, and behind some their ordinals.
fn exports(text: &str) -> Result<Vec<Export<'_>>> {
    let read = |line: &'_ str| -> Result<(usize, Option<u16>)> {
        let (name, ordinal) = line.split_once(' ').map_or((line, None), |(name, ordinal)| (name, Some(ordinal)));
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        ensure!(is_name, "no name: {line:?}");
        Ok((name.len(), ordinal.map(str::parse).transpose().with_context(|| format!("no ordinal: {line:?}"))?))
    };
    let exports = text.lines().map(|line| read(line).map(|(end, ordinal)| (&line[..end], ordinal)));
    let exports: Vec<Export<'_>> = exports.collect::<Result<_>>()?;
    let names: HashSet<&str> = exports.iter().map(|(name, _)| *name).collect();
    let ordinals: HashSet<u16> = exports.iter().filter_map(|(_, ordinal)| *ordinal).collect();
    let with_ordinal = exports.iter().filter(|(_, ordinal)| ordinal.is_some()).count();
    ensure!(names.len() == exports.len() && ordinals.len() == with_ordinal, "a name or an ordinal is there twice");
    Ok(exports)
}

/// What the linker exports.
fn definitions(name: &str, exports: &[Export<'_>]) -> String {
    let mut text = format!("LIBRARY {name}.dll\nEXPORTS\n");
    for (number, (name, ordinal)) in exports.iter().enumerate() {
        let ordinal = ordinal.map(|ordinal| format!(" @{ordinal}")).unwrap_or_default();
        let _ = writeln!(text, "  {name} = jump_{number}{ordinal}");
    }
    text
}

/// The code of the exports: each jumps to where its slot says, at first to `first_call` with its
/// number pushed.
fn jumps(exports: &[Export<'_>]) -> String {
    let mut text = String::from("\t.text\n");
    for number in 0..exports.len() {
        let _ =
            writeln!(text, "\t.globl jump_{number}\n\t.p2align 4\njump_{number}:\n\tjmp *slots+{}(%rip)", number * 8);
        let _ = writeln!(text, "first_{number}:\n\tpush ${number}\n\tjmp first_call");
    }
    text += "\t.data\n\t.globl slots\n\t.p2align 3\nslots:\n";
    for number in 0..exports.len() {
        let _ = writeln!(text, "\t.quad first_{number}");
    }
    text += "\t.section .rdata,\"dr\"\n\t.globl names\n\t.p2align 3\nnames:\n";
    for number in 0..exports.len() {
        let _ = writeln!(text, "\t.quad name_{number}");
    }
    for (number, (name, _)) in exports.iter().enumerate() {
        let _ = writeln!(text, "name_{number}:\n\t.asciz \"{name}\"");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_becomes_definitions_and_jumps() {
        let exports = exports("recv 16\nWSAPoll\n").unwrap();
        assert_eq!(exports, [("recv", Some(16)), ("WSAPoll", None)]);
        let text = definitions("ws2_32", &exports);
        assert_eq!(text, "LIBRARY ws2_32.dll\nEXPORTS\n  recv = jump_0 @16\n  WSAPoll = jump_1\n");
        let code = jumps(&exports);
        assert!(code.contains("jmp *slots+8(%rip)\nfirst_1:\n\tpush $1\n\tjmp first_call"), "{code}");
        assert!(code.contains("name_1:\n\t.asciz \"WSAPoll\""), "{code}");
    }

    #[test]
    fn lists_that_are_none_are_refused() {
        for wrong in ["recv x", "recv 70000", "", " 3", "a-b", "recv\nrecv", "recv 1\nsend 1", "recv 1 2"] {
            let text = format!("{wrong}\n");
            assert!(exports(&text).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn the_lists_have_the_ordinals_by_which_old_programs_import() {
        let source = workspace::root().join("crates/winsock/replacement");
        let ordinal = |list: &str, wanted: &str| {
            let text = fs::read_to_string(source.join(list).with_extension("exports")).unwrap();
            exports(&text).unwrap().iter().find(|(name, _)| *name == wanted).unwrap().1
        };
        for (list, name, number) in [
            ("ws2_32", "recv", Some(16)),
            ("ws2_32", "ioctlsocket", Some(10)),
            ("wsock32", "ioctlsocket", Some(12)),
            ("wsock32", "inet_addr", Some(10)),
            ("wsock32", "AcceptEx", Some(1141)),
            ("ws2_32", "WSAStartup", Some(115)),
            ("ws2_32", "WSAPoll", None),
            ("mswsock", "TransmitFile", None),
        ] {
            assert_eq!(ordinal(list, name), number, "{list} {name}");
        }
    }
}
