//! Polls that end an earlier one of the same socket. A socket has a main poll: the first one, while
//! it waits. A poll that is exclusive ends the main poll if that is exclusive, too.

use crate::real::Handle;
use std::collections::HashMap;

/// The main poll of each socket that has one.
#[derive(Debug, Default)]
pub(super) struct MainPolls(HashMap<Handle, MainPoll>);

#[derive(Clone, Copy, Debug)]
struct MainPoll {
    number: u64,
    is_exclusive: bool,
}

impl MainPolls {
    /// The polls that end because another one begins for these sockets.
    pub(super) fn ended_by(&self, handles: impl Iterator<Item = Handle>, is_exclusive: bool) -> Vec<u64> {
        let main = handles.filter_map(|handle| self.0.get(&handle));
        let mut ended: Vec<u64> =
            main.filter(|main| is_exclusive && main.is_exclusive).map(|main| main.number).collect();
        ended.sort_unstable();
        ended.dedup();
        ended
    }

    /// A poll waits for a socket.
    pub(super) fn begin(&mut self, number: u64, handle: Handle, is_exclusive: bool) {
        self.0.entry(handle).or_insert(MainPoll { number, is_exclusive });
    }

    /// A poll waits for a socket no more.
    pub(super) fn end(&mut self, number: u64, handle: Handle) {
        if self.0.get(&handle).is_some_and(|main| main.number == number) {
            self.0.remove(&handle);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Begins a poll, and returns which ones end.
    fn begin(polls: &mut MainPolls, number: u64, handles: &[Handle], is_exclusive: bool) -> Vec<u64> {
        let ended = polls.ended_by(handles.iter().copied(), is_exclusive);
        for ended in &ended {
            (0..10).for_each(|handle| polls.end(*ended, handle));
        }
        handles.iter().for_each(|handle| polls.begin(number, *handle, is_exclusive));
        ended
    }

    #[test]
    fn an_exclusive_poll_ends_the_main_poll_if_that_is_exclusive() {
        let none: [u64; 0] = [];
        let mut polls = MainPolls::default();
        assert_eq!(begin(&mut polls, 1, &[1], false), none);
        assert_eq!(begin(&mut polls, 2, &[1], false), none);
        // The main poll is not exclusive.
        assert_eq!(begin(&mut polls, 3, &[1], true), none);
        assert_eq!(begin(&mut polls, 4, &[1], true), none);
        polls.end(1, 1);
        // None of those that wait already becomes the main poll.
        assert_eq!(begin(&mut polls, 5, &[1], true), none);
        assert_eq!(begin(&mut polls, 6, &[1], true), [5]);
        assert_eq!(begin(&mut polls, 7, &[1], false), none);
    }

    #[test]
    fn sockets_have_main_polls_of_their_own() {
        let none: [u64; 0] = [];
        let mut polls = MainPolls::default();
        assert_eq!(begin(&mut polls, 1, &[1, 2], true), none);
        assert_eq!(begin(&mut polls, 2, &[3], true), none);
        assert_eq!(begin(&mut polls, 3, &[2, 1, 4], true), [1]);
        assert_eq!(begin(&mut polls, 4, &[3, 4], true), [2, 3]);
        polls.end(4, 3);
        assert_eq!(begin(&mut polls, 5, &[3], true), none);
    }
}
