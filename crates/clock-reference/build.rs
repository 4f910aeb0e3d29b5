//! Compiles the BPF program with clang.

use std::env;
use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the architecture");
    let out = env::var_os("OUT_DIR").expect("cargo sets OUT_DIR");
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        // Debian keeps <asm/types.h> in the multiarch folder, which clang does not search for the
        // BPF target.
        .arg(format!("-I/usr/include/{arch}-linux-gnu"))
        .args(["-c", "bpf/stamp.c", "-o"])
        .arg(Path::new(&out).join("stamp.o"))
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile bpf/stamp.c: {status}"),
        Err(error) => panic!(
            "cannot run {clang} ({error}), which compiles the BPF programs: install it (Debian: apt-get install clang) or set CLANG"
        ),
    }
}
