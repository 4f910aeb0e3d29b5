//! How often each client may ask: a token bucket for each address, in a table of fixed size.
//!
//! A bucket is kept as the time at which it will be full again (the "generic cell rate algorithm"):
//! one number, and nothing to do while nobody asks. A full bucket is the same as none, so what the
//! table forgets first costs nobody anything.

use core::hash::Hasher;
use core::net::IpAddr;
use siphasher::sip::SipHasher13;

const SECOND: i64 = 1_000_000_000;
/// Addresses that share a place in the table, and places.
const WAYS: usize = 4;
const PLACES: usize = 4096;
/// A client is told at most once in so many ns that it asks too often, or may not ask.
const TELL: i64 = SECOND;
/// One in so many requests beyond the limit is answered all the same: or else who forges a client's
/// address could shut it out for ever. Which one nothing in the request decides: else who asks
/// could choose it so that all are.
const LEAK: u64 = 16;
/// The part of an IPv6 address that counts: what one subscriber has commonly (RFC 6177), who could
/// otherwise ask from 2^64 addresses.
const NETWORK: u128 = !(u64::MAX as u128);

/// How often a client may ask.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate {
    /// So often in a second, on average.
    pub per_second: f64,
    /// So often at once.
    pub burst: u32,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Within,
    /// Beyond the limit, and it is time to say so.
    Tell,
    Beyond,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// In IPv6's form; 0: nobody.
    client: u128,
    /// When it is full again.
    full: i64,
    /// When the client was told last that it asks too often.
    told: i64,
}

const NOBODY: Bucket = Bucket { client: 0, full: i64::MIN, told: i64::MIN };

#[derive(Clone, Debug)]
pub(super) struct Limit {
    /// What a request takes out of a bucket, and how much a full one holds, both in ns of filling.
    /// 0: there is no limit.
    cost: i64,
    size: i64,
    key: [u64; 2],
    /// Requests beyond the limit so far.
    beyond: u64,
    table: Box<[[Bucket; WAYS]]>,
}

impl Limit {
    pub(super) fn new(rate: Option<Rate>, key: [u64; 2]) -> Self {
        let cost = rate.map_or(0, |rate| (SECOND as f64 / rate.per_second.max(1e-6)) as i64);
        let size = cost.saturating_mul(rate.map_or(0, |rate| rate.burst.max(1)).into());
        Self { cost, size, key, beyond: 0, table: vec![[NOBODY; WAYS]; PLACES].into() }
    }

    /// A request came at `now`.
    pub(super) fn take(&mut self, client: IpAddr, now: i64) -> Verdict {
        if self.cost == 0 {
            return Verdict::Within;
        }
        let (cost, size) = (self.cost, self.size);
        let bucket = self.bucket(client);
        let full = bucket.full.max(now).saturating_add(cost);
        if full.saturating_sub(now) <= size {
            bucket.full = full;
            Verdict::Within
        } else if self.leaks() {
            Verdict::Within
        } else if self.tell(client, now) {
            Verdict::Tell
        } else {
            Verdict::Beyond
        }
    }

    /// Whether the next request beyond the limit is one that is answered.
    fn leaks(&mut self) -> bool {
        self.beyond = self.beyond.wrapping_add(1);
        self.hash(|hasher| hasher.write_u64(self.beyond)).is_multiple_of(LEAK)
    }

    /// Whether it is time to tell a client that something is wrong; if so, it counts as told.
    pub(super) fn tell(&mut self, client: IpAddr, now: i64) -> bool {
        let bucket = self.bucket(client);
        let due = now.saturating_sub(bucket.told) >= TELL;
        if due {
            bucket.told = now;
            // Not the first to be forgotten.
            bucket.full = bucket.full.max(now);
        }
        due
    }

    fn bucket(&mut self, client: IpAddr) -> &mut Bucket {
        let client = match client {
            IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(_) => address.to_bits(),
                None => address.to_bits() & NETWORK,
            },
        };
        let place = self.hash(|hasher| hasher.write_u128(client)) as usize % PLACES;
        let ways = &mut self.table[place];
        let at = ways.iter().position(|bucket| bucket.client == client).unwrap_or_else(|| {
            // The fullest bucket gives way: it is nearest to none.
            let (at, _) = ways.iter().enumerate().min_by_key(|(_, bucket)| bucket.full).expect("ways");
            ways[at] = Bucket { client, ..NOBODY };
            at
        });
        &mut ways[at]
    }

    fn hash(&self, what: impl FnOnce(&mut SipHasher13)) -> u64 {
        let mut hasher = SipHasher13::new_with_keys(self.key[0], self.key[1]);
        what(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::Ipv4Addr;
    use proptest::prelude::*;

    const RATE: Rate = Rate { per_second: 10.0, burst: 5 };

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    /// One that answers nothing beyond the limit, so that the tests count exactly.
    fn tight() -> Limit {
        // Of all keys one is found whose first leak comes late.
        (0..)
            .map(|key| Limit::new(Some(RATE), [key, 2]))
            .find(|limit| {
                let mut trial = limit.clone();
                !(0..120).any(|_| trial.leaks())
            })
            .expect("a key")
    }

    #[test]
    fn a_burst_then_the_rate() {
        let mut limit = tight();
        let mut within = |now: i64| limit.take(address(1), now) == Verdict::Within;
        assert_eq!((0..20).filter(|_| within(0)).count(), 5);
        assert_eq!((0..100).filter(|tick| within(SECOND / 50 * tick)).count(), 19, "two seconds at 50 a second");
        assert_eq!((0..20).filter(|_| within(60 * SECOND)).count(), 5, "full again, and not more than full");
    }

    #[test]
    fn who_asks_too_often_is_told_once_a_second_and_others_notice_nothing() {
        let mut limit = Limit::new(Some(RATE), [1, 2]);
        let verdicts: Vec<_> = (0..3000).map(|tick| limit.take(address(1), tick * SECOND / 1000)).collect();
        assert_eq!(verdicts.iter().filter(|&&verdict| verdict == Verdict::Tell).count(), 3);
        assert_eq!(limit.take(address(2), SECOND), Verdict::Within);
    }

    #[test]
    fn who_is_limited_by_forgeries_is_answered_now_and_then() {
        let mut limit = Limit::new(Some(RATE), [1, 2]);
        let within = (0..16_000).filter(|_| limit.take(address(1), 0) == Verdict::Within).count();
        assert!((700..1300).contains(&within), "{within} of 16000");
    }

    #[test]
    fn a_flood_of_addresses_keeps_to_the_table_and_gives_nobody_more_than_a_bucket() {
        let mut limit = tight();
        for client in 0..200_000 {
            assert_eq!(limit.take(address(client), i64::from(client)), Verdict::Within);
        }
        assert_eq!(limit.table.len() * WAYS, 16_384);
        let now = SECOND;
        assert_eq!((0..20).filter(|_| limit.take(address(7), now) == Verdict::Within).count(), 5);
    }

    #[test]
    fn a_subscribers_ipv6_addresses_share_a_bucket_and_ipv4_ones_do_not() {
        let mut limit = tight();
        let v6 = |low: u64| IpAddr::from(core::net::Ipv6Addr::from_bits(0x2001_0db8 << 96 | u128::from(low)));
        assert_eq!((0..50).filter(|&low| limit.take(v6(low), 0) == Verdict::Within).count(), 5);
        let v4 = |number: u32| Ipv4Addr::from_bits(0x0a00_0000 + number).to_ipv6_mapped().into();
        assert!((0..50).all(|number| limit.take(v4(number), 0) == Verdict::Within), "however a socket writes them");
    }

    #[test]
    fn without_a_rate_there_is_no_limit() {
        let mut limit = Limit::new(None, [1, 2]);
        assert!((0..1000).all(|_| limit.take(address(1), 0) == Verdict::Within));
    }

    proptest! {
        #[test]
        fn no_time_and_no_rate_is_too_strange(times in proptest::collection::vec(any::<i64>(), 0..50), per_second in any::<f64>(), burst in any::<u32>()) {
            let mut limit = Limit::new(Some(Rate { per_second, burst }), [1, 2]);
            for now in times {
                let _ = limit.take(address(1), now);
            }
        }
    }
}
