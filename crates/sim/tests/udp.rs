//! UDP between two hosts.

use tickwire_sim::{Pair, PairConfig};
use tickwire_stack::addr::{Address, Endpoint};
use tickwire_stack::time::Span;
use tickwire_stack::udp::{SendTo, UdpOptions};
use tickwire_stack::{Error, UdpId};

fn open(pair: &mut Pair, host: usize, address: Address, port: u16) -> UdpId {
    let mut stack = pair.stack(host);
    let id = stack.udp_open(UdpOptions::default()).unwrap();
    stack.udp_bind(id, Endpoint::new(address, port)).unwrap();
    id
}

fn send(pair: &mut Pair, host: usize, id: UdpId, to: Endpoint, bytes: &[u8]) -> Result<usize, Error> {
    let now = pair.now();
    let to = SendTo { destination: Some(to), ..SendTo::default() };
    pair.stack(host).udp_send(id, now, &to, &mut &bytes[..])
}

fn received(pair: &mut Pair, host: usize, id: UdpId) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    loop {
        let mut bytes = Vec::new();
        match pair.stack(host).udp_recv(id, false, &mut bytes) {
            Ok(datagram) => {
                assert_eq!(datagram.len, bytes.len());
                all.push(bytes);
            }
            Err(Error::WouldBlock) => return all,
            Err(other) => panic!("{other}"),
        }
    }
}

fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add((i >> 8) as u8) ^ salt).collect()
}

/// Both families, all sizes around every border, up to the largest datagram there is.
#[test]
fn datagrams_of_every_size_arrive_whole() {
    for family in 0..2 {
        let mut pair = Pair::new(&PairConfig::default());
        let [from, to] = [0, 1].map(|h| pair.host(h).addresses[family]);
        let a = open(&mut pair, 0, from, 1000);
        let b = open(&mut pair, 1, to, 2000);
        let sizes =
            [0, 1, 2, 7, 63, 64, 1400, 1451, 1452, 1453, 1471, 1472, 1473, 1920, 1921, 2960, 8972, 30_001, 65_507];
        for (salt, size) in sizes.into_iter().enumerate() {
            let sent = pattern(size, salt as u8);
            assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), &sent), Ok(size));
            pair.run_for(Span::from_millis(1));
            assert_eq!(received(&mut pair, 1, b), [sent], "family {family}, {size} bytes");
        }
        let most = [65_507, 65_527][family];
        assert_eq!(send(&mut pair, 0, a, Endpoint::new(to, 2000), &vec![0; most + 1]), Err(Error::MessageTooLong));
        pair.run_for(Span::from_millis(1));
        assert_eq!((pair.frames_held(0), pair.frames_held(1)), (0, 0));
    }
}
