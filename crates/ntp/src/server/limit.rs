//! Rate limit: a token bucket for each client address, in a table of fixed size.
//!
//! A bucket is stored as the time at which it will be full again (the "generic cell rate
//! algorithm"). This is one number, and an idle client needs no work. A full bucket equals an
//! absent one, so the table evicts the fullest first.

use core::hash::Hasher;
use core::net::IpAddr;
use siphasher::sip::SipHasher13;

const SECOND: i64 = 1_000_000_000;
/// Buckets per row of the table, and rows.
const WAYS: usize = 4;
const PLACES: usize = 4096;
/// A client receives at most one kiss (RATE or DENY) in this many ns.
const TELL: i64 = SECOND;
/// One in this many requests beyond the limit is answered: otherwise an attacker that forges a
/// client's address could block it for ever. Nothing in the request decides which one: otherwise a
/// client could craft requests that are all answered.
const LEAK: u64 = 16;
/// The significant part of an IPv6 address: the /64 that a subscriber usually has (RFC 6177).
/// Otherwise one subscriber could send from 2^64 addresses.
const NETWORK: u128 = !(u64::MAX as u128);

/// The rate limit of a client.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second, on average.
    pub per_second: f64,
    /// Requests in one burst.
    pub burst: u32,
}

/// The limiter's decision on a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Within,
    /// Beyond the limit, and the client is due a kiss.
    Tell,
    Beyond,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// The client's address as an IPv6 address; 0: an unused bucket.
    client: u128,
    /// When it is full again.
    full: i64,
    /// When the client was last sent a kiss.
    told: i64,
}

const NOBODY: Bucket = Bucket { client: 0, full: i64::MIN, told: i64::MIN };

#[derive(Clone, Debug)]
pub(super) struct Limit {
    /// The cost of a request, and the size of a full bucket, both in ns of filling. 0: there is no
    /// limit.
    cost: i64,
    size: i64,
    key: [u64; 2],
    /// Requests beyond the limit so far.
    beyond: u64,
    table: Box<[[Bucket; WAYS]]>,
}

impl Limit {
    pub(super) fn new(rate: Option<RateLimit>, key: [u64; 2]) -> Self {
        let cost = rate.map_or(0, |rate| (SECOND as f64 / rate.per_second.max(1e-6)) as i64);
        let size = cost.saturating_mul(rate.map_or(0, |rate| rate.burst.max(1)).into());
        Self { cost, size, key, beyond: 0, table: vec![[NOBODY; WAYS]; PLACES].into() }
    }

    /// Decides on a request that arrived at `now`.
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

    /// Whether the next request beyond the limit is answered anyway.
    fn leaks(&mut self) -> bool {
        self.beyond = self.beyond.wrapping_add(1);
        self.hash(|hasher| hasher.write_u64(self.beyond)).is_multiple_of(LEAK)
    }

    /// Whether a kiss to the client is due; if so, counts it as sent.
    pub(super) fn tell(&mut self, client: IpAddr, now: i64) -> bool {
        let bucket = self.bucket(client);
        let due = now.saturating_sub(bucket.told) >= TELL;
        if due {
            bucket.told = now;
            // Keeps this bucket from being the first to be evicted.
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
            // Evicts the fullest bucket: it is nearest to an absent one.
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

    const RATE: RateLimit = RateLimit { per_second: 10.0, burst: 5 };

    fn address(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    /// A limiter that answers nothing beyond the limit, so that the tests count exactly.
    fn tight() -> Limit {
        // Searches for a key whose first leak comes late.
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
    fn a_client_that_asks_too_often_is_told_once_a_second_and_others_notice_nothing() {
        let mut limit = Limit::new(Some(RATE), [1, 2]);
        let verdicts: Vec<_> = (0..3000).map(|tick| limit.take(address(1), tick * SECOND / 1000)).collect();
        assert_eq!(verdicts.iter().filter(|&&verdict| verdict == Verdict::Tell).count(), 3);
        assert_eq!(limit.take(address(2), SECOND), Verdict::Within);
    }

    #[test]
    fn a_client_limited_by_forgeries_is_answered_now_and_then() {
        let mut limit = Limit::new(Some(RATE), [1, 2]);
        let within = (0..16_000).filter(|_| limit.take(address(1), 0) == Verdict::Within).count();
        assert!((700..1300).contains(&within), "{within} of 16000");
    }

    #[test]
    fn a_flood_of_addresses_keeps_to_the_table_and_gains_no_more_than_a_bucket() {
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
            let mut limit = Limit::new(Some(RateLimit { per_second, burst }), [1, 2]);
            for now in times {
                let _ = limit.take(address(1), now);
            }
        }
    }
}
