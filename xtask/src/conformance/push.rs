//! Scripts without PSH: copies in which no packet is expected to carry it. Linux sets PSH on each
//! burst that it passes to the network card, our stack on the last segment that is queued. Both are
//! allowed (RFC 9293 §3.9.1.2), and the rest of the script is worth checking.

use anyhow::{Context, Result};
use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

/// Copies `script` from `net` to the same name below `folder`, so that failures are reported alike.
pub(super) fn copy_without(net: &Path, script: &str, folder: &Path) -> Result<PathBuf> {
    let from = net.join(script);
    let text = fs::read_to_string(&from).with_context(|| format!("cannot read {}", from.display()))?;
    let text: String = text.split_inclusive('\n').map(without).collect();
    let to = folder.join(script);
    let parent = to.parent().context("a script lies in a folder")?;
    fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
    fs::write(&to, text).with_context(|| format!("cannot write {}", to.display()))?;
    Ok(to)
}

/// The line without PSH, if it is an expected outgoing packet: a time, `>`, optionally ECN bits
/// such as `[ect0]`, then the flags.
fn without(line: &str) -> Cow<'_, str> {
    let Some((time, packet)) = line.split_once('>') else { return line.into() };
    if time.contains(|c: char| !(c.is_ascii_digit() || c.is_whitespace() || "+-.~*".contains(c))) {
        return line.into();
    }
    let flags = match packet.split_once(']') {
        Some((ecn, rest)) if ecn.trim_start().starts_with('[') => line.len() - rest.len(),
        _ => line.len() - packet.len(),
    };
    let flags = flags + line[flags..].len() - line[flags..].trim_start().len();
    let end = line[flags..].find(char::is_whitespace).map_or(line.len(), |length| flags + length);
    let kept = line[flags..end].replace('P', "");
    if kept.is_empty() { line.into() } else { [&line[..flags], &kept, &line[end..]].concat().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_packets_that_leave_lose_it() {
        for (line, expected) in [
            ("   +0 > P. 1:1001(1000) ack 1\n", "   +0 > . 1:1001(1000) ack 1\n"),
            ("+.2~+.4\t> FP. 1:2(1) ack 1", "+.2~+.4\t> F. 1:2(1) ack 1"),
            (
                "+0 > [ect0] P. 1:2(1) ack 1 <nop,nop,TS val 5 ecr 6>\n",
                "+0 > [ect0] . 1:2(1) ack 1 <nop,nop,TS val 5 ecr 6>\n",
            ),
            ("+0 > .P 1:2(1)", "+0 > . 1:2(1)"),
        ] {
            assert_eq!(without(line), expected);
        }
        for same in [
            "+0 < P. 1:1001(1000) ack 1",
            "+0 > . 1:1001(1000) ack 1",
            "+0 %{ assert P > 1 }%",
            "// P > P",
            "+0 > ",
            "",
        ] {
            assert_eq!(without(same), same);
        }
    }
}
