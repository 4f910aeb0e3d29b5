//! What a capture is of: found out before it begins, so that nobody waits in silence for what
//! cannot come.

use crate::args::capture::Capture;
use crate::client::{Client, unexpected};
use anyhow::{Result, bail};
use tickwire_link::control::{Reply, Request};

/// The kernel cuts the names of processes.
const LONGEST_NAME: usize = 15;

/// A lane of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub(super) number: u32,
    pub(super) program: String,
    pub(super) pid: u32,
}

/// All lanes there are now that the asker may see.
pub(super) fn lanes(client: &mut Client) -> Result<Vec<Lane>> {
    let mut lanes = Vec::new();
    let mut after = 0;
    loop {
        let (reply, _) = client.ask(&Request::ListLanes { after })?;
        let (cursor, info) = match reply {
            // Behind the lanes come the programs that have none.
            Reply::LaneInfo { cursor, info } if info.lane != 0 => (cursor, info),
            Reply::LaneInfo { .. } | Reply::Done => return Ok(lanes),
            reply => return Err(unexpected(&reply)),
        };
        after = cursor;
        lanes.push(Lane { number: info.lane, program: info.program.as_str().to_owned(), pid: info.pid });
    }
}

/// Whether a program of this name and process number is meant.
pub(super) fn is(name: &str, pid: u32, wanted: &str) -> bool {
    let cut = wanted.len() > LONGEST_NAME && name.len() == LONGEST_NAME && wanted.starts_with(name);
    name == wanted || cut || pid.to_string() == wanted
}

/// What has to come before there is anything to capture, in words.
///
/// # Errors
/// It cannot come.
pub(super) fn check(lanes: &[Lane], arguments: &Capture, root: bool) -> Result<Option<String>> {
    let there = || match lanes.iter().map(|lane| format!("{} ({})", lane.number, lane.program)).collect::<Vec<_>>() {
        none if none.is_empty() => "there is no lane now".to_owned(),
        all => format!("the lanes now are {}", all.join(", ")),
    };
    if let Some(number) = arguments.lane {
        if !lanes.iter().any(|lane| lane.number == number) {
            bail!("there is no lane {number} of yours: {} (see `tickwire stat`)", there());
        }
        return Ok(None);
    }
    let (some, what) = match &arguments.program {
        Some(program) => (
            lanes.iter().any(|lane| is(&lane.program, lane.pid, program)),
            format!("a lane of {program}: it has none ({})", there()),
        ),
        None => (!lanes.is_empty(), "the first program to get a lane".to_owned()),
    };
    match (some, root) {
        (true, _) => Ok(None),
        (false, true) => Ok(Some(what)),
        // The service gives a user the lanes that he has when he asks.
        (false, false) => {
            bail!("there is nothing to capture, and a user captures the lanes that he has now: {}", there())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Arguments, Command};
    use clap::Parser;

    fn checked(arguments: &[&str], root: bool) -> Result<Option<String>, String> {
        let all = [&["tickwire", "capture", "-w", "f"], arguments].concat();
        let Command::Capture(arguments) = Arguments::parse_from(all).command else { unreachable!("it says capture") };
        let lane = |number, program: &str| Lane { number, program: program.to_owned(), pid: 70 + number };
        let lanes = [lane(3, "nginx"), lane(5, "a-long-program-")];
        check(&lanes, &arguments, root).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_there_is_captured_without_a_word() {
        for arguments in [&[][..], &["--lane", "3"], &["--program", "nginx"], &["--program", "75"]] {
            assert_eq!(checked(arguments, false), Ok(None), "{arguments:?}");
        }
        assert_eq!(checked(&["--program", "a-long-program-name"], true), Ok(None), "the kernel has cut it");
    }

    #[test]
    fn what_may_come_is_named_and_what_cannot_is_an_error() {
        let waits = checked(&["--program", "redis"], true).unwrap().unwrap();
        assert!(waits.starts_with("a lane of redis") && waits.contains("3 (nginx)"), "{waits}");
        assert!(checked(&["--program", "redis"], false).unwrap_err().contains("lanes that he has now"));
        assert!(checked(&["--lane", "6"], false).is_err());
        let error = checked(&["--lane", "99"], true).unwrap_err();
        assert!(error.starts_with("there is no lane 99") && error.contains("3 (nginx)"), "{error}");
    }
}
