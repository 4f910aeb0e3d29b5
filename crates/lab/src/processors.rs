//! Sets of the machine's processors, to which programs of the lab can be confined.

use anyhow::{Context, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Processor numbers. An empty set means no confinement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Processors(Vec<usize>);

impl Processors {
    /// The processors that the calling thread may run on.
    ///
    /// # Errors
    /// The system does not say.
    pub fn of_thread() -> Result<Self> {
        let set = sched_getaffinity(Pid::from_raw(0)).context("cannot read which processors there are")?;
        Ok(Self((0..CpuSet::count()).filter(|&number| set.is_set(number).unwrap_or(false)).collect()))
    }

    /// Splits off the last one, if others are left. Returns it and the others.
    #[must_use]
    pub fn one_apart(mut self) -> Option<(Self, Self)> {
        let one = self.0.pop().filter(|_| !self.0.is_empty())?;
        Some((Self(vec![one]), self))
    }

    /// Whether the set is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The set in the format of `taskset -c`.
    #[must_use]
    pub fn list(&self) -> String {
        self.0.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
    }

    /// The set in the format of the kernel's files: hexadecimal words of 32 bits, the highest
    /// first.
    #[must_use]
    pub fn mask(&self) -> String {
        let highest = self.0.iter().max().copied().unwrap_or(0);
        let word = |index: usize| {
            let own = self.0.iter().filter(|&&number| number / 32 == index);
            own.fold(0_u32, |bits, number| bits | 1 << (number % 32))
        };
        (0..=highest / 32).rev().map(|index| format!("{:08x}", word(index))).collect::<Vec<_>>().join(",")
    }

    /// Confines the calling thread, and what it starts meanwhile, to these processors until the
    /// result is dropped.
    ///
    /// # Errors
    /// The set is empty, or the thread may not run on it.
    pub fn confine(&self) -> Result<Confined> {
        let before = Self::of_thread()?;
        self.set().context("cannot confine a thread to some processors")?;
        Ok(Confined { before })
    }

    fn set(&self) -> nix::Result<()> {
        let mut set = CpuSet::new();
        self.0.iter().try_for_each(|&number| set.set(number))?;
        sched_setaffinity(Pid::from_raw(0), &set)
    }
}

/// A thread that is confined to some processors.
#[derive(Debug)]
pub struct Confined {
    before: Processors,
}

impl Drop for Confined {
    fn drop(&mut self) {
        // They may have gone offline meanwhile; then the thread keeps its current ones.
        let _ = self.before.set();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(numbers: &[usize]) -> Processors {
        Processors(numbers.to_vec())
    }

    #[test]
    fn one_is_apart_where_there_are_two() {
        assert_eq!(of(&[0, 2, 3]).one_apart(), Some((of(&[3]), of(&[0, 2]))));
        assert_eq!(of(&[5]).one_apart(), None);
        assert_eq!(of(&[]).one_apart(), None);
    }

    #[test]
    fn they_are_written_as_a_list_and_as_words_of_32_bits() {
        assert_eq!(of(&[0, 3, 8]).list(), "0,3,8");
        assert_eq!(of(&[0]).mask(), "00000001");
        assert_eq!(of(&[1, 4, 31]).mask(), "80000012");
        assert_eq!(of(&[0, 33, 64]).mask(), "00000001,00000002,00000001");
    }

    #[test]
    fn a_thread_is_confined_for_a_while() {
        let all = Processors::of_thread().unwrap();
        let one = of(&all.0[..1]);
        let confined = one.confine().unwrap();
        assert_eq!(Processors::of_thread().unwrap(), one);
        drop(confined);
        assert_eq!(Processors::of_thread().unwrap(), all);
        assert!(of(&[]).confine().is_err());
    }
}
