//! Numbers that look random and are the same for the same seed: SplitMix64 (Steele, Lea and Flood, 2014).

pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number from 0 to 1, without 1.
    pub(super) fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.part() * bound as f64) as usize
    }

    /// Returns a time between two random events, with `rate` events in a nanosecond.
    pub(super) fn gap(&mut self, rate: f64) -> f64 {
        -(1.0 - self.part()).ln() / rate
    }
}
