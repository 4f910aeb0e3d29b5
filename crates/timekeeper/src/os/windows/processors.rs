//! The processors, and running on one of them.

use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, GetCurrentThread, GetProcessAffinityMask, SetThreadAffinityMask,
};

/// The processors that this process may run on; of a machine with more than 64 those of its group.
pub(crate) fn processors() -> Vec<usize> {
    let (mut allowed, mut all) = (0, 0);
    // SAFETY: the pseudo-handle of this process, and places for the results.
    let done = unsafe { GetProcessAffinityMask(GetCurrentProcess(), &raw mut allowed, &raw mut all) };
    if done == 0 {
        return Vec::new();
    }
    (0..usize::BITS as usize).filter(|processor| allowed >> processor & 1 == 1).collect()
}

/// Lets this thread run on one processor only; `None` if it may not.
pub(crate) fn pin(processor: usize) -> Option<()> {
    let only = 1_usize.checked_shl(u32::try_from(processor).ok()?)?;
    // SAFETY: the pseudo-handle of this thread.
    let before = unsafe { SetThreadAffinityMask(GetCurrentThread(), only) };
    (before != 0).then_some(())
}
