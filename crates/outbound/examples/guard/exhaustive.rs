//! Every IPv4 address, each plain, mapped and translated, and a great many IPv6 addresses: the guard against the oracle.

use std::{
    fmt,
    hint::black_box,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use outbound::{Verdict, judge};

use super::{
    addresses::{self, Random},
    oracle::Oracle,
};

/// Addresses of one piece of work: a /8 of IPv4, and about as much work of IPv6.
const PIECE_V4: u32 = 1 << 24;
const PIECE_V6: u64 = 1_000_000;
/// Differences that are shown; the rest is counted.
const SHOWN: usize = 20;

/// How many were judged, and with what outcome.
#[derive(Debug, Default, Clone, Copy)]
struct Count {
    public: u64,
    blocked: u64,
    differences: u64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.public += other.public;
        self.blocked += other.blocked;
        self.differences += other.differences;
    }

    /// Notes what the guard and the oracle say of `times` addresses.
    fn note(&mut self, guard_says_public: bool, oracle_says_public: bool) {
        if guard_says_public {
            self.public += 1;
        } else {
            self.blocked += 1;
        }
        self.differences += u64::from(guard_says_public != oracle_says_public);
    }
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:>13} judged  {:>13} public  {:>13} blocked  {} differences",
            self.public + self.blocked,
            self.public,
            self.blocked,
            self.differences
        )
    }
}

#[derive(Debug, Default)]
struct Totals {
    plain: Count,
    mapped: Count,
    translated: Count,
    v6: Count,
    shown: Vec<String>,
}

/// Judges them all and prints the counts. True if guard and oracle never differ.
pub(crate) fn run(seed: u64, random_v6: u64) -> bool {
    let oracle = Oracle::new();
    let threads = thread::available_parallelism().map_or(1, usize::from);
    println!(
        "guard-exhaustive: all 4294967296 IPv4 addresses three times, {random_v6} IPv6 addresses, {threads} threads, seed {seed}"
    );
    let started = Instant::now();
    let totals = Mutex::new(Totals::default());
    let next_v4 = AtomicU32::new(0);
    let next_v6 = AtomicU64::new(0);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut mine = Totals::default();
                loop {
                    let piece = next_v4.fetch_add(1, Ordering::Relaxed);
                    if piece > u32::MAX / PIECE_V4 {
                        break;
                    }
                    v4_piece(&oracle, piece * PIECE_V4, &mut mine);
                }
                loop {
                    let piece = next_v6.fetch_add(1, Ordering::Relaxed);
                    if piece * PIECE_V6 >= random_v6 {
                        break;
                    }
                    let count = PIECE_V6.min(random_v6 - piece * PIECE_V6);
                    v6_piece(&oracle, Random::new(seed ^ piece), count, &mut mine);
                }
                let mut all = totals.lock().unwrap_or_else(PoisonError::into_inner);
                all.plain.add(mine.plain);
                all.mapped.add(mine.mapped);
                all.translated.add(mine.translated);
                all.v6.add(mine.v6);
                all.shown.append(&mut mine.shown);
            });
        }
    });
    let totals = totals.into_inner().unwrap_or_else(PoisonError::into_inner);
    println!("IPv4              {}", totals.plain);
    println!("IPv4 mapped       {}", totals.mapped);
    println!("IPv4 in 64:ff9b:: {}", totals.translated);
    println!("IPv6              {}", totals.v6);
    for difference in totals.shown.iter().take(SHOWN) {
        println!("{difference}");
    }
    println!("took {:.1} s", started.elapsed().as_secs_f64());
    speed(seed);
    let differences = [totals.plain, totals.mapped, totals.translated, totals.v6]
        .iter()
        .map(|count| count.differences)
        .sum::<u64>();
    println!("differences: {differences}");
    differences == 0
}

fn v4_piece(oracle: &Oracle, first: u32, totals: &mut Totals) {
    let last = first + (PIECE_V4 - 1);
    let mut at = first;
    loop {
        let (is_public, end) = oracle.stretch_v4(at);
        let end = end.min(last);
        for bits in at..=end {
            let v4 = Ipv4Addr::from_bits(bits);
            let translated = Ipv6Addr::from_bits(addresses::WELL_KNOWN | u128::from(bits));
            for (count, address) in [
                (&mut totals.plain, IpAddr::V4(v4)),
                (&mut totals.mapped, IpAddr::V6(v4.to_ipv6_mapped())),
                (&mut totals.translated, IpAddr::V6(translated)),
            ] {
                let guard_says_public = judge(address) == Verdict::Public;
                count.note(guard_says_public, is_public);
                if guard_says_public != is_public && totals.shown.len() < SHOWN {
                    totals.shown.push(difference(address, is_public));
                }
            }
        }
        if end == last {
            return;
        }
        at = end + 1;
    }
}

fn v6_piece(oracle: &Oracle, mut random: Random, count: u64, totals: &mut Totals) {
    for _ in 0..count {
        let bits = addresses::any_v6(&mut random, oracle);
        let address = IpAddr::V6(Ipv6Addr::from_bits(bits));
        let is_public = oracle.is_public_v6(bits);
        let guard_says_public = judge(address) == Verdict::Public;
        totals.v6.note(guard_says_public, is_public);
        if guard_says_public != is_public && totals.shown.len() < SHOWN {
            totals.shown.push(difference(address, is_public));
        }
    }
}

fn difference(address: IpAddr, is_public: bool) -> String {
    format!(
        "{address}: the guard says {:?}, the oracle {}",
        judge(address),
        if is_public { "public" } else { "not public" }
    )
}

/// Prints how long one judgement takes, for the kinds of addresses that come up.
pub(crate) fn speed(seed: u64) {
    let oracle = Oracle::new();
    let mut random = Random::new(seed);
    let mut many = |next: &mut dyn FnMut(&mut Random) -> IpAddr| -> Vec<IpAddr> {
        (0..65_536).map(|_| next(&mut random)).collect()
    };
    let kinds = [
        (
            "IPv4, any",
            many(&mut |random| IpAddr::V4(Ipv4Addr::from_bits(random.next_u32()))),
        ),
        (
            "IPv6, global unicast",
            many(&mut |random| IpAddr::V6(Ipv6Addr::from_bits(1 << 125 | random.next_u128() >> 3))),
        ),
        (
            "IPv6, embedding and borders",
            many(&mut |random| IpAddr::V6(Ipv6Addr::from_bits(addresses::any_v6(random, &oracle)))),
        ),
    ];
    for (kind, addresses) in kinds {
        let rounds = (0..20).map(|_| {
            let started = Instant::now();
            for &address in &addresses {
                black_box(judge(black_box(address)));
            }
            started.elapsed()
        });
        let best = rounds.min().unwrap_or(Duration::ZERO);
        let count = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        println!(
            "{kind}: {:.1} ns per address judged",
            best.as_secs_f64() * 1e9 / f64::from(count)
        );
    }
}
