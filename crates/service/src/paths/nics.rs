//! The accelerated interfaces: which they are, how divert is attached to each, and their addresses.

use super::own_addresses::OwnAddresses;
use super::redirects;
use super::tags::KeptTags;
use crate::config::{Attach, ServiceConfig};
use crate::programs::{NicHook, Programs};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use tickwire_host::{InterfaceAddress, NetworkInterface, Nic as PathNic, PathRefusal, XdpInfo};
use tickwire_lane::control::{Accelerated, AttachMode, Name, Reason};
use tickwire_lane_linux::sys_packet::PacketSender;
use tickwire_stack::addr::{Address, Mac};

/// One interface that is, or is meant to be, accelerated.
#[derive(Debug)]
pub(crate) struct Nic {
    pub(crate) link: NetworkInterface,
    pub(crate) driver: String,
    mac: Mac,
    pub(crate) mode: AttachMode,
    reason: Reason,
    hook: Option<NicHook>,
    /// What divert in XDP relies on. Declared after the hook, so that it is restored once that is
    /// detached.
    tags: Option<KeptTags>,
    pub(crate) addresses: BTreeSet<Address>,
    /// Its driver has refused a frame that XDP had redirected to it. It may do so with every frame
    /// of some processor.
    refuses_redirects: bool,
    /// Sends frames by it.
    sender: Option<PacketSender>,
}

/// All of them, by index.
#[derive(Debug, Default)]
pub(crate) struct Nics {
    all: BTreeMap<u32, Nic>,
    own: OwnAddresses,
    /// `None` on kernels that do not report what devices do with XDP.
    xdp: Option<XdpInfo>,
}

/// Up to this MTU a frame fits into one page with everything that XDP keeps beside it.
const PAGE_MTU: u32 = 3000;

/// What a change of a link means for the lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    None,
    /// The paths must be resolved again.
    Paths,
    /// An interface was added: filters and paths must be made anew.
    Came,
    /// An interface was removed, and its addresses with it.
    Went,
}

impl Nics {
    /// None yet.
    pub(crate) fn new(xdp: Option<XdpInfo>) -> Self {
        Self { xdp, ..Self::default() }
    }

    /// Applies the state of a link that the host reports.
    pub(crate) fn link_changed(
        &mut self,
        link: &NetworkInterface,
        config: &ServiceConfig,
        programs: &mut Programs,
    ) -> Effect {
        let Some(nic) = self.all.get_mut(&link.index) else {
            return if wanted(link, config) { self.add(link, config, programs) } else { Effect::None };
        };
        let port_before = nic.link.is_port();
        if !meant(link, config) {
            // Renamed, or made a port of a bridge. A link that only goes down is kept: it may come
            // up again.
            self.link_gone(link.index, programs);
            return Effect::Went;
        }
        if link.is_port() != port_before {
            self.link_gone(link.index, programs);
            let came = self.add(link, config, programs);
            return if port_before { came } else { Effect::Went };
        }
        let before = std::mem::replace(&mut nic.link, link.clone());
        if let Some(mac) = link.mac
            && mac != nic.mac
        {
            nic.mac = mac;
        }
        let changed = before != *link;
        // What could not be attached while the link was being set up may be now.
        let came = changed && nic.hook.is_none() && !link.is_port() && {
            hook(nic, config, programs);
            nic.hook.is_some()
        };
        let mut effect = match (came, changed) {
            (true, _) => Effect::Came,
            (_, true) => Effect::Paths,
            _ => Effect::None,
        };
        if nic.tags.as_ref().is_some_and(|tags| !tags.still()) {
            effect = leave_xdp(nic, config, programs);
        }
        self.settle(programs);
        effect
    }

    fn add(&mut self, link: &NetworkInterface, config: &ServiceConfig, programs: &mut Programs) -> Effect {
        let Some(mac) = link.mac else { return Effect::None };
        let driver = driver(link);
        let mut nic = Nic {
            link: link.clone(),
            mac,
            mode: AttachMode::None,
            reason: Reason::Device,
            hook: None,
            tags: None,
            addresses: BTreeSet::new(),
            refuses_redirects: false,
            sender: None,
            driver,
        };
        hook(&mut nic, config, programs);
        self.all.insert(link.index, nic);
        self.settle(programs);
        Effect::Came
    }

    /// Removes a link that is gone.
    pub(crate) fn link_gone(&mut self, index: u32, programs: &mut Programs) -> Effect {
        let Some(nic) = self.all.remove(&index) else { return Effect::None };
        self.settle(programs);
        programs.remove_nic(index);
        tracing::info!(interface = nic.link.name, "no longer accelerated");
        Effect::Went
    }

    /// Applies an address. Returns whether that changed anything.
    pub(crate) fn address_changed(&mut self, address: &InterfaceAddress, programs: &mut Programs) -> bool {
        if !address.usable {
            return self.address_gone(address, programs);
        }
        let Some(nic) = self.all.get_mut(&address.interface) else { return false };
        if !nic.addresses.insert(address.address) {
            return false;
        }
        self.settle_one(address.address, programs);
        true
    }

    /// Removes an address. Returns whether that changed anything.
    pub(crate) fn address_gone(&mut self, address: &InterfaceAddress, programs: &mut Programs) -> bool {
        let Some(nic) = self.all.get_mut(&address.interface) else { return false };
        let had = nic.addresses.remove(&address.address);
        if had {
            self.settle_one(address.address, programs);
            // There may be room for another one now.
            if let Some(next) = self.own.first_left_out() {
                self.settle_one(next, programs);
            }
        }
        had
    }

    /// Makes the maps agree with the addresses.
    fn settle(&mut self, programs: &mut Programs) {
        let used = self.all.values().filter(|nic| nic.hook.is_some());
        self.own.settle(used.map(|nic| (nic.link.index, nic.mac, &nic.addresses)), programs);
    }

    /// The same for one address, of which there may be many.
    fn settle_one(&mut self, address: Address, programs: &mut Programs) {
        let used = self.all.values().filter(|nic| nic.hook.is_some());
        self.own.settle_one(address, used.map(|nic| (nic.link.index, nic.mac, &nic.addresses)), programs);
    }

    /// Addresses of accelerated interfaces for which there is no room.
    pub(crate) fn without_room(&self) -> usize {
        self.own.number_left_out()
    }

    /// Whether an address is one of them.
    pub(crate) fn is_left_out(&self, address: Address) -> bool {
        self.own.is_left_out(address)
    }

    /// What a path needs of the interface by which its packets leave.
    ///
    /// # Errors
    /// Why lanes cannot use it now, or not from this address.
    pub(crate) fn path(&self, index: u32, source: Address) -> Result<PathNic, PathRefusal> {
        let usable = self.all.get(&index).filter(|nic| nic.hook.is_some() && nic.link.up);
        let nic = usable.ok_or(PathRefusal::Interface(index))?;
        if !self.own.lets_out(source, nic.mac, index) {
            return Err(PathRefusal::Source);
        }
        Ok(PathNic { mac: nic.mac, mtu: nic.link.mtu })
    }

    /// Sends a frame by the interface by which the guard would let it out, without blocking.
    pub(crate) fn send(&mut self, source: Address, mac: Mac, frame: &[u8]) -> io::Result<()> {
        let own = &self.own;
        let leaves_by =
            |nic: &&mut Nic| nic.hook.is_some() && nic.mac == mac && own.lets_out(source, mac, nic.link.index);
        let nic = self.all.values_mut().find(leaves_by).ok_or(io::ErrorKind::AddrNotAvailable)?;
        let sender = match nic.sender.take() {
            Some(sender) => sender,
            None => PacketSender::open(nic.link.index)?,
        };
        nic.sender.insert(sender).send(frame)
    }

    /// Whether lanes can use some interface.
    pub(crate) fn any(&self) -> bool {
        self.active().next().is_some()
    }

    /// The reason to give to a program while lanes can use no interface.
    pub(crate) fn why_none(&self) -> Reason {
        self.all.values().map(|nic| nic.reason).find(|&reason| reason != Reason::None).unwrap_or(Reason::NoInterface)
    }

    /// Whether an address is one of an accelerated interface.
    pub(crate) fn has_address(&self, address: Address) -> bool {
        self.active().any(|nic| nic.addresses.contains(&address))
    }

    /// All addresses of accelerated interfaces.
    pub(crate) fn addresses(&self) -> BTreeSet<Address> {
        self.active().flat_map(|nic| nic.addresses.iter().copied()).collect()
    }

    /// The indices of accelerated interfaces.
    pub(crate) fn indices(&self) -> Vec<u32> {
        self.active().map(|nic| nic.link.index).collect()
    }

    /// Whether an interface is accelerated and the only one.
    pub(crate) fn is_only(&self, index: u32) -> bool {
        self.indices() == [index]
    }

    /// Whether an interface is accelerated.
    pub(crate) fn contains(&self, index: u32) -> bool {
        self.active().any(|nic| nic.link.index == index)
    }

    /// The smallest MTU, in bytes: what a program may assume before it knows the interface.
    pub(crate) fn least_mtu(&self) -> u32 {
        self.active().map(|nic| nic.link.mtu).min().unwrap_or(1500)
    }

    /// The indices of all interfaces that are managed.
    pub(crate) fn known(&self) -> Vec<u32> {
        self.all.keys().copied().collect()
    }

    /// All addresses with their interfaces.
    pub(crate) fn interface_addresses(&self) -> Vec<InterfaceAddress> {
        let of = |nic: &Nic, address| InterfaceAddress { interface: nic.link.index, address, prefix: 0, usable: true };
        self.all.values().flat_map(|nic| nic.addresses.iter().map(move |&a| of(nic, a))).collect()
    }

    /// Whether every accelerated interface is known to transmit what XDP redirects to it, from
    /// every processor. A virtual device does so only under conditions at its other end, which may
    /// change at any time.
    pub(crate) fn all_take_redirects(&mut self, programs: &Programs) -> bool {
        let Some(info) = &mut self.xdp else { return false };
        for nic in self.all.values_mut().filter(|nic| nic.mode == AttachMode::Native && !nic.refuses_redirects) {
            let losses = programs.redirect_losses(nic.link.index);
            nic.refuses_redirects = losses.refused > 0;
            if nic.refuses_redirects {
                let (interface, lost) = (&nic.link.name, losses.lost);
                tracing::warn!(interface, lost, "its driver refuses frames that XDP redirects to it: lanes send by tc");
            }
        }
        let mut active = self.all.values().filter(|nic| nic.hook.is_some());
        active.all(|nic| {
            let features = info.features(nic.link.index).unwrap_or_default();
            nic.mode == AttachMode::Native
                && !nic.refuses_redirects
                && features.takes_redirects()
                && (nic.link.mtu <= PAGE_MTU || features.takes_long_redirects())
                && redirects::from_every_processor(nic.link.index, &nic.driver, programs.processors())
        })
    }

    /// Whether every interface that runs divert in native XDP can redirect frames from there. A
    /// kernel that does not report this is not relied on.
    pub(crate) fn all_redirect(&mut self) -> bool {
        let Some(info) = &mut self.xdp else { return false };
        let active = self.all.values().filter(|nic| nic.hook.is_some());
        let mut native = active.filter(|nic| nic.mode == AttachMode::Native);
        native.all(|nic| info.features(nic.link.index).unwrap_or_default().redirects())
    }

    /// Those to which divert is attached.
    pub(crate) fn active(&self) -> impl Iterator<Item = &Nic> {
        self.all.values().filter(|nic| nic.hook.is_some())
    }

    /// The first interface above `after`, as `tickwire stat` shows it.
    pub(crate) fn describe_next(&self, after: u32) -> Option<Accelerated> {
        let (&interface, nic) = self.all.range(after.checked_add(1)?..).next()?;
        Some(Accelerated {
            interface,
            name: Name::new(&nic.link.name),
            driver: Name::new(&nic.driver),
            mac: nic.mac,
            mtu: nic.link.mtu,
            mode: nic.mode,
            reason: nic.reason,
        })
    }
}

/// Attaches divert to an interface in the first mode that works.
fn hook(nic: &mut Nic, config: &ServiceConfig, programs: &mut Programs) {
    if nic.link.is_port() {
        (nic.mode, nic.reason) = (AttachMode::None, Reason::Port);
        let (interface, port_of) = (&nic.link.name, &nic.link.port_of);
        tracing::error!(interface, port_of, "not accelerated: {}", Reason::Port.text());
        return;
    }
    nic.reason = Reason::Device;
    let modes = modes(config.attach_for(&nic.link.name), &nic.driver);
    attach(nic, modes, config, programs);
}

/// The interface strips VLAN tags again: divert leaves XDP.
fn leave_xdp(nic: &mut Nic, config: &ServiceConfig, programs: &mut Programs) -> Effect {
    tracing::warn!(interface = nic.link.name, "it strips VLAN tags from frames again (rxvlan): divert leaves XDP");
    nic.hook = None;
    nic.tags = None;
    nic.reason = Reason::TagsHidden;
    let mut modes = modes(config.attach_for(&nic.link.name), &nic.driver).to_vec();
    modes.retain(|&mode| mode == AttachMode::Tc);
    if attach(nic, &modes, config, programs) {
        Effect::Paths
    } else {
        programs.remove_nic(nic.link.index);
        Effect::Went
    }
}

/// Attaches divert in the first of these modes that works. Returns whether there is one; else the
/// interface's reason is the one that it has, or hidden tags.
fn attach(nic: &mut Nic, modes: &[AttachMode], config: &ServiceConfig, programs: &mut Programs) -> bool {
    let (name, driver) = (&nic.link.name, &nic.driver);
    nic.mode = AttachMode::None;
    let mut failed = Vec::new();
    for &mode in modes {
        let tags = match tags_for(mode, &nic.link, config) {
            Ok(tags) => tags,
            Err(why) => {
                nic.reason = Reason::TagsHidden;
                failed.push((mode, why));
                continue;
            }
        };
        match programs.attach_nic(name, nic.link.index, mode) {
            Ok(hook) => {
                nic.hook = Some(hook);
                nic.tags = tags;
                nic.mode = mode;
                nic.reason = Reason::None;
                // Before it is needed, so that the number of descriptors does not depend on what
                // has happened. If it cannot be opened now, it is tried again then.
                nic.sender = nic.sender.take().or_else(|| PacketSender::open(nic.link.index).ok());
                // Why the modes before this one failed, none of which was asked for.
                let instead_of = failed.iter().map(|(mode, why)| format!("{}: {why}", mode_name(*mode)));
                let instead_of = instead_of.reduce(|all, one| all + "; " + &one);
                tracing::info!(interface = name, driver, mode = mode_name(mode), instead_of, "accelerated");
                return true;
            }
            Err(error) => failed.push((mode, error.to_string())),
        }
    }
    for (mode, why) in failed {
        tracing::warn!(interface = name, driver, mode = mode_name(mode), why, "divert could not be attached");
    }
    tracing::error!(interface = name, "not accelerated: {}", nic.reason.text());
    false
}

/// Has the interface leave VLAN tags in frames, if this mode needs that.
///
/// # Errors
/// Why it is not known to do so.
fn tags_for(mode: AttachMode, link: &NetworkInterface, config: &ServiceConfig) -> Result<Option<KeptTags>, String> {
    if matches!(mode, AttachMode::Native | AttachMode::Generic) && !config.untagged.contains(&link.name) {
        KeptTags::keep(link).map(Some)
    } else {
        Ok(None)
    }
}

/// Whether the configuration names this link, or, if it names none, the link looks physical.
fn meant(link: &NetworkInterface, config: &ServiceConfig) -> bool {
    if config.interfaces.is_empty() {
        link.looks_physical()
    } else {
        config.interfaces.contains(&link.name) && link.mac.is_some()
    }
}

/// Whether to accelerate this link now. If none is named, one that is down waits until it comes up:
/// an unused port needs nothing.
fn wanted(link: &NetworkInterface, config: &ServiceConfig) -> bool {
    meant(link, config) && (link.up || !config.interfaces.is_empty())
}

/// The modes, in the order in which they are tried.
fn modes(attach: Attach, driver: &str) -> &'static [AttachMode] {
    use AttachMode::{Generic, Native, Tc};
    match attach {
        Attach::Native => &[Native],
        Attach::Generic => &[Generic],
        Attach::Tc => &[Tc],
        Attach::Auto => match driver {
            // Virtual devices pass on packets of up to 64 KiB, whose segmentation offload they
            // would give up for XDP: at a multiple of what the filter costs.
            "veth" | "virtio_net" | "xen-netfront" | "hv_netvsc" | "vmxnet3" => &[Tc, Generic],
            _ => &[Native, Tc, Generic],
        },
    }
}

/// The driver's name: the kind of a virtual device, else what sysfs reports of the hardware.
fn driver(link: &NetworkInterface) -> String {
    if !link.kind.is_empty() {
        return link.kind.clone();
    }
    let Some((bus, device)) = &link.parent else { return "unknown".into() };
    let path = format!("/sys/bus/{bus}/devices/{device}/driver");
    let target = std::fs::read_link(path).ok();
    target.and_then(|t| Some(t.file_name()?.to_str()?.to_owned())).unwrap_or_else(|| "unknown".into())
}

/// The name of a mode, as in the configuration.
pub(crate) fn mode_name(mode: AttachMode) -> &'static str {
    match mode {
        AttachMode::None => "none",
        AttachMode::Native => "native",
        AttachMode::Generic => "generic",
        AttachMode::Tc => "tc",
        AttachMode::Driver => "driver",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(name: &str, kind: &str) -> NetworkInterface {
        NetworkInterface {
            index: 2,
            name: name.into(),
            mac: Some(Mac([2; 6])),
            mtu: 1500,
            max_mtu: 9000,
            up: true,
            running: true,
            loopback: false,
            kind: kind.into(),
            master: 0,
            port_of: String::new(),
            parent: None,
        }
    }

    #[test]
    fn without_names_every_physical_interface_that_is_up_is_meant() {
        let config = ServiceConfig::default();
        assert!(wanted(&link("eth0", ""), &config) && wanted(&link("eth0", "veth"), &config));
        assert!(!wanted(&link("br0", "bridge"), &config) && !wanted(&link("tw1h", "veth"), &config));
        assert!(!wanted(&NetworkInterface { up: false, ..link("eth0", "") }, &config));
        assert!(!wanted(&NetworkInterface { master: 9, ..link("eth0", "") }, &config));
    }

    #[test]
    fn named_interfaces_are_meant_and_no_others() {
        let config = ServiceConfig { interfaces: vec!["br0".into()], ..ServiceConfig::default() };
        assert!(wanted(&NetworkInterface { up: false, ..link("br0", "bridge") }, &config));
        assert!(!wanted(&link("eth0", ""), &config));
        assert!(!wanted(&NetworkInterface { mac: None, ..link("br0", "tun") }, &config));
    }

    #[test]
    fn a_mode_that_was_asked_for_is_the_only_one_tried() {
        assert_eq!(modes(Attach::Native, "veth"), [AttachMode::Native]);
        assert_eq!(modes(Attach::Auto, "igb")[0], AttachMode::Native);
        assert_ne!(modes(Attach::Auto, "veth")[0], AttachMode::Native);
    }
}
