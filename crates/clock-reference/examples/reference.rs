//! The true time for the lab of Windows programs, without the libraries of other clocks that the
//! program `truth` is built with.
//!
//!     reference begin RECIPE TRUTH     fixes a truth that begins now
//!     reference serve TRUTH ADDRESS    serves it by NTP, until killed
//!     reference judge TRUTH            reads lines COUNT UTC_NS, and prints UTC - truth in ns

use anyhow::{Context, Result, bail};
use std::io::{BufRead, Write};
use std::os::fd::AsFd;
use std::path::Path;
use tickclock::{Count, Nanos};
use tickwire_clock_reference::Truth;
use tickwire_clock_reference::server::{ReferenceServer, TransmitStamping};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match *words {
        ["begin", recipe, truth] => {
            let text = std::fs::read_to_string(recipe).with_context(|| format!("cannot read {recipe}"))?;
            let recipe = toml::from_str(&text).with_context(|| format!("{recipe} is no recipe"))?;
            Truth::begin(recipe)?.write(Path::new(truth))
        }
        ["serve", truth, address] => {
            let truth = Truth::read(Path::new(truth))?;
            let mut server = ReferenceServer::bind(truth, address.parse()?, TransmitStamping::Told)?;
            eprintln!("serving");
            let (stop, _never) = nix::unistd::pipe()?;
            server.run(stop.as_fd())
        }
        ["judge", truth] => judge(&Truth::read(Path::new(truth))?),
        _ => bail!("expected: begin RECIPE TRUTH, serve TRUTH ADDRESS, or judge TRUTH"),
    }
}

fn judge(truth: &Truth) -> Result<()> {
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (count, utc) = line.split_once(' ').with_context(|| format!("{line:?} is no reading"))?;
        writeln!(output, "{}", Nanos(utc.parse()?).since(truth.at(Count(count.parse()?))))?;
    }
    Ok(())
}
