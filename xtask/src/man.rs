//! `cargo xtask man`: the man pages, generated from the definition of the command line.

// The definition itself, not the crate around it: xtask must build without clang and the like.
#[path = "../../crates/cli/src/args.rs"]
#[allow(dead_code, reason = "only its definition is needed here")]
mod args;

use anyhow::{Context, Result};
use clap::CommandFactory;
use std::path::{Path, PathBuf};

/// Where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write here instead of `man/`
    #[arg(long)]
    directory: Option<PathBuf>,
}

/// Writes a page for the program and one for each subcommand.
pub(crate) fn run(options: &Options) -> Result<()> {
    let directory = options.directory.clone().unwrap_or_else(checked_in);
    std::fs::create_dir_all(&directory).with_context(|| format!("cannot create {}", directory.display()))?;
    for (name, page) in pages()? {
        let path = directory.join(name);
        std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
        println!("{}", path.display());
    }
    Ok(())
}

fn checked_in() -> PathBuf {
    crate::workspace::root().join("man")
}

fn pages() -> Result<Vec<(PathBuf, Vec<u8>)>> {
    let mut program = args::Arguments::command();
    program.build();
    let mut pages = vec![page(&program)?];
    for subcommand in program.get_subcommands() {
        // Pages of subcommands are named as those of git are.
        let name = format!("tickwire-{}", subcommand.get_name());
        let usage = format!("tickwire {}", subcommand.get_name());
        pages.push(page(&subcommand.clone().name(name).bin_name(usage))?);
    }
    Ok(pages)
}

fn page(command: &clap::Command) -> Result<(PathBuf, Vec<u8>)> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).section("1").render(&mut text)?;
    Ok((Path::new(command.get_name()).with_extension("1"), text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_man_pages_in_the_tree_are_those_of_the_command_line() {
        for (name, page) in pages().unwrap() {
            let path = checked_in().join(name);
            let found = std::fs::read(&path).unwrap_or_default();
            assert!(found == page, "{} is out of date: run `cargo xtask man`", path.display());
        }
    }
}
