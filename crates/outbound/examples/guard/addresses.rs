//! Addresses for trying the guard: random ones, those at the borders of every row, and those that carry an IPv4 address.

use super::oracle::{Interval, Oracle};

/// `64:ff9b::/96`.
pub(crate) const WELL_KNOWN: u128 = 0x0064_ff9b << 96;

/// Pseudo-random numbers that a seed repeats (`SplitMix64`).
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(crate) fn next_u128(&mut self) -> u128 {
        u128::from(self.next_u64()) << 64 | u128::from(self.next_u64())
    }

    pub(crate) fn next_u32(&mut self) -> u32 {
        u32::try_from(self.next_u64() >> 32).expect("32 bits")
    }

    /// A number below `bound`, which is small.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).expect("a small bound");
        usize::try_from(self.next_u64() % bound).expect("below a small bound")
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())]
    }

    pub(crate) fn one_in(&mut self, chances: usize) -> bool {
        self.below(chances) == 0
    }
}

/// An IPv4 address: any, or one at a border of a row.
pub(crate) fn any_v4(random: &mut Random, oracle: &Oracle) -> u32 {
    if random.one_in(2) {
        random.next_u32()
    } else {
        let bits = at_a_border(random, &oracle.rows_v4);
        u32::try_from(bits & u128::from(u32::MAX)).expect("32 bits")
    }
}

/// An IPv6 address: any, any of global unicast, one at a border of a row, or one that carries an IPv4 address.
pub(crate) fn any_v6(random: &mut Random, oracle: &Oracle) -> u128 {
    match random.below(8) {
        0 => random.next_u128(),
        1 | 2 => 1 << 125 | random.next_u128() >> 3,
        3 | 4 => at_a_border(random, &oracle.rows_v6),
        _ => embedding(random, oracle),
    }
}

fn at_a_border(random: &mut Random, rows: &[Interval]) -> u128 {
    let (first, last) = random.pick(rows);
    let near = u128::from(random.next_u64() & 0xff);
    match random.below(6) {
        0 => first,
        1 => last,
        2 => first.wrapping_sub(1 + near),
        3 => last.wrapping_add(1 + near),
        4 => first.saturating_add(near).min(last),
        _ => first + random.next_u128() % (last - first + 1),
    }
}

/// One of the forms that carry an IPv4 address, with now and then a bit flipped.
fn embedding(random: &mut Random, oracle: &Oracle) -> u128 {
    let v4 = u128::from(any_v4(random, oracle));
    let public = 1 << 125 | random.next_u128() >> 3;
    let upper = public >> 64 << 64;
    let bits = match random.below(14) {
        0 => 0xffff << 32 | v4,
        1 => v4,
        2 => 0xffff << 48 | v4,
        3 => WELL_KNOWN | v4,
        4 => 0x0064_ff9b_0001 << 80 | v4,
        5 => 0x0064_ff9b_0001 << 80 | v4 >> 16 << 64 | (v4 & 0xffff) << 40,
        6 => 0x2002 << 112 | v4 << 80 | random.next_u128() >> 48,
        7 => 0x2001 << 112 | v4 << 64 | u128::from(random.next_u64()),
        8 => {
            let server = u128::from(random.next_u32());
            0x2001 << 112 | server << 64 | (v4 ^ u128::from(u32::MAX))
        }
        9 => upper | 0x5efe << 32 | v4,
        10 => upper | 0x0200_5efe << 32 | v4,
        // RFC 6052 section 2.2 under a prefix that nobody told the guard.
        11 => public >> 96 << 96 | v4 << 64,
        12 => public >> 80 << 80 | v4 >> 16 << 64 | (v4 & 0xffff) << 40,
        _ => public >> 64 << 64 | v4 << 24,
    };
    if random.one_in(8) {
        bits ^ 1 << random.below(128)
    } else {
        bits
    }
}
