//! `cargo xtask fuzz`: the fuzz targets with libFuzzer, for a bounded time each.
//!
//! Compiler flags enable coverage instrumentation directly, so that a stable toolchain suffices. It
//! starts from the committed corpus; new inputs go to the target directory, not into the tree.

use crate::{deps, workspace};
use anyhow::{Context, Result, bail};
use std::fs;
use std::process::Command;

/// What to fuzz, and for how long.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Only this target; without it, all in turn
    target: Option<String>,

    /// Seconds for each target
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Instruments edges and comparisons in all code, for libFuzzer.
const INSTRUMENTATION: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing";

/// Keeps the memory of the stacks in the C library's heap between inputs. Otherwise it is mapped
/// anew for each input, which took four fifths of the time of `frames`.
const HEAP: [(&str, &str); 2] = [("MALLOC_MMAP_THRESHOLD_", "1073741824"), ("MALLOC_TRIM_THRESHOLD_", "1073741824")];

/// No input of a target needs to be longer.
const LONGEST_INPUT: usize = 4096;

/// The timeout of one input in seconds: the work of stack and decoders is bounded.
const TIMEOUT: u32 = 10;

/// Fuzzes; fails at the first input that breaks a target, and prints how to reproduce it.
pub(crate) fn run(options: &Options) -> Result<()> {
    deps::install(&deps::FUZZING)?;
    let folder = workspace::root().join("fuzz");
    let known = targets(&folder.join("corpus"))?;
    let chosen = match &options.target {
        Some(name) if known.contains(name) => std::slice::from_ref(name),
        Some(name) => bail!("no fuzz target {name}; there are: {}", known.join(", ")),
        None => &known[..],
    };
    let triple = env!("XTASK_TARGET");
    let build = workspace::target()?.join("fuzz");
    workspace::run(
        workspace::cargo()
            .current_dir(&folder)
            .args(["build", "--release", "--target", triple, "--target-dir"])
            .arg(&build)
            .env("RUSTFLAGS", INSTRUMENTATION),
    )?;
    for name in chosen {
        let found = build.join("corpus").join(name);
        fs::create_dir_all(&found).with_context(|| format!("cannot make {}", found.display()))?;
        let artifacts = format!("{}/", build.display());
        println!("== {name}, {} s", options.seconds);
        workspace::run(
            Command::new(build.join(triple).join("release").join(name))
                .arg(format!("-max_total_time={}", options.seconds))
                .arg(format!("-max_len={LONGEST_INPUT}"))
                .arg(format!("-timeout={TIMEOUT}"))
                .arg(format!("-artifact_prefix={artifacts}"))
                .args(["-print_final_stats=1", "-verbosity=0"])
                .envs(HEAP)
                .arg(&found)
                .arg(folder.join("corpus").join(name)),
        )
        .with_context(|| {
            format!("target {name} broke; the input is in {artifacts} (add it to fuzz/corpus/{name} with the mend)")
        })?;
    }
    Ok(())
}

/// A target has a folder in the corpus, and its own program.
fn targets(corpus: &std::path::Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(corpus).with_context(|| format!("cannot read {}", corpus.display()))? {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
