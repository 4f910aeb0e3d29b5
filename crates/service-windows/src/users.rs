//! What each user has of the service, and how much it may have: so that no user takes all of it.
//!
//! A [`UserShare`] counts for its user until it is dropped.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tickwire_lane::control::Reason;

/// The identifier (SID) of a user. Empty: it is not known, and all such users count as one.
pub type UserId = Arc<[u8]>;

/// A user, as far as the service looks at it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its identifier.
    pub id: UserId,
    /// It has the rights of an administrator, and may see the programs of all users.
    pub is_administrator: bool,
}

impl User {
    /// Of a process of which Windows does not say the user.
    #[must_use]
    pub fn unknown() -> Self {
        Self { id: Arc::from([]), is_administrator: false }
    }

    /// Whether the user may see the programs of another one. The rows of a lane have the sequence
    /// numbers of its connections: whatever knows them can send segments that the peer takes.
    ///
    /// A user's programs with the rights of an administrator are not seen by those without, from
    /// which Windows protects them, too.
    #[must_use]
    pub fn may_see(&self, owner: &Self) -> bool {
        self.is_administrator || !owner.is_administrator && !self.id.is_empty() && self.id == owner.id
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Connections to the service.
    Connection,
    /// Lanes.
    Lane,
    /// Claims.
    Claim,
    /// Paths that are looked after.
    Path,
    /// Threads that ask Windows about handles.
    HandleThread,
    /// Captures.
    Capture,
}

const RESOURCES: usize = 6;

impl Resource {
    /// The most that one user may have: three quarters of what there is for all, where there is a
    /// limit for all.
    const fn most(self) -> usize {
        match self {
            Self::Connection => 384,
            Self::Lane => 192,
            Self::Claim => 32_768,
            Self::Path => 16_384,
            Self::HandleThread => 448,
            Self::Capture => 3,
        }
    }

    /// Why a user gets no more.
    const fn reason(self) -> Reason {
        match self {
            Self::Connection => Reason::UserConnectionLimit,
            Self::Lane => Reason::UserLaneLimit,
            Self::Claim => Reason::UserFlowLimit,
            Self::Path => Reason::UserPathLimit,
            Self::HandleThread => Reason::HandleBusy,
            Self::Capture => Reason::UserCaptureLimit,
        }
    }
}

/// What one user may have of what there is for all: three quarters.
#[must_use]
pub const fn share_of(all: usize) -> usize {
    all / 4 * 3
}

/// What one user has.
#[derive(Debug, Default)]
struct Taken {
    counts: [usize; RESOURCES],
    turn: ClaimTurn,
}

/// The turn of one of a user's programs to claim a port: see [`Users::turn`].
#[derive(Clone, Debug, Default)]
pub struct ClaimTurn(Arc<Mutex<()>>);

impl ClaimTurn {
    /// Waits for it.
    pub fn take(&self) -> MutexGuard<'_, ()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What all users have.
#[derive(Clone, Debug, Default)]
pub struct Users(Arc<Mutex<BTreeMap<UserId, Taken>>>);

impl Users {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<UserId, Taken>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What makes a user's programs claim ports one after the other. Firewall and driver take their
    /// time for each, and are asked for one at a time: however many programs of a user ask, another
    /// user waits for one of them. It is the same for as long as the user has something.
    #[must_use]
    pub fn turn(&self, user: &UserId) -> ClaimTurn {
        self.lock().get(user).map(|taken| taken.turn.clone()).unwrap_or_default()
    }

    /// Takes one for a user.
    ///
    /// # Errors
    /// Which limit it has reached.
    pub fn take(&self, user: &UserId, what: Resource) -> Result<UserShare, Reason> {
        let mut users = self.lock();
        let count = &mut users.entry(Arc::clone(user)).or_default().counts[what as usize];
        if *count >= what.most() {
            return Err(what.reason());
        }
        *count += 1;
        drop(users);
        Ok(UserShare { users: self.clone(), user: Arc::clone(user), what })
    }
}

/// One of what a user has.
#[derive(Debug)]
pub struct UserShare {
    users: Users,
    user: UserId,
    what: Resource,
}

impl Drop for UserShare {
    fn drop(&mut self) {
        let mut users = self.users.lock();
        if let Some(Taken { counts, .. }) = users.get_mut(&self.user) {
            counts[self.what as usize] -= 1;
            if counts.iter().all(|count| *count == 0) {
                users.remove(&self.user);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_no_more_than_its_share_and_others_have_theirs() {
        let users = Users::default();
        let (one, other): (UserId, UserId) = (Arc::from([1]), Arc::from([2]));
        for what in [Resource::Connection, Resource::Lane, Resource::HandleThread, Resource::Capture] {
            let mut all: Vec<_> = (0..what.most()).map(|_| users.take(&one, what).unwrap()).collect();
            assert_eq!(users.take(&one, what).err(), Some(what.reason()));
            drop(users.take(&other, what).unwrap());
            all.pop();
            all.push(users.take(&one, what).unwrap());
            assert!(users.take(&one, what).is_err());
        }
        assert!(users.lock().is_empty(), "what is given back is forgotten");
    }

    #[test]
    fn a_users_programs_have_turns_and_wait_for_no_other_user() {
        let users = Users::default();
        let (one, other): (UserId, UserId) = (Arc::from([1]), Arc::from([2]));
        let _shares = [&one, &other].map(|user| users.take(user, Resource::Connection).unwrap());
        let turn = users.turn(&one);
        let taken = turn.take();
        assert!(users.turn(&one).0.try_lock().is_err() && users.turn(&other).0.try_lock().is_ok());
        drop(taken);
        assert!(users.turn(&one).0.try_lock().is_ok());
    }

    #[test]
    fn administrators_see_all_programs_and_others_their_own() {
        let user = |id: &[u8], is_administrator| User { id: Arc::from(id), is_administrator };
        let (one, other) = (user(&[1], false), user(&[2], false));
        assert!(one.may_see(&one) && !one.may_see(&other));
        let administrator = user(&[1], true);
        assert!(administrator.may_see(&one) && administrator.may_see(&other));
        assert!(!one.may_see(&administrator), "the same user, with more rights");
        assert!(user(&[3], true).may_see(&administrator));
        let unknown = User::unknown();
        assert!(!unknown.may_see(&unknown), "another one may be meant");
    }
}
