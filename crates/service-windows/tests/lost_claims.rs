//! Claims that the firewall ends, and what becomes of the connections under them.
#![cfg(windows)]

mod common;

use common::{CLAIM, Running, ask};
use std::net::TcpListener;
use std::os::windows::io::AsSocket;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};
use tickwire_host_windows::{Firewall, FirewallError, InboundPort, InboundVerdict, PortProtocol};
use tickwire_lane::control::{Push, Reason, Reply};
use tickwire_lane_windows::control::Unawaited;
use tickwire_lane_windows::lane_memory::{LIMITS, SECTION_BYTES};
use tickwire_lane_windows::pulled_socket::handle_of;
use tickwire_lane_windows::section::{SharedSection, WritableView};
use tickwire_stack::addr::{Address, Endpoint, Mac};
use tickwire_stack::table::{SocketRow, kind};

/// Where the test's network card is: see `common`.
const CARD: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEER: Address = Address::v4([10, 0, 0, 2]);
const RST: u8 = 4;

/// A firewall that lets all in, or nothing, and notes the address of which it was asked last.
#[derive(Default)]
struct OneRule {
    blocks: AtomicBool,
    asked: Mutex<Option<Address>>,
}

impl Firewall for OneRule {
    fn inbound(&self, port: &InboundPort) -> Result<InboundVerdict, FirewallError> {
        *self.asked.lock().unwrap() = Some(port.local.address);
        Ok(if self.blocks.load(SeqCst) { InboundVerdict::Blocked } else { InboundVerdict::Allowed })
    }

    fn lets_out(&self, _: Option<&str>, _: PortProtocol, _: Option<u16>) -> Result<bool, FirewallError> {
        Ok(true)
    }
}

/// Writes a row of an established connection, as a program's stack does.
fn connect(section: &WritableView, number: usize, local: Endpoint, remote: Endpoint) {
    let row = SocketRow::default();
    row.local.set(local);
    row.remote.set(remote);
    row.source_mac.set(CARD);
    row.next_hop_mac.set(Mac([2, 0, 0, 0, 0, 2]));
    row.state.set(1);
    row.kind.set(kind::TCP);
    let size = size_of::<SocketRow>();
    // SAFETY: a whole row, which lives until the end of this function.
    let bytes = unsafe { std::slice::from_raw_parts((&raw const row).cast::<u8>(), size) };
    section.copy_in(SECTION_BYTES - (LIMITS.rows() - number) * size, bytes);
}

/// The ports of a reset.
fn reset(frame: &[u8]) -> Option<(u16, u16)> {
    let tcp = frame.get(34..54)?;
    let port = |at: usize| u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    (tcp[13] & RST != 0).then(|| (port(0), port(2)))
}

#[test]
fn peers_of_a_listener_whose_claim_ends_are_told() {
    let rule = Arc::new(OneRule::default());
    let service = Running::behind(Arc::clone(&rule) as Arc<dyn Firewall>);
    let (mut program, mut handles) = service.program();
    let section = SharedSection::from(handles.take(0).unwrap()).view_writable(SECTION_BYTES).unwrap();
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (reply, _) = ask(&mut program, &CLAIM, &[handle_of(listener.as_socket())]);
    let Reply::Claimed { claim: held, .. } = reply else { panic!("{reply:?}") };
    let here = rule.asked.lock().unwrap().expect("the card has an address");
    let remote = |port| Endpoint::new(PEER, port);
    connect(&section, 0, Endpoint::new(here, port), remote(9000));
    connect(&section, 5, Endpoint::new(here, port), remote(9001));
    connect(&section, 7, Endpoint::new(here, port ^ 1), remote(9002));
    rule.blocks.store(true, SeqCst);
    let begin = Instant::now();
    loop {
        match program.take().unwrap() {
            Some(Unawaited::Push(Push::ClaimLost { claim, reason })) => {
                assert_eq!((claim, reason), (held, Reason::FirewallBlocks));
                break;
            }
            other => assert!(other.is_none(), "{other:?}"),
        }
        assert!(begin.elapsed() < Duration::from_secs(30));
        thread::sleep(Duration::from_millis(5));
    }
    let resets: Vec<_> = service.sent().iter().filter_map(|frame| reset(frame)).collect();
    assert_eq!(resets, [(port, 9000), (port, 9001)], "and none of a port that is not its own");
    assert_eq!(service.sent().len(), 2);
}
