//! The tc classifiers. From Linux 6.6 on they are TCX links, which end with the process that has
//! made them. Before, they are legacy filters, which stay on the device if the service is killed.
//! There, stand-ins are attached that do nothing once the service is gone.

use super::BpfError;
use aya::Ebpf;
use aya::maps::{MapData, ProgramArray};
use aya::programs::tc::{
    NlOptions, SchedClassifierLink, TcAttachOptions, TcError, qdisc_add_clsact, qdisc_detach_program,
};
use aya::programs::{LinkOrder, SchedClassifier, TcAttachType};
use tickwire_lane_linux::bpf::{map, program};

type Result<T> = std::result::Result<T, BpfError>;

/// Each classifier, its stand-in, and its priority as a legacy filter (zero: the kernel puts it
/// before the existing ones). The position in this list is the index in the table of stand-ins.
const STAND_INS: [(&str, &str, u16); 4] = [
    (program::DIVERT_TC, program::ALIVE_DIVERT, 0),
    (program::DIVERT_GROUPS, program::ALIVE_GROUPS, 0),
    (program::GUARD_TC, program::ALIVE_GUARD, GUARD_PRIORITY),
    (program::GUARD_BULK, program::ALIVE_GUARD_BULK, GUARD_PRIORITY),
];

const GUARD_PRIORITY: u16 = 1;

/// Behind the guard.
const DROP_PRIORITY: u16 = 2;

/// The loaded classifiers of the host's side.
pub(crate) struct Classifiers {
    /// The classifiers that stand-ins call. The kernel empties it as soon as no process has it
    /// open.
    _stand_ins: ProgramArray<MapData>,
}

impl Classifiers {
    /// Loads them.
    pub(crate) fn load(ebpf: &mut Ebpf) -> Result<Self> {
        let table = ebpf.take_map(map::STAND_INS).ok_or(BpfError::Missing(map::STAND_INS))?;
        let mut stand_ins = ProgramArray::try_from(table)?;
        for ((name, stand_in, _), index) in STAND_INS.into_iter().zip(0..) {
            let real = classifier(ebpf, name)?;
            real.load()?;
            stand_ins.set(index, real.fd()?, 0)?;
            classifier(ebpf, stand_in)?.load()?;
        }
        classifier(ebpf, program::DROP_ALL)?.load()?;
        Ok(Self { _stand_ins: stand_ins })
    }

    /// Attaches a classifier at a device's ingress: as a TCX link, which runs before any legacy
    /// filter, if the kernel has these.
    pub(crate) fn attach(&self, ebpf: &mut Ebpf, name: &'static str, device: &str) -> Result<SchedClassifierLink> {
        match tcx(classifier(ebpf, name)?, device) {
            Some(link) => link,
            None => self.attach_legacy(ebpf, name, device),
        }
    }

    /// Attaches a classifier's stand-in, in place of one that a killed service has left.
    fn attach_legacy(&self, ebpf: &mut Ebpf, name: &'static str, device: &str) -> Result<SchedClassifierLink> {
        let known = STAND_INS.into_iter().find(|(real, ..)| *real == name);
        let (_, stand_in, priority) = known.ok_or(BpfError::Missing(name))?;
        replace_legacy(classifier(ebpf, stand_in)?, stand_in, device, priority)
    }

    /// Attaches a filter behind the guard that drops everything. It is a legacy filter, so that it
    /// stays when the service ends, however it ends.
    pub(crate) fn drop_all(&self, ebpf: &mut Ebpf, device: &str) -> Result<()> {
        drop_all(classifier(ebpf, program::DROP_ALL)?, device)
    }
}

/// The classifiers of a lane's device, for another thread.
pub(crate) struct LaneClassifiers {
    guard: SchedClassifier,
    stand_in: SchedClassifier,
    drop_all: SchedClassifier,
}

impl LaneClassifiers {
    /// Those that are loaded.
    pub(crate) fn open(ebpf: &mut Ebpf) -> Result<Self> {
        let mut open = |name| -> Result<SchedClassifier> {
            Ok(SchedClassifier::from_program_info(classifier(ebpf, name)?.info()?, name.into())?)
        };
        Ok(Self {
            guard: open(program::GUARD_TC)?,
            stand_in: open(program::ALIVE_GUARD)?,
            drop_all: open(program::DROP_ALL)?,
        })
    }

    /// Attaches the guard, as [`Classifiers::attach`] does.
    pub(crate) fn attach_guard(&mut self, device: &str) -> Result<SchedClassifierLink> {
        tcx(&mut self.guard, device)
            .unwrap_or_else(|| replace_legacy(&mut self.stand_in, program::ALIVE_GUARD, device, GUARD_PRIORITY))
    }

    /// As [`Classifiers::drop_all`].
    pub(crate) fn drop_all(&mut self, device: &str) -> Result<()> {
        drop_all(&mut self.drop_all, device)
    }
}

/// Attaches a stand-in, in place of one that a killed service has left.
fn replace_legacy(
    stand_in: &mut SchedClassifier,
    name: &str,
    device: &str,
    priority: u16,
) -> Result<SchedClassifierLink> {
    clsact(device)?;
    match qdisc_detach_program(device, TcAttachType::Ingress, name) {
        Ok(()) => tracing::info!(device, "removed a filter that a killed service has left"),
        Err(TcError::IoError(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => tracing::debug!(device, %error, "cannot look for what a killed service has left"),
    }
    legacy(stand_in, device, priority)
}

fn drop_all(program: &mut SchedClassifier, device: &str) -> Result<()> {
    clsact(device)?;
    std::mem::forget(legacy(program, device, DROP_PRIORITY)?);
    Ok(())
}

/// As a TCX link; `None` where the kernel has none.
fn tcx(program: &mut SchedClassifier, device: &str) -> Option<Result<SchedClassifierLink>> {
    let options = TcAttachOptions::TcxOrder(LinkOrder::default());
    let id = program.attach_with_options(device, TcAttachType::Ingress, options).ok()?;
    Some(program.take_link(id).map_err(Into::into))
}

fn classifier<'a>(ebpf: &'a mut Ebpf, name: &'static str) -> Result<&'a mut SchedClassifier> {
    Ok(ebpf.program_mut(name).ok_or(BpfError::Missing(name))?.try_into()?)
}

fn legacy(program: &mut SchedClassifier, device: &str, priority: u16) -> Result<SchedClassifierLink> {
    let options = TcAttachOptions::Netlink(NlOptions { priority, ..NlOptions::default() });
    let id = program.attach_with_options(device, TcAttachType::Ingress, options)?;
    Ok(program.take_link(id)?)
}

/// Makes the qdisc for a device's legacy filters, unless it exists already.
fn clsact(device: &str) -> Result<()> {
    match qdisc_add_clsact(device) {
        Ok(()) | Err(TcError::AlreadyAttached) => Ok(()),
        Err(TcError::NetlinkError(error)) if error.raw_os_error() == Some(libc::EEXIST) => Ok(()),
        Err(error) => Err(BpfError::System(format!("cannot prepare {device} for filters: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aya::maps::PerCpuArray;
    use std::net::UdpSocket;
    use std::time::Duration;
    use tickwire_lab::tools::until;
    use tickwire_lab::{LabHost, LabPair};
    use tickwire_lane_linux::bpf::{self, LaneCountersValue};

    /// A guard that is never detached. It drops everything, as there is no lane.
    fn guarded(host: &LabHost) -> (Ebpf, Classifiers) {
        let attach = || {
            let mut ebpf = Ebpf::load(bpf::HOST).unwrap();
            let classifiers = Classifiers::load(&mut ebpf).unwrap();
            std::mem::forget(classifiers.attach_legacy(&mut ebpf, program::GUARD_TC, "eth0").unwrap());
            (ebpf, classifiers)
        };
        host.within(attach).unwrap()
    }

    fn refused(ebpf: &Ebpf) -> u64 {
        let counters: PerCpuArray<_, LaneCountersValue> = ebpf.map(map::LANE_COUNTERS).unwrap().try_into().unwrap();
        let of_cpus = |place| counters.get(&place, 0).unwrap().iter().flat_map(|c| c.refused).sum::<u64>();
        (0..counters.len()).map(of_cpus).sum()
    }

    #[test]
    fn a_filter_that_a_killed_service_has_left_does_nothing_and_is_removed() {
        if !nix::unistd::geteuid().is_root() {
            eprintln!("skipped: network namespaces need root");
            return;
        }
        crate::run::raise_limits(&crate::config::ServiceLimits::default());
        let pair = LabPair::new().unwrap();
        let here = pair.a.within(|| UdpSocket::bind("0.0.0.0:7000").unwrap()).unwrap();
        let there = pair.b.within(|| UdpSocket::bind("0.0.0.0:0").unwrap()).unwrap();
        here.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
        let arrives = || there.send_to(b"x", "10.77.0.1:7000").is_ok() && here.recv(&mut [0; 8]).is_ok();
        assert!(until("there is a way", Duration::from_secs(10), arrives).is_ok());

        let first = guarded(&pair.a);
        until("the filter works", Duration::from_secs(10), || !arrives() && refused(&first.0) > 0).unwrap();
        drop(first);
        until("the filter does nothing", Duration::from_secs(10), arrives).unwrap();

        let second = guarded(&pair.a);
        let filters = pair.a.run(&["tc", "filter", "show", "dev", "eth0", "ingress"]).unwrap();
        assert_eq!(filters.matches(" handle ").count(), 1, "{filters}");
        drop(second);
    }
}
