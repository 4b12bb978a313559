//! What the router measures, and tables of it.

use std::fmt;

use fom_runtime::{observe, prelude::*};
use hdrhistogram::Histogram;

use crate::call::Call;
use crate::wire::udp::Net;

/// The time that calls have been in each phase, for each locality. The counters of the runtime have it: the phases know
/// nothing of it.
#[derive(Clone)]
pub struct PhaseTimes {
    runtime: Runtime,
    net: Net,
}

impl PhaseTimes {
    /// Reads the counters of this runtime, which must count.
    pub(crate) fn of(runtime: &Runtime, net: Net) -> PhaseTimes {
        let runtime = runtime.clone();
        PhaseTimes { runtime, net }
    }

    /// Returns the number of calls, with those that only wait for stragglers.
    pub fn live(&self) -> u64 {
        self.net.calls() as u64
    }
}

impl fmt::Debug for PhaseTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PhaseTimes")
            .field("live", &self.live())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for PhaseTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  {:<10} {:>8} {:>10} {:>9} {:>9} {:>9}",
            "phase", "locality", "visits", "p50", "p99", "max"
        )?;
        let counters = self.runtime.inspect().counters().operations;
        let mut types = counters.iter();
        let calls = types.find(|of| of.operation == Call::GRAPH.operation());
        // Calls never leave end phases, so there is nothing to measure.
        let phases = Call::GRAPH.phases().iter().enumerate();
        for (at, phase) in phases.filter(|(_, phase)| !phase.is_end()) {
            for index in 0..self.runtime.localities() {
                let name = if index == 0 { phase.name() } else { "" };
                let figures = match calls {
                    Some(calls) => steps(&calls.phases[at].localities[index]),
                    None => row(0, [0; 3]),
                };
                writeln!(f, "  {name:<10} {index:>8} {figures}")?;
            }
        }
        Ok(())
    }
}

/// Formats the count, p50, p99 and the longest, each at most an eighth too long.
fn steps(times: &observe::Histogram) -> String {
    let at = |share| {
        times
            .quantile(share)
            .map_or(0, |time| time.as_micros() as u64)
    };
    row(times.count(), [at(0.5), at(0.99), at(1.0)])
}

/// Formats the count, p50, p99 and the longest.
pub(crate) fn figures(times: &Histogram<u64>) -> String {
    let at = |quantile| times.value_at_quantile(quantile);
    row(times.len(), [at(0.5), at(0.99), times.max()])
}

/// Formats a count, and times in microseconds.
fn row(number: u64, times: [u64; 3]) -> String {
    if number == 0 {
        return format!("{:>10} {:>9} {:>9} {:>9}", 0, "-", "-", "-");
    }
    let [p50, p99, max] = times.map(time);
    format!("{:>10} {p50:>9} {p99:>9} {max:>9}", count(number))
}

/// Formats a number with separated thousands.
pub(crate) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Formats a time in microseconds, in a suitable unit.
fn time(micros: u64) -> String {
    match micros {
        ..1_000 => format!("{micros} us"),
        1_000..1_000_000 => format!("{:.1} ms", micros as f64 / 1e3),
        _ => format!("{:.1} s", micros as f64 / 1e6),
    }
}

/// Creates an empty histogram of microseconds, up to a day, to two digits.
pub(crate) fn micros() -> Histogram<u64> {
    Histogram::new_with_bounds(1, 86_400_000_000, 2)
        .expect("constants: the bounds are in order, two digits are few")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_easy_to_read() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(time(12), "12 us");
        assert_eq!(time(1_234), "1.2 ms");
        assert_eq!(time(31_900_000), "31.9 s");
    }
}
