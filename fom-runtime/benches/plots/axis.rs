//! An axis: the position of a value, and the values written at it.

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From zero, or from the least value if that is far from zero.
    Linear,
    /// Logarithmic: each decade has the same length.
    Log,
}

/// One axis, from `from` to `to` in drawing units.
#[derive(Debug)]
pub(crate) struct Axis {
    scale: Scale,
    least: f64,
    most: f64,
    from: f64,
    to: f64,
}

impl Axis {
    /// Makes an axis for all `values`, at least one. A linear axis begins at zero if `zero`.
    pub(crate) fn new(scale: Scale, values: &[f64], zero: bool, from: f64, to: f64) -> Self {
        let mut least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let mut most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        match scale {
            Scale::Linear => {
                if zero {
                    least = 0.0;
                    most *= 1.05;
                }
                if most <= least {
                    most = least + 1.0;
                }
            }
            Scale::Log => {
                // Zero has no place on this axis; no value drawn on it is zero.
                least = least.max(f64::MIN_POSITIVE);
                if zero {
                    least = 10f64.powf(least.log10().floor());
                    most = 10f64.powf(most.log10().ceil());
                }
                if most <= least {
                    most = least * 10.0;
                }
            }
        }
        Self {
            scale,
            least,
            most,
            from,
            to,
        }
    }

    /// Returns the position of `value`.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.least) / (self.most - self.least),
            Scale::Log => {
                (value.max(self.least) / self.least).log10() / (self.most / self.least).log10()
            }
        };
        self.from + share * (self.to - self.from)
    }

    /// Returns round values between the ends: about five, or the decades.
    pub(crate) fn ticks(&self) -> Vec<f64> {
        let inside = |value: &f64| *value >= self.least * 0.999 && *value <= self.most * 1.001;
        match self.scale {
            Scale::Linear => {
                let rough = (self.most - self.least) / 5.0;
                let decade = 10f64.powf(rough.log10().floor());
                let steps = [1.0, 2.0, 5.0, 10.0].map(|n| n * decade);
                let step = steps
                    .into_iter()
                    .find(|step| *step >= rough)
                    .unwrap_or(rough);
                let first = (self.least / step).ceil() as i64;
                (first..first + 12)
                    .map(|n| n as f64 * step)
                    .filter(inside)
                    .collect()
            }
            Scale::Log => {
                let first = self.least.log10().ceil() as i32;
                let decades = (first..first + 12).map(|n| 10f64.powi(n)).filter(inside);
                decades.collect()
            }
        }
    }
}

/// Formats `1500000` as `1.5M`.
pub(crate) fn label(value: f64) -> String {
    let (value, suffix) = match value.abs() {
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let text = format!("{value:.2}");
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let axis = Axis::new(Scale::Linear, &[3.0, 97.0], true, 0.0, 100.0);
        assert_eq!(axis.ticks(), [0.0, 50.0, 100.0]);
        let axis = Axis::new(Scale::Log, &[1.0, 1_000_000.0], false, 0.0, 100.0);
        assert_eq!(axis.ticks().len(), 7);
        assert_eq!((axis.at(1.0), axis.at(1_000.0)), (0.0, 50.0));
    }

    #[test]
    fn labels_are_short() {
        let labels = [0.0, 0.5, 12.0, 1_500.0, 2e6].map(label);
        assert_eq!(labels, ["0", "0.5", "12", "1.5k", "2M"]);
    }
}
