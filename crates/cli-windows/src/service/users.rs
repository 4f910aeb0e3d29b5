//! Which users may be accelerated: the members of a group. (Administrators and the service's own
//! user always may.)

use crate::sys::account_sid;
use anyhow::{Context, Result};

/// The usual group.
pub(crate) const GROUP: &str = "Tickwire Users";

/// Administrators, as SDDL abbreviates them.
const ADMINISTRATORS: &str = "BA";

/// The SID of this group, of [`GROUP`] if there is such a group, or of administrators.
pub(super) fn sid(group: Option<&str>) -> Result<String> {
    let Some(name) = group else {
        if let Some(sid) = found(GROUP)? {
            return Ok(sid);
        }
        tracing::info!("there is no group `{GROUP}`: only administrators may use the service");
        return Ok(ADMINISTRATORS.into());
    };
    if name.get(..2).is_some_and(|begin| begin.eq_ignore_ascii_case("S-")) {
        return Ok(name.to_owned());
    }
    found(name)?.with_context(|| format!("there is no group {name:?}: make it by `net localgroup \"{name}\" /add`"))
}

fn found(name: &str) -> Result<Option<String>> {
    account_sid(name).with_context(|| format!("cannot look up the group {name:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_looked_up_and_sids_are_taken_as_they_are() {
        assert_eq!(sid(Some("Administrators")).unwrap(), "S-1-5-32-544");
        assert_eq!(sid(Some("S-1-5-11")).unwrap(), "S-1-5-11");
        assert_eq!(sid(None).unwrap(), ADMINISTRATORS, "Wine has no such group");
        let error = sid(Some("no such group")).unwrap_err().to_string();
        assert!(error.contains("net localgroup \"no such group\" /add"), "{error}");
        for odd in ["ä", "€", "s"] {
            assert!(sid(Some(odd)).is_err(), "{odd}");
        }
    }
}
