//! Why WinDivert cannot be used, each with what to do.

use std::path::PathBuf;

/// The version that is needed at least.
pub const NEEDED: (u64, u64) = (2, 2);

/// Why WinDivert cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum WinDivertError {
    /// Its library is not there.
    #[error("there is no {}: put WinDivert.dll and WinDivert64.sys of WinDivert 2.2 beside the program", path.display())]
    Missing {
        /// Where it was looked for.
        path: PathBuf,
    },
    /// Its library is for another processor.
    #[error("{} is for another kind of processor: take the one from the folder x64 of WinDivert 2.2", path.display())]
    Architecture {
        /// The library.
        path: PathBuf,
    },
    /// Its library cannot be loaded.
    #[error("Windows cannot load {} (error {code}): install WinDivert 2.2 again", path.display())]
    Unloadable {
        /// The library.
        path: PathBuf,
        /// The number of Windows' error.
        code: u32,
    },
    /// Its library lacks a function.
    #[error("{} has no function {function}: it is not of WinDivert 2.2, install that", path.display())]
    Function {
        /// The library.
        path: PathBuf,
        /// The function's name.
        function: &'static str,
    },
    /// The driver that is loaded is another version.
    #[error(
        "WinDivert's driver is version {major}.{minor}, and 2.2 is needed: end the program that has loaded it, \
         or restart Windows"
    )]
    Version {
        /// The first part of its version.
        major: u64,
        /// The second part.
        minor: u64,
    },
    /// The driver cannot be opened.
    #[error("{}", explained(*code))]
    Driver {
        /// The number of Windows' error.
        code: u32,
    },
    /// The library refuses a filter.
    #[error("WinDivert refuses the filter at its character {position}: {reason}: {filter}")]
    Filter {
        /// The filter.
        filter: String,
        /// Where in it.
        position: u32,
        /// Its words for it.
        reason: String,
    },
    /// There are more ports than a filter can hold.
    #[error(
        "the claimed ports need a filter of {tests} tests, and WinDivert accepts {most}: the port stays the kernel's; \
         use neighbouring ports"
    )]
    TooManyPorts {
        /// Tests of the filter.
        tests: usize,
        /// The most that are accepted.
        most: usize,
    },
    /// Windows refuses something else.
    #[error("Windows refuses an event or its setting for WinDivert: {0}")]
    Windows(#[from] std::io::Error),
}

const FILE_NOT_FOUND: u32 = 2;
const ACCESS_DENIED: u32 = 5;
const INVALID_PARAMETER: u32 = 87;
const INVALID_IMAGE_HASH: u32 = 577;
const DRIVER_FAILED_PRIOR_UNLOAD: u32 = 654;
const SERVICE_DISABLED: u32 = 1058;
const SERVICE_DOES_NOT_EXIST: u32 = 1060;
const DRIVER_BLOCKED: u32 = 1275;
const NOT_REGISTERED: u32 = 1753;

/// The documented errors of opening a handle, in words.
fn explained(code: u32) -> String {
    let words = match code {
        FILE_NOT_FOUND => "WinDivert's driver is missing: put WinDivert64.sys beside WinDivert.dll",
        ACCESS_DENIED => "no right to open WinDivert's driver: run the service as an administrator, or as LocalSystem",
        INVALID_PARAMETER => {
            "WinDivert refuses the filter, the layer, the priority or the flags: install WinDivert 2.2"
        }
        INVALID_IMAGE_HASH => {
            "WinDivert's driver has no valid signature: take the signed WinDivert64.sys of WinDivert 2.2, unchanged"
        }
        DRIVER_FAILED_PRIOR_UNLOAD => {
            "another version of WinDivert's driver is loaded: end the program that uses it, or restart Windows"
        }
        SERVICE_DISABLED => {
            "WinDivert's driver is disabled or about to be removed: enable its service, or restart Windows"
        }
        SERVICE_DOES_NOT_EXIST => "WinDivert's driver is not installed: put WinDivert64.sys beside WinDivert.dll",
        DRIVER_BLOCKED => {
            "WinDivert's driver is blocked by security software or by the virtual machine: allow WinDivert64.sys there"
        }
        NOT_REGISTERED => {
            "the Base Filtering Engine is not running, without which WinDivert cannot work: start service BFE"
        }
        _ => return format!("WinDivert's driver cannot be opened (error {code}): install WinDivert 2.2 again"),
    };
    format!("{words} (error {code})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_documented_error_has_one_sentence_that_says_what_to_do() {
        let codes = [
            FILE_NOT_FOUND,
            ACCESS_DENIED,
            INVALID_PARAMETER,
            INVALID_IMAGE_HASH,
            DRIVER_FAILED_PRIOR_UNLOAD,
            SERVICE_DISABLED,
            SERVICE_DOES_NOT_EXIST,
            DRIVER_BLOCKED,
            NOT_REGISTERED,
            31,
        ];
        let mut sentences: Vec<String> = codes.map(|code| WinDivertError::Driver { code }.to_string()).into();
        for (sentence, code) in sentences.iter().zip(codes) {
            assert!(sentence.contains(": ") && sentence.contains(&format!("(error {code})")), "{sentence}");
        }
        sentences.sort();
        sentences.dedup();
        assert_eq!(sentences.len(), codes.len());
    }
}
