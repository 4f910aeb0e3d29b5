//! `cargo xtask man`: the man pages, generated from the definition of the command line.

// Only the definition, not the crate around it: xtask must build without clang and similar tools.
#[path = "../../crates/cli/src/args/mod.rs"]
#[allow(dead_code, reason = "only its definition is needed here")]
mod args;

use anyhow::{Context, Result};
use clap::{Arg, ArgAction, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Inline, Roff, bold, italic, roman};
use std::path::{Path, PathBuf};

/// Where to.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Write here instead of `man/`
    #[arg(long)]
    directory: Option<PathBuf>,
}

/// Writes a page for the program, one for each subcommand, and one for each of their subcommands.
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
    let commands: Vec<_> = program.get_subcommands().map(|subcommand| below(&program, subcommand)).collect();
    let all: Vec<_> = std::iter::once(&program).chain(&commands).collect();
    let mut pages = all.iter().map(|command| page(command, &all)).collect::<Result<Vec<_>>>()?;
    for command in commands.iter().filter(|command| command.has_subcommands()) {
        let text = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        let of_one = |one: &Command| match one.get_after_long_help() {
            Some(_) => below(command, one),
            None => below(command, one).after_long_help(about_one(&text, command.get_name(), one.get_name())),
        };
        let parts: Vec<_> = command.get_subcommands().filter(|one| !one.is_hide_set()).map(of_one).collect();
        let all: Vec<_> = std::iter::once(command).chain(&parts).collect();
        for part in &parts {
            pages.push(page(part, &all)?);
        }
    }
    Ok(pages)
}

/// A subcommand as its page shows it. Pages are named like those of git.
fn below(command: &Command, subcommand: &Command) -> Command {
    let name = format!("{}-{}", command.get_name(), subcommand.get_name());
    let usage = name.replace('-', " ");
    subcommand.clone().name(name).bin_name(usage)
}

/// The parts of a command's text that apply to one of its subcommands: the entries and examples
/// about this one, and all of files, environment and exit status.
fn about_one(text: &str, command: &str, name: &str) -> String {
    let mut about = String::new();
    let mut say = |line: &str| {
        about += line;
        about.push('\n');
    };
    let (mut heading, mut said, mut kept) = ("", "", false);
    for line in text.lines().filter(|line| !line.is_empty()) {
        let term = line.trim_start();
        match line.len() - term.len() {
            0 => heading = line,
            2 => {
                let names_it = term.split(", ").any(|one| one == name);
                kept = match heading {
                    "Files:" | "Environment:" | "Exit status:" => true,
                    "Examples:" => term.contains(&format!("{} {name}", command.replace('-', " "))),
                    _ => names_it,
                };
                // A heading is written with the first entry below it, and the subcommand's name is
                // left out on its own page.
                if kept && said != heading {
                    said = heading;
                    say(if heading == "Commands:" { "Notes:" } else { heading });
                }
                if kept && !names_it {
                    say(line);
                }
            }
            _ if kept => say(line),
            _ => {}
        }
    }
    about
}

fn page(command: &Command, all: &[&Command]) -> Result<(PathBuf, Vec<u8>)> {
    let name = command.get_name();
    let source = concat!("Tickwire ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).title(name.to_uppercase()).section("1").source(source).manual("Tickwire");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    synopsis(command).to_writer(&mut text)?;
    man.render_description_section(&mut text)?;
    text.extend(options(command, &man)?);
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(more) = command.get_after_long_help() {
        sections(&more.to_string()).to_writer(&mut text)?;
    }
    see_also(all.iter().map(|other| other.get_name()).filter(|other| *other != name)).to_writer(&mut text)?;
    Ok((Path::new(name).with_extension("1"), text))
}

/// The options and arguments. The library does not mark an argument that may be repeated.
fn options(command: &Command, man: &Man) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    man.render_options_section(&mut bytes)?;
    let mut text = String::from_utf8(bytes)?;
    for argument in command.get_positionals().filter(|argument| is_repeated(argument)) {
        for name in argument.get_value_names().unwrap_or_default() {
            text = text.replace(&format!("[\\fI{name}\\fR]\n"), &format!("[\\fI{name}\\fR]...\n"));
        }
    }
    Ok(text.into_bytes())
}

/// Whether a positional argument may be given several times.
fn is_repeated(argument: &Arg) -> bool {
    argument.get_num_args().is_some_and(|number| number.max_values() > 1)
}

/// The synopsis: each option with its value.
fn synopsis(command: &Command) -> Roff {
    let mut line = vec![bold(command.get_bin_name().unwrap_or(command.get_name()))];
    if command.has_subcommands() {
        line.extend([roman(" "), italic("COMMAND"), roman(" [...]")]);
    }
    let known = |argument: &&Arg| !argument.is_hide_set() && argument.get_id() != "help";
    let (positional, options): (Vec<&Arg>, Vec<&Arg>) =
        command.get_arguments().filter(known).partition(|argument| argument.is_positional());
    let options = options.into_iter().filter(|_| !command.has_subcommands());
    options.for_each(|option| line.extend(usage(option)));
    if positional.iter().any(|argument| argument.is_trailing_var_arg_set()) {
        line.extend([roman(" ["), bold("--"), roman("]")]);
    }
    positional.iter().for_each(|argument| line.extend(usage(argument)));
    let mut roff = Roff::new();
    roff.control("SH", ["SYNOPSIS"]).text(line);
    roff
}

/// An argument as a usage line shows it: ` [--interface IF]...`.
fn usage(argument: &Arg) -> Vec<Inline> {
    let (open, close) = if argument.is_required_set() { (" ", "") } else { (" [", "]") };
    let mut line = vec![roman(open)];
    match (argument.get_short(), argument.get_long()) {
        (Some(short), _) => line.push(bold(format!("-{short}"))),
        (None, Some(long)) => line.push(bold(format!("--{long}"))),
        (None, None) => {}
    }
    if argument.get_action().takes_values() {
        let separator = if argument.is_positional() { "" } else { " " };
        let names = argument.get_value_names().unwrap_or_default();
        line.push(roman(separator));
        line.extend(names.iter().map(|name| italic(name.as_str())));
    }
    line.push(roman(close));
    if argument.is_positional() && is_repeated(argument)
        || matches!(argument.get_action(), ArgAction::Append) && !argument.is_positional()
    {
        line.push(roman("..."));
    }
    line
}

/// The text after the options: headings end with a colon, terms are indented by two, their meanings
/// by six.
fn sections(text: &str) -> Roff {
    let mut roff = Roff::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match line.len() - line.trim_start().len() {
            0 => roff.control("SH", [line.trim_end_matches(':').to_uppercase().as_str()]),
            2 => roff.control("TP", []).text([bold(line.trim_start())]),
            _ => roff.text([roman(line.trim_start())]),
        };
    }
    roff
}

fn see_also<'a>(others: impl Iterator<Item = &'a str>) -> Roff {
    let mut line = Vec::new();
    for other in others {
        if !line.is_empty() {
            line.push(roman(", "));
        }
        line.extend([bold(other), roman("(1)")]);
    }
    let mut roff = Roff::new();
    roff.control("SH", ["SEE ALSO"]).text(line);
    roff
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

    #[test]
    fn the_synopsis_shows_what_options_take() {
        let mut program = args::Arguments::command();
        program.build();
        let of = |name: &str| {
            let text = synopsis(program.find_subcommand(name).unwrap()).to_roff();
            text.replace("\\fB", "").replace("\\fI", "").replace("\\fR", "").replace('\\', "")
        };
        assert!(of("service").contains("[--interface IF]... [--socket PATH]"), "{}", of("service"));
        assert!(of("run").ends_with("[--] PROGRAM [ARG]...\n"), "{}", of("run"));
        assert!(of("capture").contains(" -w FILE [-c N]"), "{}", of("capture"));
    }

    #[test]
    fn every_page_that_is_referred_to_exists() {
        let pages = pages().unwrap();
        for (name, page) in &pages {
            let page =
                String::from_utf8(page.clone()).unwrap().replace("\\fB", "").replace("\\fR", "").replace('\\', "");
            let words = page.split(|c: char| c.is_whitespace() || c == ',').filter_map(|word| word.strip_suffix("(1)"));
            for other in words.filter(|word| word.starts_with("tickwire")) {
                assert!(
                    pages.iter().any(|(name, _)| name.to_str() == Some(&format!("{other}.1"))),
                    "{name:?}: {other}"
                );
            }
        }
    }

    #[test]
    fn a_page_of_a_part_says_what_is_about_that() {
        let text = "Commands:\n  run\n      Runs.\n  stop, end\n      Stops.\n\nFiles:\n  /x\n      A file.\n\nOdd:\n  y\n      Else.\n\n\
                    Examples:\n  tickwire clock run\n      So.\n  tickwire clock end\n      Or so.\n";
        let expected =
            "Notes:\n      Stops.\nFiles:\n  /x\n      A file.\nExamples:\n  tickwire clock end\n      Or so.\n";
        assert_eq!(about_one(text, "tickwire-clock", "end"), expected);
    }

    #[test]
    fn arguments_that_may_be_repeated_are_shown_so_everywhere() {
        let of_run = |(name, _): &(PathBuf, Vec<u8>)| name == Path::new("tickwire-run.1");
        let (_, page) = pages().unwrap().into_iter().find(of_run).unwrap();
        assert_eq!(String::from_utf8(page).unwrap().matches("[\\fIARG\\fR]...\n").count(), 2);
    }

    #[test]
    fn every_page_says_how_it_exits_and_what_it_reads() {
        for (name, page) in pages().unwrap() {
            let page = String::from_utf8(page).unwrap();
            for heading in ["EXAMPLES", "ENVIRONMENT", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
                assert!(page.contains(&format!(".SH {heading}\n")), "{}: {heading}", name.display());
            }
            let wide = page.lines().filter(|line| !line.starts_with(".SH")).count();
            assert!(wide > 20);
        }
    }
}
