//! Numbers and times for a reader.

/// Returns a time in seconds with one unit or two: `2.1 ms`, `41.2 s`, `15 min 26 s`.
pub(crate) fn time(seconds: f64) -> String {
    if !seconds.is_finite() {
        return "?".to_owned();
    }
    let digits = |value: f64| match value < 9.95 {
        true => format!("{value:.1}"),
        false => format!("{value:.0}"),
    };
    match seconds {
        none if none <= 0.0 => "0 s".to_owned(),
        small if small < 9.995e-4 => format!("{} us", digits(small * 1e6)),
        small if small < 0.9995 => format!("{} ms", digits(small * 1e3)),
        some if some < 99.95 => format!("{some:.1} s"),
        some if some < 5400.0 => two(some, 60.0, "min", 1.0, "s"),
        some if some < 2.0 * 86400.0 => two(some, 3600.0, "h", 60.0, "min"),
        some => two(some, 86400.0, "d", 3600.0, "h"),
    }
}

fn two(seconds: f64, large: f64, large_name: &str, small: f64, small_name: &str) -> String {
    let all = (seconds / small).round();
    let whole = (all * small / large).floor();
    let rest = all - (whole * large / small).round();
    match rest < 1.0 {
        true => format!("{whole:.0} {large_name}"),
        false => format!("{whole:.0} {large_name} {rest:.0} {small_name}"),
    }
}

/// Returns a time in seconds for narrow places: `15m26s`.
pub(crate) fn brief(seconds: f64) -> String {
    let text = time(seconds).replace("min", "m");
    match text.matches(' ').count() {
        1 => text,
        _ => text.replace(' ', ""),
    }
}

/// Returns a rate by second. Without a value, it is not known yet.
pub(crate) fn rate(by_second: Option<f64>) -> String {
    match by_second {
        None => "-".to_owned(),
        Some(none) if none <= 0.0 => "0".to_owned(),
        Some(small) if small < 0.01 => "<0.01".to_owned(),
        Some(small) if small < 1.0 => format!("{small:.2}"),
        Some(some) if some < 1000.0 => format!("{some:.1}"),
        Some(many) => format!("{many:.0}"),
    }
}

/// Returns a number with its noun: `1 fom`, `2 foms`.
pub(crate) fn plural(number: u64, one: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        many => format!("{many} {one}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_has_the_units_that_matter() {
        for (seconds, long, short) in [
            (0.0, "0 s", "0 s"),
            (0.000_068_6, "69 us", "69 us"),
            (0.002_13, "2.1 ms", "2.1 ms"),
            (0.9999, "1.0 s", "1.0 s"),
            (41.23, "41.2 s", "41.2 s"),
            (119.7, "2 min", "2 m"),
            (926.0, "15 min 26 s", "15m26s"),
            (11_640.0, "3 h 14 min", "3h14m"),
            (300_000.0, "3 d 11 h", "3d11h"),
            (f64::NAN, "?", "?"),
        ] {
            assert_eq!(
                (&*time(seconds), &*brief(seconds)),
                (long, short),
                "{seconds}"
            );
        }
    }
}
