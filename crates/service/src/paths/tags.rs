//! VLAN tags where XDP sees them.
//!
//! A device that strips the tag of a frame hands it over beside the frame. XDP sees the frame
//! alone, and would take one of another VLAN for its own. So XDP runs only where tags stay in their
//! frames; elsewhere a tc filter runs, which sees both.

use tickwire_host::{Ethtool, NetworkInterface, TagStripping};

/// An interface whose frames keep their tags. Dropping it restores the settings that were changed.
#[derive(Debug)]
pub(crate) struct KeptTags {
    index: u32,
    /// What the device stripped before, and no longer does.
    changed: TagStripping,
}

impl KeptTags {
    /// Has a device leave tags in its frames.
    ///
    /// # Errors
    /// Why it is not known to do so.
    pub(crate) fn keep(link: &NetworkInterface) -> Result<Self, String> {
        // A virtual device passes on what others have received. A TAP device is fed with whole
        // frames by a program.
        if !link.kind.is_empty() && link.kind != "tun" {
            return Err(format!("a {} device hands over VLAN tags beside the frame", link.kind));
        }
        let (kept, still) = Self::tell(link.index).map_err(|error| error.to_string())?;
        if still.any() {
            Err("the device strips VLAN tags from frames and cannot be told not to".into())
        } else {
            Ok(kept)
        }
    }

    /// Has a device leave tags in. Returns also what it strips all the same.
    fn tell(index: u32) -> tickwire_host::Result<(Self, TagStripping)> {
        let mut ethtool = Ethtool::open()?;
        let before = ethtool.tag_stripping(index)?;
        if !before.any() {
            return Ok((Self { index, changed: before }, before));
        }
        ethtool.set_tag_stripping(index, before, false)?;
        let after = ethtool.tag_stripping(index)?;
        Ok((Self { index, changed: before.without(after) }, after))
    }

    /// Whether all tags are still left in.
    pub(crate) fn still(&self) -> bool {
        Ethtool::open().and_then(|mut ethtool| ethtool.tag_stripping(self.index)).is_ok_and(|strips| !strips.any())
    }
}

impl Drop for KeptTags {
    fn drop(&mut self) {
        if self.changed.any()
            && let Ok(mut ethtool) = Ethtool::open()
        {
            // The device may be gone by now.
            let _ = ethtool.set_tag_stripping(self.index, self.changed, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sched::{CloneFlags, unshare};
    use std::process::Command;
    use tickwire_host::RouteNetlink;

    #[test]
    fn a_device_is_told_to_leave_tags_in_and_has_its_setting_back_afterwards() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return;
        }
        let body = || {
            unshare(CloneFlags::CLONE_NEWNET).unwrap();
            let made = Command::new("ip").args(["link", "add", "one", "type", "veth", "peer", "name", "two"]).status();
            assert!(made.unwrap().success());
            let link = RouteNetlink::open().unwrap().link_by_name("one").unwrap().unwrap();
            assert!(KeptTags::keep(&link).unwrap_err().contains("veth"), "whatever its setting is");
            let mut ethtool = Ethtool::open().unwrap();
            let before = ethtool.tag_stripping(link.index).unwrap();
            assert!(before.any());
            let (kept, left) = KeptTags::tell(link.index).unwrap();
            assert!(!left.any() && kept.still() && !ethtool.tag_stripping(link.index).unwrap().any());
            ethtool.set_tag_stripping(link.index, before, true).unwrap();
            assert!(!kept.still(), "it strips tags again");
            ethtool.set_tag_stripping(link.index, before, false).unwrap();
            drop(kept);
            assert_eq!(ethtool.tag_stripping(link.index).unwrap(), before);
        };
        std::thread::spawn(body).join().unwrap();
    }
}
