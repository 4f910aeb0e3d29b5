//! Divert on the interfaces, and what these lose of the frames that XDP redirects to them.

use super::{BpfError, Programs, Result, xdp};
use aya::programs::BtfTracePoint;
use aya::programs::tc::SchedClassifierLink;
use aya::programs::tp_btf::BtfTracePointLink;
use aya::programs::xdp::{XdpLink, XdpMode};
use aya::{Btf, Ebpf};
use tickwire_lane::control::AttachMode;
use tickwire_lane_linux::bpf::{self, program};

/// What is attached to a NIC; dropping it detaches.
#[derive(Debug)]
pub(crate) struct NicHook {
    _xdp: Option<XdpLink>,
    _tc: SchedClassifierLink,
}

/// The tracepoint programs that count what NICs do not take.
pub(super) type RedirectWatch = [BtfTracePointLink; 2];

impl Programs {
    /// Attaches divert to a NIC in one mode.
    pub(crate) fn attach_nic(&mut self, name: &str, index: u32, mode: AttachMode) -> Result<NicHook> {
        let variant = match mode {
            AttachMode::Native => Some((program::DIVERT, XdpMode::Driver)),
            AttachMode::Generic => Some((program::DIVERT_GENERIC, XdpMode::Skb)),
            AttachMode::Tc | AttachMode::Driver | AttachMode::None => None,
        };
        let divert = match variant {
            Some((name, xdp_mode)) => {
                // Until this interface is known to redirect.
                self.set_wake_frames(false)?;
                let divert = xdp(&mut self.ebpf, name)?;
                let id = divert.attach_to_if_index(index, xdp_mode)?;
                Some(divert.take_link(id)?)
            }
            None => None,
        };
        let tc = if divert.is_some() { program::DIVERT_GROUPS } else { program::DIVERT_TC };
        let tc = self.classifiers.attach(&mut self.ebpf, tc, name)?;
        self.redirects.insert(index, bpf::RedirectLosses::default(), 0)?;
        self.nics.insert(index, index, None, 0)?;
        Ok(NicHook { _xdp: divert, _tc: tc })
    }

    /// Removes a NIC; the caller drops its hook.
    pub(crate) fn remove_nic(&mut self, index: u32) {
        let _ = self.nics.remove(index);
        let _ = self.redirects.remove(&index);
    }

    /// Begins to count the frames that NICs do not take from the guard in XDP. Returns whether they
    /// are counted.
    pub(crate) fn watch_redirects(&mut self) -> bool {
        if self.redirect_watch.is_none() {
            let watch = attach_redirect_watch(&mut self.ebpf);
            if let Err(error) = &watch {
                tracing::warn!(%error, "frames that a driver refuses would not be seen: lanes send by tc");
            }
            self.redirect_watch = Some(watch);
        }
        matches!(self.redirect_watch, Some(Ok(_)))
    }

    /// Frames that a NIC has not taken from the guard in XDP.
    pub(crate) fn redirect_losses(&self, nic: u32) -> bpf::RedirectLosses {
        self.redirects.get(&nic, 0).unwrap_or_default()
    }

    /// The number of possible processors.
    pub(crate) fn processors(&self) -> usize {
        self.cpus
    }
}

fn attach_redirect_watch(ebpf: &mut Ebpf) -> Result<RedirectWatch> {
    let btf = Btf::from_sys_fs().map_err(|error| BpfError::System(format!("reading the kernel's types: {error}")))?;
    let mut attach = |name, tracepoint| -> Result<BtfTracePointLink> {
        let program: &mut BtfTracePoint = ebpf.program_mut(name).ok_or(BpfError::Missing(name))?.try_into()?;
        program.load(tracepoint, &btf)?;
        let id = program.attach()?;
        Ok(program.take_link(id)?)
    };
    Ok([attach(program::REDIRECT_LOST, "xdp_devmap_xmit")?, attach(program::REDIRECT_REFUSED, "xdp_redirect_err")?])
}
