//! Which descriptors are ours and what they stand for. It uses `base`, and says what calls mean to
//! no one: that is `socket` and `wait`.
//!
//! | file | purpose |
//! |---|---|
//! | `fd` | the descriptor table of this process, looked at first by every call |
//! | `desc` | descriptions: what all descriptors of one socket have in common, in every process of the lane |
//! | `ports` | ephemeral ports that the lane holds unused |
//! | `protect` | the lane's own descriptors, out of the program's reach |

pub(crate) mod desc;
pub(crate) mod fd;
pub(crate) mod ports;
pub(crate) mod protect;
