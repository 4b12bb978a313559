//! The localities that have run out of work and were promised none yet.

use fom_protocol::sync::atomic::{AtomicU64, Ordering};

const BITS: usize = u64::BITS as usize;

/// One bit per locality. The bit is written when the locality falls asleep or wakes up, and when it is promised foms.
/// Where foms are moved, every busy locality reads the set between two runs; so it is packed, and mostly unchanged
/// where that matters.
pub(crate) struct IdleSet(Box<[AtomicU64]>);

impl IdleSet {
    pub(crate) fn new(localities: usize) -> Self {
        Self(
            (0..localities.div_ceil(BITS))
                .map(|_| AtomicU64::new(0))
                .collect(),
        )
    }

    // The inbox publishes the foms that are moved. These bits only say where foms are welcome, so nothing depends on
    // the order in which other threads see the bits.

    pub(super) fn add(&self, index: usize) {
        self.0[index / BITS].fetch_or(1 << (index % BITS), Ordering::Relaxed);
    }

    /// Removes a locality. Returns `true` only to the caller that removed it.
    pub(super) fn take(&self, index: usize) -> bool {
        let bit = 1 << (index % BITS);
        self.0[index / BITS].fetch_and(!bit, Ordering::Relaxed) & bit != 0
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| word.load(Ordering::Relaxed) == 0)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let word = word.load(Ordering::Relaxed);
            (0..BITS)
                .filter(move |bit| word >> bit & 1 == 1)
                .map(move |bit| at * BITS + bit)
        })
    }
}

#[cfg(all(test, not(fom_shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn any_number_of_localities() {
        let idle = IdleSet::new(130);
        assert!(idle.is_empty());
        for index in [0, 63, 64, 129] {
            idle.add(index);
            idle.add(index);
        }
        assert_eq!(idle.iter().collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert!(idle.take(64));
        assert!(!idle.take(64));
        assert_eq!(idle.iter().count(), 3);
    }
}
