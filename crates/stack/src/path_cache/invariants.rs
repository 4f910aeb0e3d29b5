//! Invariants of the path cache: see [`Stack::check_invariants`].

use crate::Stack;
use crate::path::GUESSED;
use crate::pool::invariants::{chains, walk};

impl Stack<'_> {
    pub(crate) fn check_paths(&self) {
        let (core, paths) = (&self.mem.core, &self.mem.paths);
        let taken = core.free_paths.taken("paths", paths, |path| path.link);
        let (mut guesses, mut waiting) = (0, 0);
        for index in taken.all() {
            let path = &paths[index as usize];
            let query = path.info.query;
            assert_eq!(self.path_find(&query), Some(index), "the path to {query:?}");
            waiting += walk(path.waiting_head, path.waiting as usize, |slot| self.mem.waiting[slot as usize].link);
            if path.inferred == GUESSED {
                guesses += 1;
                // A guess is evicted with its last guest; without any it would stay forever.
                let most = self.half_open_by(&query);
                assert!((1..=most).contains(&path.guests.into()), "guests of the path to {query:?}: {}", path.guests);
            }
        }
        assert_eq!(guesses, core.guesses, "paths that are guesses");
        let in_table = chains(self.mem.path_buckets, paths.len(), |index, _| {
            assert!(taken.has(index), "path {index} is found, and free");
            paths[index as usize].link
        });
        assert_eq!(in_table, core.free_paths.used(), "paths that are found");
        let places = core.free_waiting.taken("places to wait", self.mem.waiting, |place| place.link);
        assert_eq!(places.all().count(), waiting, "places to wait for neighbours");
    }
}
