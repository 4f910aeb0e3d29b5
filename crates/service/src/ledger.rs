//! Where every part enters what it gives to programs: the BPF maps, by which the kernel obeys, and
//! the users' accounts.

use crate::programs::Programs;
use crate::usage::Usage;

/// The BPF maps and the users' accounts.
pub(crate) struct Ledger {
    pub(crate) programs: Programs,
    pub(crate) usage: Usage,
}
