//! A histogram of numbers: eight steps per octave, so a bound is at most an eighth above the number. Most are times in
//! nanoseconds.

use fom_protocol::{
    count,
    sync::atomic::{AtomicU64, Ordering},
};

/// The steps in which each octave is divided.
const PER_OCTAVE: u64 = 8;
/// The number of steps that cover all numbers.
const ALL: usize = 496;

/// A histogram that one thread writes at a time, and any thread reads.
pub(crate) struct Steps {
    counts: [AtomicU64; ALL],
}

impl Default for Steps {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; ALL],
        }
    }
}

/// Returns the step of a number.
#[inline]
fn step(number: u64) -> usize {
    if number < PER_OCTAVE {
        return number as usize;
    }
    let octave = number.ilog2() - PER_OCTAVE.ilog2();
    (u64::from(octave) * PER_OCTAVE + (number >> octave)) as usize
}

/// Returns the largest number of a step.
pub(crate) fn bound(step: usize) -> u64 {
    let step = step as u64 + 1;
    let octave = (step / PER_OCTAVE).saturating_sub(1);
    let lowest = u128::from(step - octave * PER_OCTAVE) << octave;
    u64::try_from(lowest - 1).unwrap_or(u64::MAX)
}

impl Steps {
    /// Adds a number. Only one thread at a time calls this.
    #[inline]
    pub(crate) fn add(&self, number: u64) {
        count(&self.counts[step(number)], 1);
    }

    /// Adds the counts to those of the steps in `to`.
    pub(crate) fn add_to(&self, to: &mut [u64; ALL]) {
        for (to, count) in to.iter_mut().zip(&self.counts) {
            *to += count.load(Ordering::Relaxed);
        }
    }
}

/// The counts of all steps, for [`Steps::add_to`].
pub(crate) const NONE: [u64; ALL] = [0; ALL];

#[cfg(test)]
mod tests {
    use super::{ALL, bound, step};

    #[test]
    fn a_time_is_within_its_step() {
        let samples =
            (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, (1 << bit) + 1, 9 << bit >> 3]);
        for nanos in samples.chain([u64::MAX]) {
            let of = step(nanos);
            assert!(nanos <= bound(of), "{nanos} in {of}");
            assert!(of == 0 || nanos > bound(of - 1), "{nanos} in {of}");
        }
    }

    #[test]
    fn a_step_is_an_eighth_of_an_octave() {
        assert_eq!(step(u64::MAX), ALL - 1);
        assert_eq!(bound(ALL - 1), u64::MAX);
        for of in 8..ALL - 1 {
            let (low, high) = (bound(of - 1), bound(of));
            assert!(low < high && high - low <= low / 8 + 1, "{of}");
        }
    }
}
