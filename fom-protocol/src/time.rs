//! Times as numbers.

use std::time::Duration;

/// Returns the duration in nanoseconds, at most `u64::MAX` (584 years).
#[inline]
pub fn nanos(duration: Duration) -> u64 {
    // Without 128-bit arithmetic, since each look at the clock runs this.
    duration
        .as_secs()
        .saturating_mul(1_000_000_000)
        .saturating_add(duration.subsec_nanos().into())
}

#[cfg(all(test, not(any(fom_loom, fom_shuttle))))]
mod tests {
    use super::*;

    #[test]
    fn nanoseconds_stop_at_what_64_bits_hold() {
        let most = Duration::from_nanos(u64::MAX);
        assert_eq!(nanos(most), u64::MAX);
        assert_eq!(nanos(most - Duration::from_nanos(1)), u64::MAX - 1);
        assert_eq!(nanos(most + Duration::from_nanos(1)), u64::MAX);
        assert_eq!(nanos(Duration::MAX), u64::MAX);
        assert_eq!(nanos(Duration::new(3, 7)), 3_000_000_007);
    }
}
