//! Names of the programs in [`super::HOST`].

/// XDP in a NIC's driver: diverts unicast.
pub const DIVERT: &str = "divert";
/// The same in the kernel's generic receive path.
pub const DIVERT_GENERIC: &str = "divert_generic";
/// tc ingress on a NIC beside [`DIVERT`]: copies of multicast.
pub const DIVERT_GROUPS: &str = "divert_groups";
/// tc ingress on a NIC alone: unicast and multicast.
pub const DIVERT_TC: &str = "divert_tc";
/// The only program of [`super::PROBE`].
pub const PROBE: &str = "probe";
/// XDP on a lane's TAP device.
pub const GUARD: &str = "guard";
/// tc ingress on a lane's TAP device, for NICs that cannot transmit redirected XDP frames.
pub const GUARD_TC: &str = "guard_tc";
/// tc ingress on a lane's bulk device (for trains).
pub const GUARD_BULK: &str = "guard_bulk";
/// tc ingress on a lane's TAP device, behind the guard: drops everything.
pub const DROP_ALL: &str = "drop_all";
/// Stand-in for [`DIVERT_TC`] where classifiers outlive the process that attached them (before
/// Linux 6.6): does nothing once [`super::map::STAND_INS`] is closed.
pub const ALIVE_DIVERT: &str = "alive_divert";
/// The same for [`DIVERT_GROUPS`].
pub const ALIVE_GROUPS: &str = "alive_groups";
/// The same for [`GUARD_TC`].
pub const ALIVE_GUARD: &str = "alive_guard";
/// The same for [`GUARD_BULK`].
pub const ALIVE_GUARD_BULK: &str = "alive_guard_bulk";
/// Counts frames that [`GUARD`] let out and a NIC's driver did not take: at the tracepoint
/// `xdp_devmap_xmit`.
pub const REDIRECT_LOST: &str = "redirect_lost";
/// The same for those that the kernel did not even pass to the driver: at the tracepoint
/// `xdp_redirect_err`.
pub const REDIRECT_REFUSED: &str = "redirect_refused";
