//! Whether the host's firewall lets packets in that a claim would give to a lane, and those out
//! that the lane would send.
//!
//! The firewall sees nothing of what a lane takes and sends. So a port is claimed only if the
//! firewall lets all packets for it in. A rule for certain remote addresses cannot be honoured on a
//! lane: such a port stays with the kernel. Packets of a flow answer those of the program itself,
//! and firewalls let them in; it is asked whether those of the program may leave.

use std::collections::HashMap;
use tickwire_host_windows::{Firewall, InboundPort, InboundVerdict, PortProtocol};
use tickwire_lane::control::Reason;
use tickwire_registry::Bound;
use tickwire_stack::addr::{Address, Endpoint, Family};
use tickwire_steer::tables::Protocol;

/// At most so many addresses are asked about one by one. Of more the firewall is asked at once, for
/// all interfaces.
const MOST_ADDRESSES: usize = 16;

/// What is known of the ports of several claims, each asked about once.
#[derive(Debug, Default)]
pub(crate) struct InboundAnswers(HashMap<InboundPort, Result<(), Reason>>);

impl InboundAnswers {
    /// How many questions the firewall was asked.
    pub(crate) fn asked(&self) -> usize {
        self.0.len()
    }

    /// Whether a socket of a program may receive by a lane. `own`: the addresses of the network
    /// card.
    ///
    /// # Errors
    /// [`Reason::FirewallBlocks`], [`Reason::FirewallRestricts`], or [`Reason::FirewallUnknown`] if
    /// the firewall does not say.
    pub(crate) fn allow(
        &mut self,
        firewall: &dyn Firewall,
        program: Option<&str>,
        bound: &Bound,
        own: &[Address],
    ) -> Result<(), Reason> {
        addresses(bound, own).into_iter().try_for_each(|address| {
            let local = Endpoint::new(address, bound.local.port);
            let port = InboundPort { program: program.map(str::to_owned), protocol: protocol(bound), local };
            *self.0.entry(port).or_insert_with_key(|port| ask(firewall, port))
        })
    }
}

/// Whether a program may send by a lane: connect to a port of the peer, or send datagrams (`None`).
///
/// # Errors
/// [`Reason::FirewallKeepsIn`], or [`Reason::FirewallUnknown`] if the firewall does not say.
pub(crate) fn lets_out(
    firewall: &dyn Firewall,
    program: Option<&str>,
    bound: &Bound,
    port: Option<u16>,
) -> Result<(), Reason> {
    match firewall.lets_out(program, protocol(bound), port) {
        Ok(true) => Ok(()),
        Ok(false) => Err(Reason::FirewallKeepsIn),
        Err(error) => {
            tracing::warn!(%error, local = ?bound.local, "a socket stays with the kernel");
            Err(Reason::FirewallUnknown)
        }
    }
}

fn ask(firewall: &dyn Firewall, port: &InboundPort) -> Result<(), Reason> {
    match firewall.inbound(port) {
        Ok(InboundVerdict::Allowed) => Ok(()),
        Ok(InboundVerdict::Restricted) => Err(Reason::FirewallRestricts),
        Ok(InboundVerdict::Blocked) => Err(Reason::FirewallBlocks),
        Err(error) => {
            tracing::warn!(%error, local = ?port.local, "a port stays with the kernel");
            Err(Reason::FirewallUnknown)
        }
    }
}

pub(crate) fn protocol(bound: &Bound) -> PortProtocol {
    if bound.protocol == Protocol::Tcp { PortProtocol::Tcp } else { PortProtocol::Udp }
}

/// The addresses at which a socket receives by a lane.
fn addresses(bound: &Bound, own: &[Address]) -> Vec<Address> {
    let at = bound.local.address;
    if !at.is_unspecified() && !at.is_multicast() {
        return vec![at];
    }
    let is_dual = bound.dual && at == Address::ANY;
    let is_covered = |address: &&Address| is_dual || address.family() == at.family();
    let covered: Vec<Address> = own.iter().filter(is_covered).copied().collect();
    if covered.len() <= MOST_ADDRESSES {
        return covered;
    }
    match (is_dual, at.family()) {
        (true, _) => vec![Address::ANY, Address::ANY_V4],
        (false, Family::V4) => vec![Address::ANY_V4],
        (false, Family::V6) => vec![Address::ANY],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use tickwire_host_windows::FirewallError;

    const V4: [Address; 2] = [Address::v4([10, 0, 0, 1]), Address::v4([10, 0, 0, 2])];
    const V6: Address = Address([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

    /// Answers by address and port, and notes what it was asked.
    struct Rules {
        blocked: Vec<(Address, u16)>,
        restricted: Option<u16>,
        is_broken: bool,
        asked: Mutex<Vec<InboundPort>>,
    }

    impl Rules {
        fn new() -> Self {
            Self { blocked: Vec::new(), restricted: None, is_broken: false, asked: Mutex::default() }
        }

        fn asked(&self) -> Vec<Address> {
            self.asked.lock().unwrap().drain(..).map(|port| port.local.address).collect()
        }
    }

    impl Firewall for Rules {
        fn inbound(&self, port: &InboundPort) -> Result<InboundVerdict, FirewallError> {
            self.asked.lock().unwrap().push(port.clone());
            if self.is_broken {
                return Err(FirewallError::Silent);
            }
            Ok(match port.local {
                at if self.blocked.contains(&(at.address, at.port)) => InboundVerdict::Blocked,
                at if self.restricted == Some(at.port) => InboundVerdict::Restricted,
                _ => InboundVerdict::Allowed,
            })
        }

        fn lets_out(&self, program: Option<&str>, _: PortProtocol, _: Option<u16>) -> Result<bool, FirewallError> {
            if self.is_broken { Err(FirewallError::Silent) } else { Ok(program != Some("kept in")) }
        }
    }

    fn bound(address: Address, port: u16, dual: bool) -> Bound {
        let local = Endpoint::new(address, port);
        Bound { protocol: Protocol::Tcp, local, dual, shares: false, reuses: false }
    }

    fn allow(rules: &Rules, bound: &Bound) -> Result<(), Reason> {
        InboundAnswers::default().allow(rules, Some(r"C:\p.exe"), bound, &[V4[0], V4[1], V6])
    }

    #[test]
    fn the_firewall_is_asked_for_each_address_at_which_a_socket_receives() {
        let rules = Rules::new();
        for (address, dual, expected) in [
            (V4[1], false, &[V4[1]][..]),
            (Address::ANY_V4, false, &V4),
            (Address::v4([239, 0, 0, 1]), false, &V4),
            (Address::ANY, false, &[V6]),
            (Address::ANY, true, &[V4[0], V4[1], V6]),
        ] {
            assert_eq!(allow(&rules, &bound(address, 80, dual)), Ok(()));
            assert_eq!(rules.asked(), expected);
        }
        let many: Vec<Address> = (0..20).map(|n| Address::v4([10, 0, 1, n])).collect();
        for (address, dual, expected) in
            [(Address::ANY_V4, false, &[Address::ANY_V4][..]), (Address::ANY, true, &[Address::ANY, Address::ANY_V4])]
        {
            let asked = InboundAnswers::default().allow(&rules, None, &bound(address, 80, dual), &many);
            assert_eq!((asked, rules.asked()), (Ok(()), expected.to_vec()));
        }
    }

    #[test]
    fn one_address_at_which_packets_are_blocked_keeps_the_port_with_the_kernel() {
        let blocked = vec![(V4[1], 80)];
        let mut rules = Rules { blocked, restricted: Some(81), ..Rules::new() };
        assert_eq!(allow(&rules, &bound(Address::ANY_V4, 80, false)), Err(Reason::FirewallBlocks));
        assert_eq!(allow(&rules, &bound(V4[0], 80, false)), Ok(()));
        assert_eq!(allow(&rules, &bound(V4[0], 81, false)), Err(Reason::FirewallRestricts));
        assert_eq!(allow(&rules, &bound(V4[0], 82, false)), Ok(()));
        rules.is_broken = true;
        assert_eq!(allow(&rules, &bound(V4[0], 82, false)), Err(Reason::FirewallUnknown));
    }

    #[test]
    fn a_program_whose_packets_may_not_leave_stays_with_the_kernel() {
        let (mut rules, socket) = (Rules::new(), bound(V4[0], 80, false));
        assert_eq!(lets_out(&rules, Some("another"), &socket, None), Ok(()));
        assert_eq!(lets_out(&rules, Some("kept in"), &socket, Some(80)), Err(Reason::FirewallKeepsIn));
        rules.is_broken = true;
        assert_eq!(lets_out(&rules, None, &socket, None), Err(Reason::FirewallUnknown));
    }

    #[test]
    fn the_same_question_is_asked_once() {
        let (rules, mut answers) = (Rules::new(), InboundAnswers::default());
        for program in [Some("a"), Some("a"), Some("b"), None] {
            answers.allow(&rules, program, &bound(V4[0], 80, false), &V4).unwrap();
        }
        assert_eq!(rules.asked().len(), 3);
    }
}
