//! Helpers that unit tests of several modules share.

use proptest::test_runner::{Config, RngSeed};

/// Property tests with a fixed seed.
pub(crate) fn proptest_config(cases: u32) -> Config {
    Config { cases, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Config::default() }
}
