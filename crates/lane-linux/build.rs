//! Compiles the BPF programs (feature `bpf`) with clang.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

const OBJECTS: [&str; 2] = ["host", "probe"];

fn main() {
    println!("cargo:rerun-if-changed=bpf");
    println!("cargo:rerun-if-env-changed=CLANG");
    if env::var_os("CARGO_FEATURE_BPF").is_none() {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    for object in OBJECTS {
        compile(Path::new("bpf").join(format!("{object}.bpf.c")), &out.join(format!("{object}.o")));
    }
}

fn compile(source: PathBuf, object: &Path) {
    let clang = env::var("CLANG").unwrap_or_else(|_| "clang".into());
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("cargo sets the architecture");
    let status = Command::new(&clang)
        .args(["-target", "bpf", "-O2", "-g", "-Wall", "-Wextra", "-Werror"])
        .args(["-Wno-unused-function", "-Wno-unused-variable"])
        // Debian keeps <asm/types.h> in the multiarch folder, which clang does not search for the
        // BPF target.
        .arg(format!("-I/usr/include/{arch}-linux-gnu"))
        .arg("-c")
        .arg(&source)
        .arg("-o")
        .arg(object)
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{clang} could not compile {}: {status}", source.display()),
        Err(error) => panic!(
            "cannot run {clang} ({error}), which compiles the BPF programs: install it (Debian: apt-get install clang) or set CLANG"
        ),
    }
}
