//! The fuzzers' corpus: inputs in `fuzz/corpus`, a folder per target. Tests keep its seeds up to
//! date and replay every input, so that each defect a fuzzer found stays a regression test.

use std::fs;
use std::path::PathBuf;

/// Environment variable: if set, [`keep`] writes the seeds instead of comparing them.
const UPDATE: &str = "UPDATE_CORPUS";

fn folder(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target)
}

/// Checks that the corpus of `target` holds `seeds`, by their names, byte for byte.
///
/// # Panics
/// If a seed is missing or differs, or cannot be written under `UPDATE_CORPUS`.
pub fn keep(target: &str, seeds: &[(&str, Vec<u8>)]) {
    for (name, bytes) in seeds {
        let seed = folder(target).join(name);
        if std::env::var_os(UPDATE).is_some() {
            fs::write(&seed, bytes).unwrap_or_else(|e| panic!("{}: {e}", seed.display()));
        }
        let found = fs::read(&seed).unwrap_or_default();
        assert!(found == *bytes, "the seed {target}/{name} is out of date: run this test once with {UPDATE}=1");
    }
}

/// Hands every input in the corpus of `target` to `run`.
///
/// # Panics
/// If there are no inputs, or one cannot be read.
pub fn replay(target: &str, mut run: impl FnMut(&[u8])) {
    let folder = folder(target);
    let inputs = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut seen = 0;
    for input in inputs {
        let path = input.unwrap_or_else(|e| panic!("{}: {e}", folder.display())).path();
        run(&fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
        seen += 1;
    }
    assert!(seen > 0, "{} has inputs", folder.display());
}
