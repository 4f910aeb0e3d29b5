//! What the library imports: not Winsock, before which it is to be loaded.

use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Fails if the library imports Winsock, or what a machine without our tools lacks.
pub(super) fn check(library: &Path) -> Result<()> {
    let output = Command::new("x86_64-w64-mingw32-objdump").arg("-p").arg(library).output();
    let output = output.context("cannot run objdump")?;
    ensure!(output.status.success(), "objdump: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let imports = imported(&text);
    ensure!(!imports.is_empty(), "objdump shows no imports of {}", library.display());
    let forbidden: Vec<&str> = imports.into_iter().filter(|name| is_forbidden(name)).collect();
    ensure!(forbidden.is_empty(), "{} imports {}", library.display(), forbidden.join(", "));
    Ok(())
}

/// The libraries in `objdump -p`.
fn imported(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.trim().strip_prefix("DLL Name: ")).collect()
}

/// Winsock, and libraries of the compiler.
fn is_forbidden(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    ["ws2_32", "wsock32", "mswsock", "libgcc", "libwinpthread"].iter().any(|forbidden| name.starts_with(forbidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn winsock_is_found_among_imports() {
        let text = "The Import Tables\n\tDLL Name: KERNEL32.dll\n\tvma: ...\n\n\tDLL Name: WS2_32.dll\n";
        assert_eq!(imported(text), ["KERNEL32.dll", "WS2_32.dll"]);
        assert!(is_forbidden("WS2_32.dll") && is_forbidden("libgcc_s_seh-1.dll") && !is_forbidden("KERNEL32.dll"));
    }
}
