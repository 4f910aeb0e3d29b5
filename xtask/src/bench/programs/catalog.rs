//! The programs, family by family.

use super::family;
use super::figure::{Direction, Figure};
use super::install::Item;
use super::launch::{Launch, Ready, Site};

/// One row of the table.
pub(super) struct Program {
    /// Its name; `--only` looks for a part of it.
    pub(super) name: &'static str,
    /// The measured quantity, in the terms of the program.
    pub(super) about: &'static str,
    /// What must be installed.
    pub(super) needs: &'static [Item],
    /// The unit of the program's own figure.
    pub(super) unit: &'static str,
    pub(super) direction: Direction,
    /// Run once before all measurements, to prepare the shared directory.
    pub(super) prepare: Option<fn(&Site) -> anyhow::Result<()>>,
    pub(super) server: fn(&Site) -> anyhow::Result<Launch>,
    pub(super) ready: Ready,
    pub(super) client: fn(&Site) -> anyhow::Result<Launch>,
    /// Reads what the client printed.
    pub(super) read: fn(&str) -> Option<Figure>,
}

/// All programs, in the order of the table.
pub(super) fn all() -> Vec<Program> {
    let families: [fn() -> Vec<Program>; 9] = [
        family::redis::programs,
        family::nginx::programs,
        family::postgres::programs,
        family::epics::programs,
        family::dds::programs,
        family::industrial::programs,
        family::messaging::programs,
        family::runtimes::programs,
        family::iperf::programs,
    ];
    families.into_iter().flat_map(|programs| programs()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_apart() {
        let mut names: Vec<_> = all().iter().map(|program| program.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert!(names.len() == count && count >= 16, "{names:?}");
    }
}
