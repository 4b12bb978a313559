//! What the router measures, and tables of it.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use fom_runtime::{observe::TransitionOf, prelude::*};
use hdrhistogram::Histogram;

use crate::call::Call;
use crate::wire::udp::Net;

/// The time that calls have been in each phase, for each locality. A listener takes it: the phases themselves know
/// nothing of it.
#[derive(Clone)]
pub struct PhaseTimes(Arc<Measured>);

struct Measured {
    /// For each locality a histogram of microseconds for each phase. Listeners run inside the locality, so only one
    /// thread and the printer ever want each lock.
    localities: Vec<Mutex<Vec<Histogram<u64>>>>,
    phases: Vec<&'static str>,
    net: Net,
}

impl PhaseTimes {
    /// Begins to measure.
    pub(crate) fn watch(runtime: &Runtime, net: Net) -> PhaseTimes {
        // Calls never leave end phases, so there is nothing to measure.
        let stays = Call::GRAPH.phases().iter().filter(|phase| !phase.is_end());
        let phases: Vec<_> = stays.map(|phase| phase.name()).collect();
        let empty = || Mutex::new(phases.iter().map(|_| micros()).collect());
        let measured = Arc::new(Measured {
            localities: (0..runtime.localities()).map(|_| empty()).collect(),
            phases,
            net,
        });
        let times = PhaseTimes(Arc::clone(&measured));
        runtime
            .listen_to::<Call>(move |transition| measured.note(transition))
            .forever();
        times
    }

    /// Returns the number of calls, with those that only wait for stragglers.
    pub fn live(&self) -> u64 {
        self.0.net.calls() as u64
    }
}

impl Measured {
    fn note(&self, transition: &TransitionOf<'_, Call>) {
        let phase = |name| self.phases.iter().position(|phase| *phase == name);
        let Some(phase) = transition.from().and_then(phase) else {
            return;
        };
        let Some(locality) = self.localities.get(transition.locality()) else {
            return;
        };
        let stayed = transition.stayed().as_micros() as u64;
        locality.lock().unwrap_or_else(PoisonError::into_inner)[phase].saturating_record(stayed);
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
        for (at, phase) in self.0.phases.iter().enumerate() {
            for (index, locality) in self.0.localities.iter().enumerate() {
                let times = &locality.lock().unwrap_or_else(PoisonError::into_inner)[at];
                let name = if index == 0 { phase } else { "" };
                writeln!(f, "  {name:<10} {index:>8} {}", figures(times))?;
            }
        }
        Ok(())
    }
}

/// Formats the count, p50, p99 and the longest.
pub(crate) fn figures(times: &Histogram<u64>) -> String {
    if times.is_empty() {
        return format!("{:>10} {:>9} {:>9} {:>9}", 0, "-", "-", "-");
    }
    let at = |quantile| time(times.value_at_quantile(quantile));
    format!(
        "{:>10} {:>9} {:>9} {:>9}",
        count(times.len()),
        at(0.5),
        at(0.99),
        time(times.max())
    )
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
