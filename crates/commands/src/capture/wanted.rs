//! What a capture is of: checked before it begins, so that it does not wait silently for packets
//! that cannot come.

use super::{CaptureService, unexpected};
use crate::args::capture::CaptureOptions;
use anyhow::{Result, bail};
use tickwire_lane::control::{Reply, Request};

/// Linux truncates process names to this.
const LONGEST_NAME: usize = 15;

/// A lane of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedProgram {
    pub(super) number: u32,
    pub(super) program: String,
    pub(super) pid: u32,
}

/// All lanes that exist now and that the user may see.
pub(super) fn lanes(service: &mut impl CaptureService) -> Result<Vec<ListedProgram>> {
    let mut lanes = Vec::new();
    let mut after = 0;
    loop {
        let reply = service.ask(&Request::ListLanes { after })?;
        let (cursor, info) = match reply {
            // The programs without a lane follow the lanes.
            Reply::LaneInfo { cursor, info } if info.lane != 0 => (cursor, info),
            Reply::LaneInfo { .. } | Reply::Done => return Ok(lanes),
            reply => return Err(unexpected(&reply)),
        };
        after = cursor;
        lanes.push(ListedProgram { number: info.lane, program: info.program.as_str().to_owned(), pid: info.pid });
    }
}

/// Whether `wanted` means a program of this name and process number.
pub(super) fn is(name: &str, pid: u32, wanted: &str) -> bool {
    let cut = wanted.len() > LONGEST_NAME && name.len() == LONGEST_NAME && wanted.starts_with(name);
    name == wanted || cut || pid.to_string() == wanted
}

/// What the capture has to wait for, as text; none if there is something to capture now.
///
/// # Errors
/// It cannot come.
pub(super) fn check(lanes: &[ListedProgram], arguments: &CaptureOptions, may_see_all: bool) -> Result<Option<String>> {
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
    match (some, may_see_all) {
        (true, _) => Ok(None),
        (false, true) => Ok(Some(what)),
        // A capture of an unprivileged user covers the lanes that this user has when it begins.
        (false, false) => {
            bail!("there is nothing to capture, and a user captures only lanes that exist now: {}", there())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: CaptureOptions,
    }

    fn checked(arguments: &[&str], root: bool) -> Result<Option<String>, String> {
        let arguments = Line::parse_from([&["capture", "-w", "f"], arguments].concat()).options;
        let lane = |number, program: &str| ListedProgram { number, program: program.to_owned(), pid: 70 + number };
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
        assert!(checked(&["--program", "redis"], false).unwrap_err().contains("only lanes that exist now"));
        assert!(checked(&["--lane", "6"], false).is_err());
        let error = checked(&["--lane", "99"], true).unwrap_err();
        assert!(error.starts_with("there is no lane 99") && error.contains("3 (nginx)"), "{error}");
    }
}
